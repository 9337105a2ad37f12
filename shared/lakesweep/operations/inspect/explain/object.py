"""The object that FILE of `explain TABLE FILE` means: in the table, below an external root, or in another table."""

from dataclasses import dataclass, replace

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.paths.file_class import FileClass
from lakesweep.model.paths.known_files import NO_SUCH_FOLDER
from lakesweep.model.paths.layout import nested_folder
from lakesweep.model.roots import base_name
from lakesweep.operations.inspect.judging import Judging
from lakesweep.runs.database import is_table
from lakesweep.storage.keys import is_key
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.store import Store, StoredObject
from lakesweep.table.outside import classify_outside

_ABOVE = 8
"""`explain` looks for another table in this many folders above a path outside the table."""
_DOCUMENTS = ("schema", "snapshot", "changelog", "tag", "branch")
"""Folders of a table that can show that it is one."""


@dataclass(frozen=True, slots=True)
class AskedObject:
    """The object in question; it may not exist."""

    path: str
    """As documents spell it."""
    store: Store | None
    """`None`: outside the table, and below no root that a schema declares."""
    key: str
    root: str | None = None
    """The external root above it."""
    table: str | None = None
    """The other table that contains it."""

    @property
    def name(self) -> str:
        """Return its name without a folder."""
        return base_name(self.path)


def asked_object(judging: Judging, file: str) -> AskedObject:
    """Return the object that FILE means.

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
    return AskedObject(key, store, key)


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


def _outside(judging: Judging, path: str) -> AskedObject:
    root = judging.stores.root_of(path)
    if root is None:
        return _in_other_table(judging, path) or AskedObject(path, None, path)
    store, key = judging.stores.resolve(path)
    return AskedObject(path, store, key, root)


def _in_other_table(judging: Judging, path: str) -> AskedObject | None:
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
                return AskedObject(path, store, key, table=str(place))
    except MaintenanceError:  # the store cannot be opened, or access is denied
        return None
    return None


def find_object(store: Store, key: str) -> StoredObject | None:
    """Return one object as a listing shows it, `None` if it does not exist. This costs one request.

    Raises:
        StorageError: The request failed.
    """
    prefix = key[: key.rfind("/") + 1]
    pages = store.list_range(prefix, key[:-1], key)
    return next((found for page in pages for found in page if found.key == key), None)


def class_of(judging: Judging, asked: AskedObject) -> FileClass:
    """Return the class of the object by its path."""
    if asked.root is not None:
        return classify_outside(judging.classes, asked.key)
    return judging.classes.classify(asked.key) if asked.store is not None else NO_SUCH_FOLDER


def nested_table_of(asked: AskedObject) -> str | None:
    """Return the folder of the nested table that an object belongs to, `None` for an object of this table."""
    folders = asked.key.split("/")[:-1]
    if asked.store is None or folders[:1] == ["branch"]:
        return None
    for depth in range(1, len(folders) + 1):
        folder = "/".join(folders[:depth])
        for below in _DOCUMENTS:
            if any(nested_folder(entry.key) == folder for entry in asked.store.list(f"{folder}/{below}/")):
                return folder
    return None
