"""An independent reader of Paimon tables: what does a snapshot, tag or changelog need, and is it all there?

It shares no code with `lakesweep` but the store, and none with the builder but the binary rows, which real tables
prove right. It reads what the Java engine writes from 0.9 on: nullable records, ORC manifests, zstd, external paths.
Sizes and counts must be exact, since engines rely on them.

    needs = read_root(store, "snapshot/snapshot-3")      # raises UnreadableRootError when something is missing
    needs.live, needs.paths
"""

import functools
import io
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.store import Store
from tests.support.binary_row import decode_row, partition_path
from tests.support.table_builder import TableBuilder

_ROOT = re.compile(r"(?:branch/branch-([^/]+)/)?(snapshot|changelog|tag)/\2-([^/]+)")
_PART_OF_COMPACTED = re.compile(r"(compacted-changelog-[^$]+\$(\d+)-\d+)-\d+-\d+(\.cc-.+)")
"""The name of a slice: the file itself lies in the bucket that the name states, without offset and length."""
_FILE_COLUMNS = (
    "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_EXTRA_FILES", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE",
    "_EXTERNAL_PATH",
)  # fmt: skip


class UnreadableRootError(AssertionError):
    """A root cannot be read as it should be."""

    def __init__(self, root: str, path: str, problem: str) -> None:
        super().__init__(f"{root} cannot be read: {path} {problem}")
        self.root = root
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class RootNeeds:
    """What one root consists of, all of it seen to exist."""

    root: str
    document: Mapping[str, Any]
    paths: frozenset[str]
    """Everything a reader opens, the document included: keys of the table, and external paths as metadata says them."""
    live: frozenset[str]
    """The data files of the table at this root; empty for a changelog document."""
    live_rows: int = 0
    has_changelog: bool = True
    """False where the changelog of a tagged or copied snapshot is gone, which is no damage."""


def all_roots(store: Store) -> list[str]:
    """Return the paths of all snapshots, tags and changelog documents of all branches, sorted."""
    return sorted(found.key for found in store.list("") if _is_root(found.key))


def read_root(store: Store, root: str, externals: Mapping[str, Store] | None = None) -> RootNeeds:
    """Read one root and everything it needs.

    Args:
        externals: Location -> store of files outside the table.

    Raises:
        UnreadableRootError: Something is missing, damaged or of another size than stated.
    """
    return TableReader(store, externals).read(root)


def read_all(store: Store, externals: Mapping[str, Store] | None = None) -> dict[str, RootNeeds]:
    """Read every root that exists; see `read_root`."""
    reader = TableReader(store, externals)
    return {root: reader.read(root) for root in reader.roots()}


def assert_root_readable(builder: TableBuilder, root: str, store: Store | None = None) -> RootNeeds:
    """Fail unless a root reads completely and is what was built.

    Args:
        store: Where to read when it is not where the table was built: a wrapped store, a copy.
    """
    return _read_as_built(TableReader(store or builder.store, builder.externals), builder, root)


def assert_all_readable(builder: TableBuilder, store: Store | None = None) -> None:
    """Fail unless every root that exists reads completely and, where the builder made it, is what was built."""
    reader = TableReader(store or builder.store, builder.externals)
    assert_readable(reader, builder, reader.roots())


def assert_readable(reader: "TableReader", builder: TableBuilder, roots: Iterable[str]) -> None:
    """Fail unless some roots read completely and, where the builder made them, are what was built."""
    built = frozenset(builder.roots())
    for root in roots:
        if root in built:
            _read_as_built(reader, builder, root)
        else:
            reader.read(root)


def _read_as_built(reader: "TableReader", builder: TableBuilder, root: str) -> RootNeeds:
    needs = reader.read(root)
    built = builder.referenced(root, with_changelog=needs.has_changelog)
    assert needs.document == builder.document(root)
    assert needs.paths == built, f"{root}: not needed {needs.paths - built}, not read {built - needs.paths}"
    return needs


class TableReader:
    """Reads a table as it is when the reader is made; files are looked up in one listing."""

    def __init__(self, store: Store, externals: Mapping[str, Store] | None = None) -> None:
        self._store = store
        self._externals = {_normal(location): external for location, external in (externals or {}).items()}
        self._sizes = {found.key: found.size_bytes for found in store.list("")}
        for location, external in self._externals.items():
            self._sizes |= {f"{location}/{found.key}": found.size_bytes for found in external.list("")}
        self._decoded: dict[str, list[dict[str, Any]]] = {}

    def roots(self) -> list[str]:
        """Return the paths of all roots, sorted."""
        return sorted(key for key in self._sizes if _is_root(key))

    def read(self, root: str) -> RootNeeds:
        """Read one root; see `read_root`."""
        match = _ROOT.fullmatch(root)
        if match is None:
            raise ValueError(f"not a root: {root}")
        return _RootReading(self, root, match[1], match[2]).run()

    def bytes_of(self, root: str, path: str, size: int | None = None) -> bytes:
        """Return an object of the table, which must exist and have the stated size."""
        try:
            data = self._store.read(path).data
        except ObjectNotFoundError as error:
            raise UnreadableRootError(root, path, "is missing") from error
        if size is not None and len(data) != size:
            raise UnreadableRootError(root, path, f"has {len(data)} bytes where metadata says {size}")
        return data

    def json_of(self, root: str, path: str) -> dict[str, Any]:
        """Return a JSON document."""
        try:
            found = json.loads(self.bytes_of(root, path))
        except ValueError as error:
            raise UnreadableRootError(root, path, f"is no JSON: {error}") from error
        return dict(found)

    def records_of(self, root: str, path: str, size: int | None) -> list[dict[str, Any]]:
        """Return the records of an Avro or ORC file."""
        data = self.bytes_of(root, path, size)
        if path not in self._decoded:
            try:
                self._decoded[path] = _records(data)
            except Exception as error:
                raise UnreadableRootError(root, path, f"does not decode: {error!r}") from error
        return self._decoded[path]

    def options_of(self, prefix: str) -> dict[str, str]:
        """Return the options of a branch's latest schema."""
        ids = [
            key.removeprefix(f"{prefix}schema/schema-")
            for key in self._sizes
            if key.startswith(f"{prefix}schema/schema-")
        ]
        latest = max(int(number) for number in ids if number.isdigit())
        return dict(json.loads(self._store.read(f"{prefix}schema/schema-{latest}").data)["options"])

    def check(self, root: str, path: str, size: int | None = None) -> None:
        """Look a file up that need not be opened."""
        found = self._sizes.get(path if path in self._sizes else _normal(path))
        if found is None:
            raise UnreadableRootError(root, path, "is missing")
        if size is not None and found != size:
            raise UnreadableRootError(root, path, f"has {found} bytes where metadata says {size}")

    def has_tag_of(self, prefix: str, snapshot_id: int) -> bool:
        """Tell whether a branch has a tag of a snapshot."""
        tags = [key for key in self._sizes if key.startswith(f"{prefix}tag/") and _is_root(key)]
        return any(json.loads(self._store.read(tag).data)["id"] == snapshot_id for tag in tags)


class _RootReading:
    """One root's way through its lists, manifests and files."""

    def __init__(self, table: TableReader, root: str, branch: str | None, kind: str) -> None:
        self._table = table
        self._root = root
        self._kind = kind
        self._prefix = f"branch/branch-{branch}/" if branch else ""
        self._document = table.json_of(root, root)
        schema = table.json_of(root, f"{self._prefix}schema/schema-{self._document['schemaId']}")
        types = {field["name"]: field["type"] for field in schema["fields"]}
        self._keys: Sequence[str] = schema["partitionKeys"]
        self._types = [types[key] for key in self._keys]
        self._options = table.options_of(self._prefix)
        self._paths = {root}

    def run(self) -> RootNeeds:
        document = self._document
        if self._kind == "changelog":
            if document.get("changelogManifestList"):
                self._changelog()
            elif self._options.get("changelog-producer", "none") == "none":
                self._added()
            return RootNeeds(self._root, document, frozenset(self._paths), frozenset())

        live = self._live_entries()
        for entry in live:
            self._data_file(entry, with_extra_files=True)
        files = frozenset(self._data_path(entry) for entry in live)
        self._index()
        if document.get("statistics"):
            self._paths.add(f"statistics/{document['statistics']}")
            self._table.json_of(self._root, f"statistics/{document['statistics']}")
        has_changelog = self._kind == "snapshot" and self._snapshot_changelog()
        rows = sum(entry["_FILE"]["_ROW_COUNT"] for entry in live)
        return RootNeeds(self._root, document, frozenset(self._paths), files, rows, has_changelog)

    def _live_entries(self) -> list[dict[str, Any]]:
        entries = [*self._entries("baseManifestList"), *self._entries("deltaManifestList")]
        gone = {_identity(entry) for entry in entries if entry["_KIND"] == 1}
        live = [entry for entry in entries if entry["_KIND"] == 0 and _identity(entry) not in gone]
        if len({_identity(entry) for entry in live}) != len(live):
            raise UnreadableRootError(self._root, self._root, "adds a file twice")
        return live

    def _entries(self, which: str) -> list[dict[str, Any]]:
        """Return the entries of all manifests of one list, in order."""
        found = []
        name = f"manifest/{self._document[which]}"
        self._paths.add(name)
        for meta in self._table.records_of(self._root, name, self._document.get(f"{which}Size")):
            self._expect(name, "_VERSION", meta["_VERSION"], 2)
            path = f"manifest/{meta['_FILE_NAME']}"
            entries = self._table.records_of(self._root, path, meta["_FILE_SIZE"])
            added = sum(entry["_KIND"] == 0 for entry in entries)
            self._expect(path, "_NUM_ADDED_FILES", meta["_NUM_ADDED_FILES"], added)
            self._expect(path, "_NUM_DELETED_FILES", meta["_NUM_DELETED_FILES"], len(entries) - added)
            self._paths.add(path)
            for side_file in meta.get("_EXTRA_FILES") or ():
                self._table.check(self._root, f"manifest/{side_file}")
                self._paths.add(f"manifest/{side_file}")
            found += entries
        return found

    def _expect(self, path: str, what: str, stated: Any, real: Any) -> None:
        if stated != real:
            raise UnreadableRootError(self._root, path, f"has {what} {stated}, expected {real}")

    def _snapshot_changelog(self) -> bool:
        """Read the changelog of a snapshot; one that a tag was made of, or that a branch began with, may lack it."""
        before = set(self._paths)
        try:
            self._changelog()
        except UnreadableRootError as error:
            copied = self._prefix or self._table.has_tag_of(self._prefix, self._document["id"])
            if not (copied and error.problem == "is missing"):
                raise
            self._paths = before
            return False
        return True

    def _changelog(self) -> None:
        if self._document.get("changelogManifestList"):
            for entry in self._entries("changelogManifestList"):
                self._data_file(entry, with_extra_files=False)

    def _added(self) -> None:
        """Read what makes the changelog of a table whose writers make none: new files, not those of compactions."""
        for entry in self._entries("deltaManifestList"):
            if entry["_KIND"] == 0 and entry["_FILE"].get("_FILE_SOURCE") != 1:
                self._data_file(entry, with_extra_files=True)

    def _data_file(self, entry: Mapping[str, Any], with_extra_files: bool) -> None:
        file = entry["_FILE"]
        path = self._data_path(entry)
        is_slice = _PART_OF_COMPACTED.fullmatch(file["_FILE_NAME"]) is not None
        self._table.check(self._root, path, None if is_slice else file["_FILE_SIZE"])
        self._paths.add(path)
        for extra in file["_EXTRA_FILES"] if with_extra_files else ():
            extra_path = f"{path.rpartition('/')[0]}/{extra}"
            self._table.check(self._root, extra_path)
            self._paths.add(extra_path)

    def _data_path(self, entry: Mapping[str, Any]) -> str:
        file = entry["_FILE"]
        if file.get("_EXTERNAL_PATH"):
            return str(file["_EXTERNAL_PATH"])
        name, bucket = file["_FILE_NAME"], entry["_BUCKET"]
        if (part := _PART_OF_COMPACTED.fullmatch(name)) is not None:
            name, bucket = part[1] + part[3], int(part[2])
        return f"{self._bucket_folder(entry['_PARTITION'], bucket)}{name}"

    def _bucket_folder(self, partition: bytes, bucket: int) -> str:
        top = self._options.get("data-file.path-directory", "").strip("/")
        folder = partition_path(
            self._keys,
            decode_row(self._types, partition),
            self._options.get("partition.default-name", "__DEFAULT_PARTITION__"),
            self._options.get("partition.legacy-name", "true").lower() == "true",
        )
        return (f"{top}/" if top else "") + folder + ("bucket-postpone/" if bucket == -2 else f"bucket-{bucket}/")

    def _index(self) -> None:
        name = self._document.get("indexManifest")
        if not name:
            return
        self._paths.add(f"manifest/{name}")
        for entry in self._table.records_of(self._root, f"manifest/{name}", None):
            self._expect(name, "_VERSION", entry["_VERSION"], 1)
            self._expect(name, "_KIND", entry["_KIND"], 0)
            path = entry.get("_EXTERNAL_PATH")
            if not path:
                beside_data = self._options.get("index-file-in-data-file-dir", "false").lower() == "true"
                is_global = entry.get("_GLOBAL_INDEX") is not None
                folder = (
                    self._bucket_folder(entry["_PARTITION"], entry["_BUCKET"])
                    if beside_data and not is_global
                    else "index/"
                )
                path = folder + entry["_FILE_NAME"]
            self._table.check(self._root, path, entry["_FILE_SIZE"])
            self._paths.add(path)
            if entry["_INDEX_TYPE"] == "DELETION_VECTORS" and not entry.get("_EXTERNAL_PATH"):
                self._vectors(path, entry)

    def _vectors(self, path: str, entry: Mapping[str, Any]) -> None:
        """Check the frame of each deletion vector: its length twice, its magic number and its checksum."""
        data = self._table.bytes_of(self._root, path)
        for vector in entry["_DELETIONS_VECTORS_RANGES"] or ():
            start = vector["f1"]
            (length,) = struct.unpack_from(">i", data, start)
            content = data[start + 4 : start + 4 + length]
            wide = content[:4] == struct.pack("<I", 1681511377)
            if not wide:
                self._expect(path, "magic number", content[:4], struct.pack(">I", 1581511376))
            self._expect(path, "length", vector["f2"], length + 8 if wide else length)
            self._expect(path, "checksum", data[start + 4 + length :][:4], struct.pack(">I", zlib.crc32(content)))


def _is_root(key: str) -> bool:
    match = _ROOT.fullmatch(key)
    return match is not None and (match[2] == "tag" or match[3].isdecimal())


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    file = entry["_FILE"]
    return (
        entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"],
        tuple(file["_EXTRA_FILES"]), file.get("_EMBEDDED_FILE_INDEX"), file.get("_EXTERNAL_PATH"),
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _records(data: bytes) -> list[dict[str, Any]]:
    if data.startswith(b"Obj\x01"):
        return [record for record in fastavro.reader(io.BytesIO(data)) if isinstance(record, dict)]
    if data.startswith(b"ORC"):
        return _orc_records(data)
    raise ValueError(f"neither Avro nor ORC: {data[:4]!r}")


def _orc_records(data: bytes) -> list[dict[str, Any]]:
    from pyarrow import orc

    file = orc.ORCFile(io.BytesIO(data))
    columns = []
    # Everything but creation times, for which pyarrow asks the machine for a time zone database.
    for field in file.schema:
        if field.name == "_FILE":
            known = {field.type.field(i).name for i in range(field.type.num_fields)}
            columns += [f"_FILE.{name}" for name in _FILE_COLUMNS if name in known]
        else:
            columns.append(field.name)
    return list(file.read(columns=columns).to_pylist())


def _normal(path: str) -> str:
    """Return one spelling of an absolute path or URI."""
    if "://" not in path and not path.lower().startswith("file:"):
        return path.rstrip("/")
    scheme, _, rest = path.partition(":")
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return "/" + rest.strip("/")
    return f"{scheme}://{rest.strip('/')}"
