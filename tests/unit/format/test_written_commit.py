"""A whole commit from the writers of `lakesweep.format`, judged by the tests' own reader and by pypaimon."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pypaimon import CatalogFactory
from pypaimon.manifest.index_manifest_file import IndexManifestFile
from pypaimon.manifest.manifest_file_manager import ManifestFileManager
from pypaimon.manifest.manifest_list_manager import ManifestListManager

from lakesweep.format.index_manifest_writer import read_raw_index_manifest, write_index_manifest
from lakesweep.format.manifest_list_writer import read_raw_list, write_manifest_list
from lakesweep.format.manifest_writer import write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import as_delete, read_raw_manifest
from lakesweep.format.schema import parse_schema
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.snapshot_writer import properties_of, write_snapshot
from lakesweep.storage.local.store import LocalStore
from tests.support.reader import assert_all_readable, read_root
from tests.support.table_builder import TableBuilder

CODECS = ("zstandard", "null", "deflate", "snappy")
PLACES: Mapping[str, tuple[Any, ...]] = {"A": ("x", 1), "B": ("y", 2), "C": ("a longer text", None), "D": (None, -5)}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Two commits of a partitioned table; vectors of two files."""
    folder = tmp_path / "lake" / "db.db" / "t"
    folder.mkdir(parents=True)
    keys, types = ("p", "n"), {"p": "STRING", "n": "INT"}
    options = {"deletion-vectors.enabled": "true"}
    table = TableBuilder(LocalStore(str(folder)), partition_keys=keys, types=types, options=options, real_rows=True)
    table.commit("+A", "+B", partition=PLACES)
    table.commit("+C", "+D", partition=PLACES, index={"i": {"A": (0,)}, "j": {"C": (1,)}})
    return table


def drop(table: TableBuilder, gone: set[str], codec: str) -> None:
    """Publish the next snapshot, in which some files are deleted with their vectors."""
    store = table.store

    def body(name: str, folder: str = "manifest/") -> bytes:
        return store.read(folder + name).data

    def put(name: str, data: bytes) -> int:
        store.put(f"manifest/{name}", data, if_absent=True)
        return len(data)

    newest = body("snapshot-2", "snapshot/")
    before = parse_snapshot(newest, "snapshot-2")
    types = parse_schema(body("schema-0", "schema/"), "schema-0").partition_types
    base = read_raw_list(body(before.base_manifest_list), "base", expected_size=before.base_manifest_list_size)
    delta = read_raw_list(body(before.delta_manifest_list), "delta", expected_size=before.delta_manifest_list_size)
    raw = [
        (manifest.schema_text, entry)
        for meta in (*base.metas, *delta.metas)
        for manifest in [read_raw_manifest(body(meta.file_name), meta.file_name, expected_size=meta.file_size)]
        for entry in manifest.entries()
    ]
    names = MetadataNames("0b6b9a1e-6c61-4b6b-9a1e-6c616b657377")
    deletes = [(text, e._replace(record=as_delete(e.record))) for text, e in raw if e.entry.file_name in gone]
    written = list(write_manifests(deletes, names, types, codec=codec))
    for each in written:
        assert put(each.meta.file_name, each.body) == each.meta.file_size

    index = read_raw_index_manifest(body(before.index_manifest or ""), "index")
    partitions = {entry.entry.partition for _, entry in deletes}
    kept = [record for record, entry in index.rows if entry.partition not in partitions]
    index_name, base_name, delta_name = names.index_manifest(), names.manifest_list(), names.manifest_list()
    put(index_name, write_index_manifest(index, kept, codec=codec))
    rows = sum(entry.entry.row_count for _, entry in deletes)
    after = replace(
        before,
        id=3,
        base_manifest_list=base_name,
        base_manifest_list_size=put(base_name, write_manifest_list([base, delta], (), codec=codec)),
        delta_manifest_list=delta_name,
        delta_manifest_list_size=put(delta_name, write_manifest_list((), written, codec=codec)),
        index_manifest=index_name,
        commit_kind="OVERWRITE",
        total_record_count=(before.total_record_count or 0) - rows,
        delta_record_count=-rows,
    )
    store.put("snapshot/snapshot-3", write_snapshot(after, properties_of(newest, "snapshot-2")), if_absent=True)
    store.put("snapshot/LATEST", b"3")


def names_of(table: TableBuilder, symbols: str) -> set[str]:
    return {table.path(symbol).rpartition("/")[2] for symbol in symbols}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("gone", ["A", "BC", "ABCD", ""])
def test_both_readers_see_what_is_left(table: TableBuilder, gone: str, codec: str) -> None:
    """Also with an empty delta, and with an index manifest without rows."""
    drop(table, names_of(table, gone), codec)
    left = set("ABCD") - set(gone)
    assert_all_readable(table)
    needs = read_root(table.store, "snapshot/snapshot-3")
    assert table.symbols(needs.live) == left
    assert table.symbols(needs.paths) & set("ij") == {sign for sign, file in (("i", "A"), ("j", "C")) if file in left}

    lake = Path(table.store.location).parent.parent
    theirs = CatalogFactory.create({"warehouse": str(lake)}).get_table("db.t")
    builder = theirs.new_read_builder()
    splits = builder.new_scan().plan().splits()
    assert {file.file_name for split in splits for file in split.files} == names_of(table, "".join(left))
    vectors = {"A", "C"} & left
    assert builder.new_read().to_arrow(splits).num_rows == needs.live_rows - len(vectors)

    snapshot = theirs.snapshot_manager().get_latest_snapshot()
    lists = ManifestListManager(theirs)
    (delta, base) = lists.read_delta(snapshot), lists.read_base(snapshot)
    assert [(meta.num_added_files, meta.num_deleted_files) for meta in base] == [(2, 0), (2, 0)]
    assert [(meta.num_added_files, meta.num_deleted_files) for meta in delta] == [(0, len(gone))] * bool(gone)
    for meta in delta:
        entries = ManifestFileManager(theirs).read(meta.file_name, drop_stats=False)
        assert {entry.file.file_name for entry in entries} == names_of(table, gone)
        low, high = (
            tuple(row.get_field(n) for n in range(2))
            for row in (meta.partition_stats.min_values, meta.partition_stats.max_values)
        )
        for n in range(2):
            known = [PLACES[file][n] for file in gone if PLACES[file][n] is not None]
            assert (low[n], high[n]) == (min(known, default=None), max(known, default=None))
            assert meta.partition_stats.null_counts[n] == len(gone) - len(known)
    indexes = IndexManifestFile(theirs).read(snapshot.index_manifest)
    assert [set(each.index_file.dv_ranges) for each in indexes] == [names_of(table, file) for file in sorted(vectors)]


def test_the_independent_writer_makes_the_same_records(table: TableBuilder) -> None:
    """The same drop by the tests' own writer: every value of the delta's manifest and list is the same."""
    drop(table, names_of(table, "BC"), "zstandard")
    mine = [_records(table, "snapshot/snapshot-3", "delta"), _entries(table, "snapshot/snapshot-3")]
    for name in ("snapshot-3", "LATEST"):
        Path(table.store.location, "snapshot", name).unlink()
    table.commit("-B", "-C")
    theirs = [_records(table, "snapshot/snapshot-3", "delta"), _entries(table, "snapshot/snapshot-3")]
    for each in (*mine[0], *theirs[0]):
        assert each.pop("_FILE_NAME").startswith("manifest-")
        assert each.pop("_FILE_SIZE") > 0
    assert mine == theirs
    assert [len(each) for each in mine] == [1, 2]


def _records(table: TableBuilder, root: str, part: str) -> list[dict[str, Any]]:
    document = read_root(table.store, root).document
    return list(fastavro.reader(io.BytesIO(table.store.read(f"manifest/{document[f'{part}ManifestList']}").data)))


def _entries(table: TableBuilder, root: str) -> list[dict[str, Any]]:
    names = [each["_FILE_NAME"] for each in _records(table, root, "delta")]
    return [each for name in names for each in fastavro.reader(io.BytesIO(table.store.read(f"manifest/{name}").data))]
