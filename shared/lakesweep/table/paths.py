"""Paths: where the files that metadata names lie.

Metadata names files without directory. The directory follows from the partition, the bucket and options in the schema
of the branch. For a file outside the table, metadata contains the whole path. Source: Paimon `FileStorePathFactory`,
`DataFilePathFactory`, `CompactedChangelogPathResolver`.

`PathsOfRoots` says where readers of a root look for files: by the latest schema of its branch.
"""

import re
from collections.abc import Iterable, Mapping

from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.format.manifest import DELETION_VECTORS, HASH, POSTPONE_BUCKET, IndexEntry, ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values import options
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.partition_path import DEFAULT_NAME, partition_path, value_text
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.roots import MAIN, Root, TableListing
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_schema

_PLACED_BY_BUCKET = frozenset((DELETION_VECTORS, HASH))
"""Index files that may lie in bucket directories. Global indexes never do."""

_FAKE_CHANGELOG = re.compile(
    r"(?P<name>compacted-changelog-[^$/]*)\$(?P<bucket>[0-9]+)-(?P<length>[0-9]+)-[0-9]+-[0-9]+(?P<format>\.[^/]*)?"
)
"""A bucket's share of a changelog file that lies in the folder of another bucket."""


class TablePaths:
    """Paths of one branch, relative to the table; absolute and normalised for files outside it."""

    def __init__(self, schema: TableSchema) -> None:
        """Take the options that determine paths from the branch's latest schema.

        Raises:
            FormatError: One of these options has no valid value.
        """
        self._keys = schema.partition_keys
        self._types = schema.partition_types
        self._schema_path = f"schema/schema-{schema.id}"
        self._default_name = schema.options.get("partition.default-name", DEFAULT_NAME)
        self._legacy_name = _flag(schema, "partition.legacy-name", default=True)
        self._index_with_data = _flag(schema, "index-file-in-data-file-dir", default=False)
        self._data_folder = _folder(schema.options.get("data-file.path-directory", ""))
        self._partitions: dict[bytes, str] = {}
        self._buckets: dict[tuple[bytes, int], str] = {}

    def partition_dir(self, partition: bytes) -> str:
        """Return the partition's directory with a trailing slash, or "" for the table itself."""
        path = self._partitions.get(partition)
        if path is None:
            values = decode_row(partition, self._types, f"{self._schema_path}, partition {partition[:32].hex()}")
            path = self._data_folder + partition_path(
                self._keys, self._types, values, default_name=self._default_name, legacy_name=self._legacy_name
            )
            self._partitions[partition] = path
        return path

    def partition_values(self, partition: bytes) -> Mapping[str, str | None]:
        """Return key -> value as Paimon prints it in directories, before escaping; `None` for null."""
        values = decode_row(partition, self._types, self._schema_path)
        return {
            key: None if value is None else value_text(value, type_, legacy_name=self._legacy_name)
            for key, type_, value in zip(self._keys, self._types, values, strict=True)
        }

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """Return the bucket's directory, without a trailing slash."""
        path = self._buckets.get((partition, bucket))
        if path is None:
            path = f"{self.partition_dir(partition)}bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"
            self._buckets[partition, bucket] = path
        return path

    def data_file(self, entry: ManifestEntry) -> str:
        """Return the path of the data or changelog file of `entry`."""
        if entry.external_path is not None:
            return _real_changelog(normalise_uri(entry.external_path))
        path = f"{self.bucket_dir(entry.partition, entry.bucket)}/{entry.file_name}"
        return _real_changelog(path) if "$" in entry.file_name else path

    def extra_files(self, entry: ManifestEntry) -> tuple[str, ...]:
        """Return the paths of the extra files of `entry`: beside its data file."""
        if not entry.extra_files:
            return ()
        if entry.external_path is not None:
            folder = normalise_uri(entry.external_path).rpartition("/")[0]
        else:
            folder = self.bucket_dir(entry.partition, entry.bucket)
        return tuple(f"{folder}/{name}" for name in entry.extra_files)

    def index_file(self, entry: IndexEntry) -> str:
        """Return the path of an index file."""
        if entry.external_path is not None:
            return normalise_uri(entry.external_path)
        if self._index_with_data and entry.index_type in _PLACED_BY_BUCKET:
            return f"{self.bucket_dir(entry.partition, entry.bucket)}/{entry.file_name}"
        return f"index/{entry.file_name}"

    def files(self, entry: ManifestEntry | IndexEntry) -> tuple[str, ...]:
        """Return the paths of all files of an entry: first the data, changelog or index file, then its extra files."""
        if isinstance(entry, IndexEntry):
            return (self.index_file(entry),)
        return (self.data_file(entry), *self.extra_files(entry))

    def manifest(self, name: str) -> str:
        """Return the path of a manifest."""
        return f"manifest/{name}"

    def manifest_list(self, name: str) -> str:
        """Return the path of a manifest list."""
        return f"manifest/{name}"

    def index_manifest(self, name: str) -> str:
        """Return the path of an index manifest."""
        return f"manifest/{name}"

    def statistics(self, name: str) -> str:
        """Return the path of a statistics file."""
        return f"statistics/{name}"


class PathsOfRoots:
    """The path rules of a table's branches. Each schema is read once."""

    def __init__(self, store: Store, listing: TableListing) -> None:
        self._store = store
        self._branches = listing.branches
        self._known: dict[str, TablePaths | MaintenanceError] = {}

    def of(self, roots: Iterable[Root]) -> tuple[TablePaths, ...]:
        """Return the rules of each branch that has some of the roots.

        Raises:
            MaintenanceError: A schema cannot be read.
        """
        return tuple(self.of_branch(branch) for branch in dict.fromkeys(root.ref.branch for root in roots))

    def of_branch(self, branch: str) -> TablePaths:
        """Return the rules of one branch. A branch without a schema has those of main.

        Raises:
            MaintenanceError: The schema cannot be read.
        """
        if branch not in self._known:
            own = self._branches[branch] if self._branches[branch].schemas else self._branches[MAIN]
            try:
                self._known[branch] = TablePaths(read_schema(self._store, own))
            except MaintenanceError as error:
                self._known[branch] = error
        found = self._known[branch]
        if isinstance(found, MaintenanceError):
            raise found
        return found


def real_name(file_name: str) -> str:
    """Return the name of the file behind an entry's name; only shares of compacted changelogs differ."""
    return _real_changelog(file_name).rpartition("/")[2] if "$" in file_name else file_name


def _flag(schema: TableSchema, key: str, *, default: bool) -> bool:
    text = schema.options.get(key)
    return default if text is None else options.parse_bool(text, key)


def _folder(text: str) -> str:
    parts = [part for part in text.split("/") if part]
    if "." in parts or ".." in parts:
        raise FormatError(f"option data-file.path-directory: expected a folder below the table, found {text}")
    return "".join(f"{part}/" for part in parts)


def _real_changelog(path: str) -> str:
    folder, _, name = path.rpartition("/")
    match = _FAKE_CHANGELOG.fullmatch(name)
    if match is None:
        return path
    partition = folder.rpartition("/")[0]
    real = f"{match['name']}${match['bucket']}-{match['length']}{match['format'] or ''}"
    return "/".join(part for part in (partition, f"bucket-{match['bucket']}", real) if part)
