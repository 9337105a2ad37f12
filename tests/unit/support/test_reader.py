"""The independent reader against tables that engines wrote, with facts found by another reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.local.store import LocalStore
from tests.support.reader import all_roots, read_all

WITH_SNAPSHOTS = [
    "misc-append_table_with_multiple_file_format",
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
]


@pytest.mark.parametrize("name", WITH_SNAPSHOTS)
def test_reads_real_tables(name: str, fixtures_dir: Path) -> None:
    if name in ("misc-append_table_with_multiple_file_format", "parquet-append_09") or name.startswith("orc-"):
        pytest.importorskip("pyarrow.orc", reason="this table has ORC manifests")
    facts = json.loads((fixtures_dir / "expected" / f"{name}.json").read_text())
    outside = fixtures_dir / "external" / name
    externals = {"FILE:///tmp/external": LocalStore(str(outside))} if outside.is_dir() else {}

    found = read_all(LocalStore(str(fixtures_dir / "tables" / name)), externals)

    expected = {
        f"{'' if branch == 'main' else f'branch/branch-{branch}/'}snapshot/snapshot-{snapshot['id']}": snapshot
        for branch, state in facts["branches"].items()
        for snapshot in state["snapshots"]
    }
    assert found.keys() == expected.keys()
    for root, snapshot in expected.items():
        assert found[root].live == {file["path"] for file in snapshot["live_files"]}
        assert found[root].live_rows == snapshot["live_rows"]
        assert found[root].paths == _stated(snapshot) | {root}


def test_a_table_without_snapshots_has_no_roots(fixtures_dir: Path) -> None:
    assert all_roots(LocalStore(str(fixtures_dir / "tables" / "orc-append_table_with_nested_type"))) == []


def _stated(snapshot: dict[str, Any]) -> set[str]:
    lists = ("base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest")
    found = {f"manifest/{snapshot[name]}" for name in lists if snapshot[name]}
    found |= {f"manifest/{name}" for name in snapshot["manifests"]}
    found |= {index["path"] for index in snapshot["index_files"]}
    found |= set(snapshot["changelog_files"])
    for file in snapshot["live_files"]:
        found |= {file["path"], *file["extra_files"]}
    return found
