"""The fence around a table: which files outside the table's own directory may be deleted.

The writers of a table determine its schemas and manifests. If these name files outside, this is a claim, never a
permission. So a file outside may be deleted only if all of this holds:

- A schema of the table declares a root above it.
- The operator allows a root above it, in the same kind of store as the table. Neither a schema nor a plan can allow it.
- This root does not overlap with the table or the control location.
- The file is a data, changelog, extra or index file, in a folder where Paimon puts such files below the declared root.
- No folder above it contains `snapshot/` or `schema/`, since this would be another table.

The planner asks the fence, and the executor asks it again before each deletion. If a check fails, the file is kept.

On local disks a path may lead elsewhere by the time of the deletion. So a path is resolved once. The fence judges the
location without links, and exactly this location is opened for changes, through the folders that the fence checked.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from lakesweep.errors import FormatError, MaintenanceError, OutOfTimeError, UsageError
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import Layout
from lakesweep.model.paths.stays import Stay
from lakesweep.storage.local.folders import Trail
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.wrapping import innermost
from lakesweep.table.outside import classify_outside

NOT_DECLARED = "undeclared_external_root"
NOT_ALLOWED = "external_root_not_allowed"
OTHER_STORE = "external_other_store"
REFUSED = "external_root_refused"
UNKNOWN_FILE = "external_unknown_file"
NOT_CHECKED = "external_not_checked"
_TABLE_FOLDERS = ("schema", "snapshot")
"""A folder with one of these folders is a table."""
_PARALLEL = 16
_DATA = frozenset({"data", "changelog"})
"""The name alone does not distinguish these two kinds."""


@dataclass(frozen=True, slots=True)
class FenceRules:
    """The facts by which a fence decides: plain values, so that other processes can have them."""

    declared: tuple[str, ...] = ()
    """External roots that schemas of the table declare, normalised, without trailing slashes."""
    allowed: tuple[str, ...] = ()
    """Roots that the operator allows, without links. A root that has since become a link allows nothing."""
    control: str | None = None
    """The control location."""
    layout: Layout = field(default_factory=Layout)
    """Where the table's files lie, and how they are named."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The location where a file outside may be deleted: below an allowed root, both without links."""

    root: Location
    file: Location


class Fence:
    """Decides which files outside one table must be kept. Each folder is checked once."""

    def __init__(self, table: str, rules: FenceRules, open_store: Callable[[str], Store] | None) -> None:
        """Build the fence of the table at `table`. Without `open_store`, it keeps every file unchecked."""
        self._location = table
        self._rules = rules
        self._open_store = open_store
        self._refused: dict[str, Stay] = {}
        """Allowed root -> why nothing below it may be deleted."""
        self._looks: dict[Location, str] = {}
        """Folder -> `_NO_TABLE`, `_IS_TABLE`, or why it could not be checked."""
        self._trail = Trail()
        """The checked local folders."""

    @cached_property
    def _table(self) -> Location:
        return parse_location(self._location)

    @cached_property
    def _classes(self) -> FileClasses:
        return FileClasses(self._rules.layout)

    @cached_property
    def _allowed(self) -> Mapping[str, Location]:
        """Return the locations of the allowed roots in the table's kind of store."""
        control = None if self._rules.control is None else _place(self._rules.control)
        found: dict[str, Location] = {}
        for root in self._rules.allowed:
            place = _place(root)
            if place is None or place.scheme != self._table.scheme:
                continue
            found[root] = place
            if _meet(place, self._table):
                how = "lies inside" if self._table.contains(place) else "holds"
                self._refuse(root, f"the allowed root {how} table {self._location}; expected a root apart from it")
            elif control is not None and _meet(place, control):
                why = f"the allowed root overlaps with control location {control}; expected a root apart from it"
                self._refuse(root, why)
        return found

    def stays(self, files: Iterable[tuple[str, str]]) -> dict[str, Stay]:
        """Return path -> the reason to keep it, for each file that must be kept.

        Args:
            files: Kind and absolute path of each file.

        Raises:
            OutOfTimeError: The caller has no time for the checks.
        """
        return {path: judged for path, judged in self.judge(files).items() if isinstance(judged, Stay)}

    def judge(self, files: Iterable[tuple[str, str]]) -> dict[str, Stay | Opened]:
        """Return path -> the reason to keep it, or the location to open for its deletion.

        Callers must use this location, since the path may lead elsewhere later.

        Args:
            files: Kind and absolute path of each file.

        Raises:
            OutOfTimeError: The caller has no time for the checks.
        """
        found: dict[str, Stay | Opened] = {}
        going: dict[str, tuple[str, Location, Sequence[Location]]] = {}
        for kind, path in files:
            placed = self._placed(path, is_root=False)
            if not isinstance(placed, Stay):
                placed = self._named(kind, path) or placed
            if isinstance(placed, Stay):
                found[path] = placed
            else:
                going[path] = *placed, _above(placed[1])
        # All checks come first: if one of them finds a table, the fence refuses the whole root, whichever file led to
        # it.
        self._look((root, folders) for root, _, folders in going.values())
        for path, (root, place, folders) in going.items():
            found[path] = self._checked(root, folders) or Opened(self._allowed[root], place)
        return found

    def open(self, root: Location) -> Store:
        """Open an allowed local root for changes in the folders that this fence has checked, and in no others.

        Raises:
            UsageError: No store can be opened there.
        """
        return self._followed(root, looks=False)

    def _followed(self, place: Location, *, looks: bool) -> Store:
        assert self._open_store is not None  # Without it the fence has checked nothing, so it allows no change.
        store = self._open_store(str(place))
        if place.scheme == "file":
            inner = innermost(store)
            if not isinstance(inner, LocalStore):
                raise UsageError(f"{place}: expected a store in a local folder, found {type(inner).__name__}")
            inner.follow(self._trail, looks=looks)
        return store

    def refusal(self, root: str) -> Stay | None:
        """Return why nothing below a declared root may be deleted, as far as its name and its parents show.

        Raises:
            OutOfTimeError: The caller has no time for the checks.
        """
        placed = self._placed(root, is_root=True)
        if isinstance(placed, Stay):
            return placed
        allowed, place = placed
        folders = _above(place)
        self._look([(allowed, folders)])
        return self._checked(allowed, folders)

    def _placed(self, path: str, *, is_root: bool) -> "Stay | tuple[str, Location]":
        """Return the allowed root of a file and the file's real location; or the reason to keep the file."""
        declared = [root for root in self._rules.declared if path.startswith(f"{root}/") or (is_root and path == root)]
        try:
            is_plain = normalise_uri(path) == path
        except FormatError:
            is_plain = False
        if not declared or not is_plain:
            return Stay(NOT_DECLARED, "", "no schema of the table declares a root above them")
        root = declared[0] or "/"
        place = _place(path)
        if place is None or place.scheme != self._table.scheme:
            return Stay(OTHER_STORE, root, "Lakesweep deletes only in the kind of store that the table lies in")
        real = _real(place, whole=is_root)
        if self._table.contains(place) or self._table.contains(real):
            return Stay(REFUSED, root, "the path leads back into the table, where metadata names files without a root")
        holding = [each for each, lies in self._allowed.items() if _lies_below(lies, real)]
        if not holding:
            return Stay(
                NOT_ALLOWED,
                root,
                f"no operator allows this root. Allow it with --external-root {root} or `external_roots` in the fleet "
                "policy",
            )
        # The narrowest allowed root: it may lie apart from a table that overlaps with a wider one.
        return max(holding, key=lambda each: (each not in self._refused, len(self._allowed[each].path))), real

    def _named(self, kind: str, path: str) -> Stay | None:
        """Return the reason to keep a file because of its name and its folder."""
        declared = [root for root in self._rules.declared if path.startswith(f"{root}/")]
        for root in declared:
            found = classify_outside(self._classes, path.removeprefix(f"{root}/"))
            if found.policy == "delete" and (found.kind == kind or {found.kind, kind} <= _DATA):
                return None
        return Stay(UNKNOWN_FILE, declared[0] or "/", "Paimon writes no file of such a name there")

    def _look(self, files: Iterable[tuple[str, Sequence[Location]]]) -> None:
        """Check the folders above files, and refuse the roots that overlap with a table."""
        going = (folders for root, folders in files if root not in self._refused)
        unknown = dict.fromkeys(folder for folders in going for folder in folders if folder not in self._looks)
        if len(unknown) > 1:
            with ThreadPoolExecutor(max_workers=_PARALLEL, thread_name_prefix="fence") as pool:
                self._looks.update(zip(unknown, pool.map(self._look_at, unknown), strict=True))
        else:
            self._looks.update({folder: self._look_at(folder) for folder in unknown})
        for folder in unknown:
            if self._looks[folder] == _IS_TABLE:
                for root, place in self._allowed.items():
                    if _lies_below(place, folder) or _lies_below(folder, place):
                        self._refuse(root, f"{folder} holds another table; expected a root apart from all tables")

    def _look_at(self, folder: Location) -> str:
        """Tell whether a folder holds a table."""
        if self._open_store is None:
            return "no store can be opened here"
        try:
            store = self._followed(folder, looks=True)
            names: Iterable[str] = _TABLE_FOLDERS
            if folder.scheme != "file":  # One request answers for most folders. A local folder may not be readable.
                names = sorted(store.folders_among(_TABLE_FOLDERS))
            is_table = any(next(iter(store.list(f"{name}/")), None) is not None for name in names)
        except OutOfTimeError:
            raise
        except MaintenanceError as error:
            return str(error) or error.code
        return _IS_TABLE if is_table else _NO_TABLE

    def _checked(self, root: str, folders: Iterable[Location]) -> Stay | None:
        if root in self._refused:
            return self._refused[root]
        for folder in folders:
            if self._looks[folder] != _NO_TABLE:
                why = f"Lakesweep cannot check whether {folder} holds another table ({self._looks[folder]})"
                return Stay(NOT_CHECKED, root, why)
        return None

    def _refuse(self, root: str, why: str) -> None:
        self._refused.setdefault(root, Stay(REFUSED, root, why))


_NO_TABLE, _IS_TABLE = "", "table"


def _place(text: str) -> Location | None:
    try:
        return parse_location(text)
    except UsageError:
        return None


def _real(place: Location, *, whole: bool) -> Location:
    """Return a location without links. A file that is a link stays one, since the deletion would delete the link."""
    if place.scheme != "file":
        return place
    if whole:
        return Location("file", "", os.path.realpath(place.path))
    folder, _, name = place.path.rpartition("/")
    return Location("file", "", f"{os.path.realpath(folder or '/').rstrip('/')}/{name}")


def _meet(one: Location, other: Location) -> bool:
    return one.contains(other) or other.contains(one)


def _lies_below(root: Location, place: Location) -> bool:
    """Tell whether a location is a root or lies below it. Both are real, so links inside do not matter."""
    if (root.scheme, root.bucket) != (place.scheme, place.bucket):
        return False
    above, below = root.path.strip("/"), place.path.strip("/")
    return not above or below == above or below.startswith(f"{above}/")


def _above(place: Location) -> tuple[Location, ...]:
    """Return the folders above a location, from the bucket or `/` down."""
    parts = [part for part in place.path.split("/") if part][:-1]
    lead = "/" if place.scheme == "file" else ""
    return tuple(Location(place.scheme, place.bucket, lead + "/".join(parts[:end])) for end in range(len(parts) + 1))
