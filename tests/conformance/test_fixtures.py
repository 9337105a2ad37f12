"""The readers find in tables that Java Paimon wrote exactly what is there.

Eighteen tables of Paimon 0.9 to 1.4, Avro and ORC manifests, both branches where there are two.
"""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.documents import parse_hint
from lakesweep.format.manifest import ManifestEntry, read_index_manifest, read_manifest, read_manifest_list
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.uri import normalise_uri
from tests.support.fixture_tables import (
    TABLE_NAMES,
    FixtureBranch,
    FixtureSnapshot,
    expected_facts,
    metadata_files,
    read_branch,
)

SOURCES = {0: "APPEND", 1: "COMPACT", None: None}


def test_every_table_is_walked(fixtures_dir: Path) -> None:
    """A new fixture table must not go untested."""
    assert sorted(path.name for path in (fixtures_dir / "tables").iterdir()) == sorted(TABLE_NAMES)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_table(fixtures_dir: Path, name: str) -> None:
    """Snapshots, manifests, live files, index files and deltas of every branch are the expected ones."""
    pytest.importorskip("pyarrow", reason="four tables have ORC manifests")
    facts = expected_facts(fixtures_dir, name)
    table = fixtures_dir / "tables" / name
    for branch_name, branch_facts in facts["branches"].items():
        branch = read_branch(table, branch_name)
        assert [schema.id for schema in branch.schemas] == branch_facts["schema_ids"]
        assert [found.snapshot.id for found in branch.snapshots] == [fact["id"] for fact in branch_facts["snapshots"]]
        for found, fact in zip(branch.snapshots, branch_facts["snapshots"], strict=True):
            _check_root(found, fact)
            _check_files(branch, found, fact)
        for path, text in branch_facts["hints"].items():
            assert parse_hint((table / path).read_bytes()) == int(text)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_schema(fixtures_dir: Path, name: str) -> None:
    """Keys and options of main's latest schema are the expected ones."""
    facts = expected_facts(fixtures_dir, name)
    schema = read_branch(fixtures_dir / "tables" / name).schemas[-1]
    assert list(schema.partition_keys) == facts["partition_keys"]
    assert list(schema.primary_keys) == facts["primary_keys"]
    assert dict(schema.options) == facts["options"]


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_deletion_vectors(fixtures_dir: Path, name: str) -> None:
    """Every deletion vector is found where its index file has it."""
    pytest.importorskip("pyarrow")
    facts = expected_facts(fixtures_dir, name)
    table = fixtures_dir / "tables" / name
    found: dict[str, dict[str, Any]] = {}
    for branch_name in facts["branches"]:
        branch = read_branch(table, branch_name)
        for snapshot in branch.snapshots:
            for entry in snapshot.index:
                ranges = found.setdefault(branch.paths.index_file(entry), {}) if entry.vectors else {}
                for data_file, offset, length, cardinality in entry.vectors:
                    ranges[data_file] = (offset, length, cardinality)
    assert found == {
        _path(path): {
            data_file: (vector["offset"], vector["length"], vector["stated_cardinality"])
            for data_file, vector in vectors.items()
        }
        for path, vectors in facts["deletion_vectors"].items()
        if vectors
    }


def test_blank_partitions_share_a_directory(fixtures_dir: Path) -> None:
    """Null, '' and ' ' are three partitions of one directory."""
    pytest.importorskip("pyarrow")
    branch = read_branch(fixtures_dir / "tables" / "orc-append_with_empty_partition_with_empty_value")
    partitions = {entry.partition for found in branch.snapshots for entry in found.live}
    directories = {branch.paths.partition_dir(partition) for partition in partitions}
    assert len(partitions) > len(directories)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_cut_metadata(fixtures_dir: Path, name: str) -> None:
    """A real metadata file that lost its tail is damaged, and never a shorter list."""
    for path in metadata_files(fixtures_dir / "tables" / name):
        body = path.read_bytes()
        if not body.startswith(b"Obj\x01"):
            continue
        read: Any = read_manifest
        if path.name.startswith("manifest-list"):
            read = read_manifest_list
        elif path.name.startswith("index-manifest"):
            read = read_index_manifest
        whole = list(read(body, path.name))
        for end in {1, 3, 4, 100, len(body) // 2, len(body) - 17, len(body) - 16, len(body) - 1}:
            with pytest.raises(FormatError):
                list(read(body[:end], path.name, expected_size=len(body)))
            with contextlib.suppress(FormatError, UnsupportedFormatError):
                assert list(read(body[:end], path.name)) in ([], whole)


def _check_root(found: FixtureSnapshot, fact: dict[str, Any]) -> None:
    snapshot = found.snapshot
    for key in (
        "version",
        "schema_id",
        "commit_kind",
        "time_ms",
        "commit_user",
        "commit_identifier",
        "watermark",
        "next_row_id",
        "total_record_count",
        "delta_record_count",
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "index_manifest",
        "statistics",
    ):
        assert getattr(snapshot, key) == fact[key], key


def _check_files(branch: FixtureBranch, found: FixtureSnapshot, fact: dict[str, Any]) -> None:
    paths = branch.paths
    assert sorted({meta.file_name for meta in found.manifests}) == sorted(fact["manifests"])
    assert sorted(map(repr, (_live_file(branch, entry) for entry in found.live))) == sorted(
        map(repr, (_expected_file(file) for file in fact["live_files"]))
    )
    assert sum(entry.row_count for entry in found.live) == fact["live_rows"]
    assert sum(cardinality or 0 for entry in found.index for *_, cardinality in entry.vectors) in (
        fact["dv_deleted_rows"],
        0,  # Paimon 0.9 does not state cardinalities.
    )
    assert sorted(paths.data_file(entry) for entry in found.delta if entry.is_add) == _paths(fact["delta"]["added"])
    assert sorted(paths.data_file(entry) for entry in found.delta if not entry.is_add) == _paths(
        fact["delta"]["deleted"]
    )
    assert sorted(paths.data_file(entry) for entry in found.changelog) == _paths(fact["changelog_files"])
    assert sorted(
        (
            paths.index_file(entry),
            entry.index_type,
            _partition(branch, entry.partition),
            entry.bucket,
            entry.file_size,
            entry.row_count,
            sorted(name for name, *_ in entry.vectors),
        )
        for entry in found.index
    ) == sorted(
        (
            _path(file["path"]),
            file["type"],
            file["partition"],
            file["bucket"],
            file["size"],
            file["rows"],
            sorted(file.get("vectors", [])),
        )
        for file in fact["index_files"]
    )


def _live_file(branch: FixtureBranch, entry: ManifestEntry) -> tuple[object, ...]:
    return (
        branch.paths.data_file(entry),
        _partition(branch, entry.partition),
        entry.bucket,
        entry.level,
        entry.row_count,
        entry.file_size,
        SOURCES[entry.file_source],
        sorted(branch.paths.extra_files(entry)),
        entry.embedded_index is not None,
    )


def _expected_file(file: dict[str, Any]) -> tuple[object, ...]:
    folder = _path(file["path"]).rpartition("/")[0]
    return (
        _path(file["path"]),
        file["partition"],
        file["bucket"],
        file["level"],
        file["rows"],
        file["size"],
        file["file_source"],
        sorted(name if "/" in name else f"{folder}/{name}" for name in file["extra_files"]),
        file["embedded_index"],
    )


def _partition(branch: FixtureBranch, partition: bytes) -> dict[str, str | None]:
    schema = branch.schemas[-1]
    values = decode_row(partition, schema.partition_types, "partition")
    return {
        key: None if value is None else str(value) for key, value in zip(schema.partition_keys, values, strict=True)
    }


def _paths(paths: list[str]) -> list[str]:
    return sorted(map(_path, paths))


def _path(path: str) -> str:
    return normalise_uri(path) if ":" in path.partition("/")[0] else path
