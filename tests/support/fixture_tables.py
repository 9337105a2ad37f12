"""A plain walk over a fixture table: roots to lists to manifests to files, with the format readers alone.

It exists so that the readers can be judged without the loader that the product uses.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesweep.format.manifest import (
    IndexEntry,
    ManifestEntry,
    ManifestMeta,
    live_entries,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.format.names import schema_id_of, snapshot_id_of
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.table.paths import TablePaths

TABLE_NAMES = (
    "misc-append_table_with_multiple_file_format",
    "orc-append_table_with_nested_type",
    "orc-append_with_empty_partition_with_empty_value",
    "orc-pk_09_with_dv",
    "parquet-append_09",
    "parquet-append_table_row_tracking_with_compact",
    "parquet-append_table_with_rt_branch",
    "parquet-append_with_bitmap",
    "parquet-append_with_bitmap_no_embedding",
    "parquet-append_with_global_index",
    "parquet-blob_append_table_alter_table_with_cast_with_data_evolution",
    "parquet-pk_09",
    "parquet-pk_dv_index_in_data_no_external",
    "parquet-pk_dv_index_in_data_with_external",
    "parquet-pk_table_scan_and_read_first_row",
    "parquet-pk_table_scan_and_read_mor",
    "parquet-pk_table_with_alter_table",
    "parquet-pk_table_with_dv_cardinality",
)


@dataclass(frozen=True, slots=True)
class FixtureSnapshot:
    """All that one snapshot refers to."""

    snapshot: Snapshot
    manifests: tuple[ManifestMeta, ...]
    """Of the base, delta and changelog lists, in this order."""
    live: list[ManifestEntry]
    delta: list[ManifestEntry]
    changelog: list[ManifestEntry]
    index: tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class FixtureBranch:
    """One branch of a fixture table."""

    schemas: tuple[TableSchema, ...]
    paths: TablePaths
    snapshots: tuple[FixtureSnapshot, ...]


def expected_facts(fixtures: Path, name: str) -> dict[str, Any]:
    """Return what a correct reader must find."""
    facts: dict[str, Any] = json.loads((fixtures / "expected" / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def read_branch(table: Path, branch: str = "main") -> FixtureBranch:
    """Read everything that a branch's snapshots refer to."""
    root = table if branch == "main" else table / "branch" / f"branch-{branch}"
    schemas = tuple(parse_schema(path.read_bytes(), path.name) for path in _numbered(root / "schema", schema_id_of))
    snapshots = [parse_snapshot(path.read_bytes(), path.name) for path in _numbered(root / "snapshot", snapshot_id_of)]
    return FixtureBranch(
        schemas, TablePaths(schemas[-1]), tuple(_read_snapshot(table, snapshot) for snapshot in snapshots)
    )


def metadata_files(table: Path) -> Iterator[Path]:
    """Yield every manifest, manifest list and index manifest."""
    return iter(sorted((table / "manifest").iterdir())) if (table / "manifest").is_dir() else iter(())


def _numbered(folder: Path, id_of: Any) -> list[Path]:
    found = {id_of(path.name): path for path in folder.iterdir()} if folder.is_dir() else {}
    return [found[number] for number in sorted(number for number in found if number is not None)]


def _read_snapshot(table: Path, snapshot: Snapshot) -> FixtureSnapshot:
    base = _manifests(table, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    delta = _manifests(table, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
    changelog = _manifests(table, snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
    index: tuple[IndexEntry, ...] = ()
    if snapshot.index_manifest is not None:
        index = read_index_manifest(
            (table / "manifest" / snapshot.index_manifest).read_bytes(), snapshot.index_manifest
        )
    return FixtureSnapshot(
        snapshot,
        base + delta + changelog,
        live_entries(_entries(table, meta) for meta in base + delta),
        [entry for meta in delta for entry in _entries(table, meta)],
        [entry for meta in changelog for entry in _entries(table, meta)],
        index,
    )


def _manifests(table: Path, name: str | None, size: int | None) -> tuple[ManifestMeta, ...]:
    if name is None:
        return ()
    return read_manifest_list((table / "manifest" / name).read_bytes(), name, expected_size=size)


def _entries(table: Path, meta: ManifestMeta) -> list[ManifestEntry]:
    body = (table / "manifest" / meta.file_name).read_bytes()
    entries = list(read_manifest(body, meta.file_name, expected_size=meta.file_size))
    added = sum(entry.is_add for entry in entries)
    assert (added, len(entries) - added) == (meta.added_count, meta.deleted_count)
    return entries
