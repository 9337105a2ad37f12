"""`explain TABLE FILE`: why an object exists, or why it does not any more. This changes nothing.

It decides by the same rules as an orphan scan. It also says which roots need the file and until when, which rule
protects it, or which run deleted it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.control.audit.object_history import UNKNOWN, LedgerEntry, begun_entry, history_of
from lakesweep.control.ledger import time_of
from lakesweep.control.plans import load_header
from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import MaintenanceError, RefusedError, StorageError, UsageError
from lakesweep.format.index_manifest import IndexEntry
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.facts import base_name
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.paths.file_class import FileClass
from lakesweep.model.paths.known_files import NO_SUCH_FOLDER
from lakesweep.model.paths.nested import nested_folder
from lakesweep.model.plan import MOVE_FORMAT_VERSION
from lakesweep.model.roots import Root, RootRef
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.inspect.explanation import WHAT, Deletion, Explanation, Holder, Origin, Status
from lakesweep.operations.inspect.health import command
from lakesweep.operations.inspect.judging import Judging, judge
from lakesweep.operations.inspect.lifetimes import Until
from lakesweep.runs.database import is_table
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.storage.keys import is_key
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.store import Store, StoredObject, UndeleteRequest
from lakesweep.table.documents import read_schema
from lakesweep.table.outside import classify_outside
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.holders import Holders, data_names, index_names, names_of
from lakesweep.table.reach.sizes import stated_size

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_POSTPONED_USER = re.compile(r"-u-(?P<user>.+)-s-[0-9]+-w-")
_GONE = frozenset({"deleted", "already_gone"})
_BACK = frozenset({"restored", "already_there"})
_ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
_ABOVE = 8
"""`explain` looks for another table in this many folders above a path outside the table."""
_NAMED = 4
"""This many holders are named in a clause."""


@dataclass(frozen=True, slots=True)
class ExplainArguments:
    """The limits of the orphan scan in question."""

    older_than_ms: int | None = None
    """Only older objects could be deleted; default: a day ago."""
    quarantine_ms: int | None = None
    """An orphan is deleted only if a scan saw it at least this long ago."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an object."""

    path: str
    """As documents spell it."""
    store: Store | None
    """`None`: outside the table, and below no root that a schema declares."""
    key: str
    root: str | None = None
    """The external root above it."""
    table: str | None = None
    """The other table that contains it."""


@dataclass(slots=True)
class _Holding:
    """The mentions of one name by the roots."""

    needed: int = 0
    named: int = 0
    kind: str | None = None
    entries: list[tuple[ManifestEntry, int]] = field(default_factory=list)
    """Additions of the file that some root needs, with these roots."""
    indexes: list[tuple[IndexEntry, int]] = field(default_factory=list)
    """The same for index files."""
    paths: set[str] = field(default_factory=set)
    """Paths of lists, manifests and statistics of this name that some root needs."""
    is_deleted: bool = False
    """Some manifest has an entry that deletes it."""

    def add(self, kind: str, named: int, needed: int) -> None:
        """Add a mention."""
        self.kind = self.kind or kind
        self.named |= named
        self.needed |= needed


def explain_file(table: Table, file: str, arguments: ExplainArguments) -> Explanation:
    """Say why an object of a table exists, or what happened to it.

    Args:
        table: Any branch of it; the roots of all branches are considered.
        file: Relative to the table, or a whole URI.
        arguments: The limits of the orphan scan in question.

    Raises:
        UsageError: `file` cannot name an object.
        RefusedError: This is no table, roots cannot be read, or no root and no run knows such an object.
        StorageError: A request failed.
    """
    judging = judge(table, arguments.older_than_ms)
    place = _place(judging, file)
    return _Case(judging, arguments, place).explanation()


class _Case:
    """One object, and everything that is known about it."""

    def __init__(self, judging: Judging, arguments: ExplainArguments, place: _Place) -> None:
        self._judging = judging
        self._arguments = arguments
        self._place = place
        self._name = base_name(place.path)
        self._stored = None if place.store is None else find_object(place.store, place.key)
        self._class = _class_of(judging, place)
        self._holders = judging.holders()
        self._lifetimes = judging.lifetimes()
        self._warnings: list[str] = []

    def explanation(self) -> Explanation:
        """Return everything that is known about the object."""
        if self._place.table is not None:
            home, other = self._judging.table.ref.location, self._place.table
            why = f"it lies outside table {home}, in table {other}, which is maintained on its own"
            return self._held_outside() or self._protected(
                "other_table", f"{why}: {command('explain', other, self._place.path, executes=False)}"
            )
        if self._place.store is None:
            return self._held_outside() or self._protected(
                "undeclared_external_root",
                f"it lies outside table {self._judging.table.ref.location}, below no place that a schema of the table "
                "declares, so no operation on this table looks there",
            )
        if self._stored is None:
            return self._absent()
        if (document := self._document()) is not None:
            return document
        if (fixed := self._fixed_rule()) is not None:
            return self._protected(*fixed)
        rule = self._judging.sorting().why_kept(self._place.path, self._stored.modified_ms, self._class)
        if rule == "live":
            return self._held()
        if rule is not None:
            return self._protected(rule, *self._say_rule(rule))
        if self._place.root is not None:
            return self._protected(
                "external_root",
                f"no root needs it; other tables may lie below {self._place.root}, so it is deleted only if "
                "--owned-external says that this root holds files of this table alone",
            )
        if not self._judging.roots:
            return self._protected(
                "no_roots", "the table has no snapshot, tag or changelog, so nothing is known to be an orphan"
            )
        return self._orphan()

    def _held_outside(self) -> Explanation | None:
        """Explain a file that some root needs although no schema of the table declares its place."""
        holding = _Holding()
        if self._judging.found.live.has(self._name):
            holding = _holding_of(self._holders, self._name)
        if not holding.needed or self._place.path not in self._places_of(holding):
            return None
        held = self._groups(holding.needed, needs=True)
        where = "it lies below no place that a schema of the table declares"
        return self._answer("live", f"{_listed(held)}; {where}", kind=holding.kind, held_by=held)

    def _document(self) -> Explanation | None:
        """Explain an object that orphan scans never judge: a root, a schema or a similar document."""
        if self._class.policy != "never" or self._class.kind in ("pack", "nested") or self._place.root is not None:
            return None
        if self._class.kind not in _ROOT_KINDS:
            return self._answer("document", self._class.why)
        refs = [ref for ref in self._judging.found.listing.roots() if ref.path == self._place.path]
        if not refs:
            return self._answer("document", f"{self._class.why}; it appeared just now")
        return self._answer("document", self._class.why, until=self._lifetimes.of(refs)[self._place.path])

    def _fixed_rule(self) -> tuple[str, str] | None:
        """Return the rule that keeps an object even if no root names it, and a clause about the rule."""
        if self._stored is not None and self._stored.is_link:
            return "link", "a symbolic link is never followed and never deleted"
        if self._place.root is None and (folder := _nested_table(self._place)) is not None:
            return "nested_table", f"it belongs to the table in {folder}, which is maintained on its own"
        if self._class.policy == "never":
            return self._class.kind, self._class.why
        return None

    def _say_rule(self, rule: str) -> tuple[str, Until | None]:
        """Return a clause about a rule of the orphan scan, and how long the rule holds."""
        if rule == "too_young" and self._stored is not None:
            age_ms = self._judging.now_ms - self._judging.cutoff_ms
            end_ms = self._stored.modified_ms + age_ms
            until = Until(f"until {say_time(end_ms)}, if no root names it by then", end_ms)
            return "no root names it yet, but it is young, and its writer may still commit it", until
        if rule == "damaged_root":
            path, problem = min(self._judging.found.live.damaged.items())
            return f"{path} is incomplete and may need it: {problem}", Until("until that root is complete or deleted")
        if rule == "live_owner":
            owner = f"its data file {self._class.owner} is in use, and a writer may make it again under the same name"
            return owner, Until("until no root names the data file")
        return self._class.why, None

    def _held(self) -> Explanation:
        holding = _holding_of(self._holders, self._name)
        if holding.needed:
            held = self._groups(holding.needed, needs=True)
            self._warn_of_twin(holding)
            why, expected = _listed(held), self._stated_size(holding)
            if expected is not None and self._stored is not None and expected != self._stored.size_bytes:
                why += f"; it has {self._stored.size_bytes} bytes, expected {expected} as their metadata states"
            return self._answer("live", why, kind=holding.kind, held_by=held, expected_bytes=expected)
        held = self._groups(holding.named, needs=False)
        why = "no root needs it, but an orphan scan keeps what a root names"
        until = None
        if holding.is_deleted:
            why = "no root needs it: manifests delete it, and an orphan scan keeps what a manifest names"
            until = Until("until those manifests are merged, and the roots with these manifests are deleted")
        return self._answer("referenced", why, kind=holding.kind, held_by=held, until=until)

    def _protected(self, rule: str, why: str, until: Until | None = None) -> Explanation:
        return self._answer("protected", why, rule=rule, until=until)

    def _orphan(self) -> Explanation:
        stored = self._stored
        first_seen_ms = None if stored is None else self._first_seen_ms(stored)
        runs = self._runs(is_whole=False)
        origin = self._origin(first_seen_ms)
        quarantine_ms = self._arguments.quarantine_ms
        if quarantine_ms is not None and (
            first_seen_ms is None or first_seen_ms > self._judging.now_ms - quarantine_ms
        ):
            why = "no root names it, but no scan has seen that long enough ago to delete it"
            if first_seen_ms is None:
                until = Until("until a scan with quarantine has seen it, and the time of quarantine after that")
            else:
                end_ms = first_seen_ms + quarantine_ms
                until = Until(f"until {say_time(end_ms)}", end_ms)
            return self._answer("protected", why, rule="quarantine", until=until, runs=runs, origin=origin)
        why = "no root of any branch names it, and it is old enough for the next orphan scan to delete it"
        return self._answer("orphan", why, runs=runs, origin=origin)

    def _absent(self) -> Explanation:
        holding = _Holding()
        if self._judging.found.live.has(self._name):
            holding = _holding_of(self._holders, self._name)
        runs = self._runs(is_whole=True)
        places = self._places_of(holding)
        if places and self._place.path not in places:
            # The roots need another object of this name. The object at this path is not known to be missing.
            self._refuse_other_place(holding, places, runs)
            holding = _Holding()
        if holding.needed:
            held = self._groups(holding.needed, needs=True)
            why = f"it is not there, and {_listed(held)}"
            return self._answer("missing", why, kind=holding.kind, held_by=held, runs=runs)
        ours = next((run for run in runs if run.result in _GONE | _BACK | {UNKNOWN}), None)
        if ours is not None and ours.result not in _BACK:
            when = "" if ours.time_ms is None else f" at {say_time(ours.time_ms)}"
            sent = "was to be deleted" if ours.result == UNKNOWN else "was deleted"
            if ours.result == "already_gone":
                sent = "was gone before it could be deleted"
            return self._answer(
                "deleted", f"it {sent}{when} by run {ours.run_id}: {ours.reason}", kind=holding.kind, runs=runs
            )
        if holding.named:
            held = self._groups(holding.named, needs=False)
            why = "it is not there and no root needs it; roots only name it, and none of our runs deleted it"
            return self._answer("gone", why, kind=holding.kind, held_by=held, runs=runs)
        unasked = " (the ledger was not asked: --control)" if self._judging.table.area is None else ""
        raise RefusedError(
            f"table {self._judging.table.ref}: expected an object at {self._place.path}, found none, and no root and "
            f"no run knows of one{unasked}",
            code="no_such_file",
        )

    def _places_of(self, holding: _Holding) -> set[str]:
        """Return the paths at which readers look for files of this name; nothing if that cannot be determined."""
        found = set(holding.paths)
        try:
            for entry, roots in holding.entries:
                for paths in self._paths_of(roots):
                    found |= {paths.data_file(entry), *paths.extra_files(entry)}
            for index, roots in holding.indexes:
                found |= {paths.index_file(index) for paths in self._paths_of(roots)}
        except MaintenanceError:  # a schema or an entry that determines a path cannot be read
            return set()
        return {path for path in found if base_name(path) == self._name}

    def _stated_size(self, holding: _Holding) -> int | None:
        """Return the size that the entries of the file at this path state, `None` if there is not exactly one."""
        found: set[int | None] = set()
        try:
            for entry, roots in holding.entries:
                if any(paths.data_file(entry) == self._place.path for paths in self._paths_of(roots)):
                    found.add(stated_size(entry))
            for index, roots in holding.indexes:
                if any(paths.index_file(index) == self._place.path for paths in self._paths_of(roots)):
                    found.add(stated_size(index))
        except MaintenanceError:  # a schema or an entry that determines a path cannot be read
            return None
        return found.pop() if len(found) == 1 else None

    def _paths_of(self, roots: int) -> Iterator[TablePaths]:
        listing = self._judging.found.listing.branches
        for branch in dict.fromkeys(root.ref.branch for root in self._holders.roots_in(roots)):
            own = listing[branch] if listing[branch].schemas else listing[MAIN]
            yield TablePaths(read_schema(self._judging.table.store, own))

    def _refuse_other_place(self, holding: _Holding, places: set[str], runs: tuple[Deletion, ...]) -> None:
        """Say where the file of this name lies, unless our runs know an object at the requested path.

        Raises:
            RefusedError: Our runs do not know one.
        """
        if any(run.result in _GONE | {UNKNOWN} for run in runs):
            return
        place = min(places)
        inside = not is_external(place)
        is_there = inside and find_object(self._judging.table.store, place) is not None
        says = "lies at" if is_there else "is missing at" if inside else "is said to lie at"
        held = _listed(self._groups(holding.needed, needs=True))
        raise RefusedError(
            f"table {self._judging.table.ref}: expected an object at {self._place.path}, found none; the file of that "
            f"name {says} {place}, and {held}. Ask for that path",
            code="no_such_file",
        )

    def _groups(self, roots: int, *, needs: bool) -> tuple[Holder, ...]:
        refs = [root.ref for root in self._holders.roots_in(roots)]
        untils = self._lifetimes.of(refs)
        return tuple(_grouped(refs, untils, needs))

    def _warn_of_twin(self, holding: _Holding) -> None:
        """Warn if the file of this name that the roots need lies elsewhere."""
        schemas = self._judging.found.listing.branches
        for entry, roots in holding.entries:
            places = set()
            for branch in dict.fromkeys(root.ref.branch for root in self._holders.roots_in(roots)):
                try:
                    paths = TablePaths(read_schema(self._judging.table.store, schemas[branch]))
                    places |= {paths.data_file(entry), *paths.extra_files(entry)}
                except MaintenanceError:
                    return
            if self._place.path in places:
                return
            twin = next((place for place in sorted(places) if base_name(place) == self._name), None)
            if twin is not None:
                self._warnings.append(f"readers look for the file of this name at {twin}; this one is kept by its name")
                return

    def _first_seen_ms(self, stored: StoredObject) -> int | None:
        area = self._judging.table.area
        if area is None:
            return None
        return read_quarantine(area).first_seen_ms.get((self._place.path, stored.etag, stored.modified_ms))

    def _runs(self, *, is_whole: bool) -> tuple[Deletion, ...]:
        """Return what our runs did to the object.

        Args:
            is_whole: Also ask the store whether the object can be restored.
        """
        area = self._judging.table.area
        if area is None:
            self._warnings.append("no control location is known (--control), so the ledger was not asked")
            return ()
        try:
            history = history_of(area, self._place.path)
        except StorageError as error:
            self._warnings.append(f"the ledger could not be read: {error}")
            return ()
        self._warnings += [f"{part} is damaged, and may have spoken of this object" for part in history.damaged]
        entries = history.entries
        try:
            begun = begun_entry(area, self._place.path)
        except MaintenanceError as error:
            self._warnings.append(f"the plan of an unfinished run could not be read: {error}")
        else:
            if begun is not None and begun.plan_id not in {entry.plan_id for entry in entries}:
                entries = (begun, *entries)
        return tuple(self._deletion(entry, is_whole) for entry in entries)

    def _deletion(self, entry: LedgerEntry, is_whole: bool) -> Deletion:
        area = self._judging.table.area
        operation, time_ms, has_content = None, time_of(entry.run_id), False
        if area is not None:
            try:
                header = load_header(area, entry.plan_id)
                operation, has_content = header.operation, header.format_version == MOVE_FORMAT_VERSION
                has_content = has_content or entry.kind == "tag"
            except MaintenanceError:
                operation = None  # plans may be deleted sooner than the ledger
        # The plan of a branch rewrite can restore the documents that it deleted. Whether an undo may do that depends on
        # later changes.
        is_lost = entry.result in _GONE and not entry.version_id and not has_content
        restorable = False if is_lost else None
        if is_whole and entry.version_id and self._place.store is not None:
            try:
                asked = [UndeleteRequest(self._place.key, entry.version_id)]
                restorable = self._place.store.undelete(asked, only_check=True)[0].ok
            except StorageError as error:
                restorable = False if error.code == "not_versioned" else None
        return Deletion(
            entry.run_id, time_ms, operation, entry.plan_id, entry.reason, entry.result, entry.why, entry.version_id,
            restorable,
        )  # fmt: skip

    def _origin(self, first_seen_ms: int | None) -> Origin:
        user = _POSTPONED_USER.search(self._name)
        found = _UUID.findall(self._name)
        writer = found[-1] if found else None
        if user is not None or writer is None:
            return Origin(first_seen_ms, writer, user["user"] if user else None, None)
        sibling = self._sibling(writer)
        if sibling is None:
            return Origin(first_seen_ms, writer, None, None)
        return Origin(first_seen_ms, writer, sibling.snapshot.commit_user, str(sibling.ref))

    def _sibling(self, writer: str) -> Root | None:
        """Return the oldest root that names another file of the same writer."""
        named = 0
        for each in self._holders.named():
            if writer in each.name:
                named |= each.named_by
        if not named:
            for mention in self._holders.mentions(lambda entry: writer in entry.file_name):
                named |= mention.named_by
        return min(self._holders.roots_in(named), key=lambda root: root.snapshot.time_ms, default=None)

    def _answer(
        self,
        status: Status,
        why: str,
        *,
        kind: str | None = None,
        rule: str | None = None,
        until: Until | None = None,
        held_by: tuple[Holder, ...] = (),
        runs: tuple[Deletion, ...] = (),
        origin: Origin | None = None,
        expected_bytes: int | None = None,
    ) -> Explanation:
        stored = self._stored
        kind = self._class.kind if kind is None or self._class.kind != "foreign" else kind
        return Explanation(
            table=self._judging.table.ref.location,
            path=self._place.path,
            kind=kind,
            what=WHAT[kind],
            exists=None if self._place.store is None else stored is not None,
            size_bytes=None if stored is None else stored.size_bytes,
            expected_bytes=expected_bytes,
            modified_ms=None if stored is None else stored.modified_ms,
            status=status,
            rule=rule,
            why=why,
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
            held_by=held_by,
            runs=runs,
            origin=origin,
            warnings=(*self._judging.warnings(), *self._warnings, *self._lifetimes.warnings),
        )


def find_object(store: Store, key: str) -> StoredObject | None:
    """Return one object as a listing shows it, `None` if it does not exist. This costs one request.

    Raises:
        StorageError: The request failed.
    """
    prefix = key[: key.rfind("/") + 1]
    pages = store.list_range(prefix, key[:-1], key)
    return next((found for page in pages for found in page if found.key == key), None)


def _place(judging: Judging, file: str) -> _Place:
    """Return the place that FILE means.

    Raises:
        UsageError: FILE cannot name an object.
    """
    store = judging.table.store
    key: str | None = file.removeprefix("./")
    if is_external(file) or "://" in file or file.lower().startswith("file:"):
        key = _within(judging, file)
        if key is None:
            return _outside(judging, normalise_uri(file))
    elif (below := _without_prefix(store, file.removeprefix("./"))) is not None:
        key = below
    if not key or not is_key(key):
        raise UsageError(
            f"FILE: expected an object of table {store.location}, relative to it or as a whole URI, found {file!r}",
            code="bad_argument",
        )
    return _Place(key, store, key)


def _within(judging: Judging, file: str) -> str | None:
    """Return the key for a whole URI or a path that begins with a slash, `None` if it lies outside the table.

    On local disks, such a path is absolute if it lies in the table, in another table, or below a declared root.
    Otherwise the leading slash is ignored.
    """
    store = judging.table.store
    home = parse_location(store.location)
    try:
        key = home.relative(parse_location(file))
    except UsageError:  # the scheme is unknown
        return None
    rest = file.lstrip("/")
    if key is not None or not file.startswith("/") or judging.stores.root_of(normalise_uri(file)) is not None:
        return key
    if not is_key(rest):
        return None
    if home.scheme == "file":
        return rest if find_object(store, rest) is not None else None
    return rest if find_object(store, rest) is not None else _below_prefix(home, rest) or rest


def _without_prefix(store: Store, file: str) -> str | None:
    """Return the key for a path that begins with the table's location, or with the end of that location.

    A key of the table with this exact spelling comes first. Like the table's location, a relative path may begin at the
    working directory.
    """
    home = parse_location(store.location)
    if not is_key(file) or find_object(store, file) is not None:
        return None
    below = home.relative(parse_location(file)) if home.scheme == "file" else None
    return below or _below_prefix(home, file)


def _below_prefix(home: Location, file: str) -> str | None:
    folders = [part for part in (home.bucket, *home.path.split("/")) if part]
    ends = ("/".join(folders[start:]) + "/" for start in range(len(folders)))
    return next((file.removeprefix(end) for end in ends if file.startswith(end) and file != end), None)


def _outside(judging: Judging, path: str) -> _Place:
    root = judging.stores.root_of(path)
    if root is None:
        return _in_other_table(judging, path) or _Place(path, None, path)
    store, key = judging.stores.resolve(path)
    return _Place(path, store, key, root)


def _in_other_table(judging: Judging, path: str) -> _Place | None:
    """Return the place of an object inside another table, `None` if no such table is found."""
    try:
        place = parse_location(path)
        for _ in range(_ABOVE):
            head, _, name = place.path.rpartition("/")
            if not name:
                return None
            place = replace(place, path=head or ("/" if place.scheme == "file" else ""))
            store = judging.table.open_store(str(place))
            key = place.relative(parse_location(path))
            if key and is_table(store):
                return _Place(path, store, key, table=str(place))
    except MaintenanceError:  # the store cannot be opened, or access is denied
        return None
    return None


def _class_of(judging: Judging, place: _Place) -> FileClass:
    if place.root is not None:
        return classify_outside(judging.classes, place.key)
    return judging.classes.classify(place.key) if place.store is not None else NO_SUCH_FOLDER


_DOCUMENTS = ("schema", "snapshot", "changelog", "tag", "branch")
"""Folders of a table that can show that it is one."""


def _nested_table(place: _Place) -> str | None:
    """Return the folder of the nested table that an object belongs to, `None` for an object of this table."""
    folders = place.key.split("/")[:-1]
    if place.store is None or folders[:1] == ["branch"]:
        return None
    for depth in range(1, len(folders) + 1):
        folder = "/".join(folders[:depth])
        for below in _DOCUMENTS:
            if any(nested_folder(entry.key) == folder for entry in place.store.list(f"{folder}/{below}/")):
                return folder
    return None


def _holding_of(holders: Holders, name: str) -> _Holding:
    """Return the mentions of a name by the roots. Reads each manifest."""
    found = _Holding()
    for named in holders.named():
        if named.name == name:
            found.add(named.kind, named.named_by, named.needed_by)
            if named.needed_by:
                found.paths.add(named.path)
    for index in holders.indexes():
        if name in index_names(index.entry):
            found.add("index", index.named_by, index.needed_by)
            if index.needed_by:
                found.indexes.append((index.entry, index.needed_by))
    for mention in holders.mentions(lambda entry: name in names_of(entry)):
        kind = "data" if name in data_names(mention.entry) else "extra"
        found.add(kind, mention.named_by, mention.needed_by)
        found.is_deleted = found.is_deleted or not mention.entry.is_add
        if mention.needed_by:
            found.entries.append((mention.entry, mention.needed_by))
    return found


def _grouped(refs: Iterable[RootRef], untils: Mapping[str, Until], needs: bool) -> Iterator[Holder]:
    """Yield one holder for a branch's snapshots, one for its changelogs, and one for each tag."""
    groups: dict[tuple[str, str, str], list[RootRef]] = {}
    for ref in refs:
        groups.setdefault((ref.branch, ref.kind, ref.name if ref.kind == "tag" else ""), []).append(ref)
    order = {"snapshot": 0, "tag": 1, "changelog": 2}
    for branch, kind, tag in sorted(groups, key=lambda key: (key[0] != MAIN, key[0], order[key[1]], key[2])):
        found = groups[branch, kind, tag]
        found.sort(key=lambda ref: ref.id if ref.kind != "tag" else 0)
        last = untils[found[-1].path]
        yield Holder(kind, branch, found[0].name, found[-1].name, len(found), needs, last.says, last.at_ms)


def _listed(held: Sequence[Holder]) -> str:
    """Say which roots need a file, in words; only the first few are named."""
    names = [str(holder) for holder in held[:_NAMED]]
    if len(held) > _NAMED:
        names.append(f"{len(held) - _NAMED} more")
    needs = "needs it" if len(held) == 1 and held[0].count == 1 else "need it"
    return f"{' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)} {needs}"
