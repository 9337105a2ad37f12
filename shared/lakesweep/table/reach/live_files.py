"""The data files of one version of a table: the files that its manifests add and do not delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import live_entries
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.options import parse_bool
from lakesweep.format.values.partition_path import value_text
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.root_files import state_lists


class LiveFile(NamedTuple):
    """One data file of a version."""

    path: str
    """Relative to the table root, an absolute URI when external."""
    size_bytes: int
    rows: int
    level: int
    bucket: int
    partition: Mapping[str, str | None]
    """Key -> value as Paimon prints it in directories, before escaping; `None` for null."""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """The number of files of a version, from its manifest lists."""

    files: int
    manifests: int


def live_counts(store: Store, root: Root) -> LiveCounts:
    """Count the data files of a snapshot or tag without reading a manifest.

    Lists say how many files each manifest adds and deletes. The difference is the number of live files, with two
    exceptions: a writer deleted a file that did not exist, or added a file again that it had deleted.

    Raises:
        RefusedError: A list of the root is missing or damaged.
        StorageError: A read failed.
    """
    metas = [each.meta for _, each in _version(store, root).manifests()]
    return LiveCounts(sum(meta.added_count - meta.deleted_count for meta in metas), len(metas))


def live_files(store: Store, schema: TableSchema, root: Root) -> tuple[LiveFile, ...]:
    """Return the data files of a snapshot or tag, ascending by path.

    Args:
        store: The table's store.
        schema: The latest schema of the root's branch, which determines paths.
        root: The version.

    Raises:
        RefusedError: A list or manifest of the root is missing or damaged, so some files would be unknown.
        StorageError: A read failed.

    Source: Paimon `FileStoreScan` (base and delta manifests).
    """
    entries = live_entries(entries for _, entries in _version(store, root).scan(tuple))
    paths, partitions = TablePaths(schema), _Partitions(schema)
    found = (
        LiveFile(
            path=paths.data_file(entry),
            size_bytes=entry.file_size,
            rows=entry.row_count,
            level=entry.level,
            bucket=entry.bucket,
            partition=partitions.values(entry.partition),
        )
        for entry in entries
    )
    return tuple(sorted(found, key=lambda file: file.path))


def _version(store: Store, root: Root) -> Holders:
    def refuse(content: Unreadable) -> RefusedError:
        return RefusedError(
            f"table {store.location}: {root.ref} cannot be read completely: {content.problem}", code="unreadable_root"
        )

    return Holders(MetadataReader(store), [root], state_lists, refuse)


class _Partitions:
    """Partition values as text, each partition decoded once."""

    def __init__(self, schema: TableSchema) -> None:
        self._keys = schema.partition_keys
        self._types = schema.partition_types
        legacy = schema.options.get("partition.legacy-name")
        self._legacy_name = legacy is None or parse_bool(legacy, "partition.legacy-name")
        self._path = f"schema/schema-{schema.id}"
        self._known: dict[bytes, Mapping[str, str | None]] = {}

    def values(self, partition: bytes) -> Mapping[str, str | None]:
        known = self._known.get(partition)
        if known is None:
            values = decode_row(partition, self._types, self._path)
            known = {
                key: None if value is None else value_text(value, type_, legacy_name=self._legacy_name)
                for key, type_, value in zip(self._keys, self._types, values, strict=True)
            }
            self._known[partition] = known
        return known
