"""Tables that real engines wrote lose a file, each, and read again after a repair, or lose its vector after it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.clean_deletion_vectors import clean_deletion_vectors
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.storage.local.store import LocalStore
from tests.differential.metadata_edit import delete_files, newest_snapshot
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import TableReader, UnreadableRootError
from tests.unit.operations.repair.repair_world import FILES, refusal_of, repair_of

NO_AVRO = frozenset(
    {
        "misc-append_table_with_multiple_file_format",
        "orc-append_with_empty_partition_with_empty_value",
        "orc-pk_09_with_dv",
        "parquet-append_09",
    }
)
REFUSED = {
    **dict.fromkeys(NO_AVRO, "manifest_format"),
    "parquet-append_with_global_index": "data_evolution",
    "parquet-blob_append_table_alter_table_with_cast_with_data_evolution": "data_evolution",
    "parquet-pk_09": "manifest_schema",
}
OUTSIDE = "FILE:///tmp/external"


@pytest.mark.parametrize("name", [name for name in TABLE_NAMES if name != "orc-append_table_with_nested_type"])
def test_a_lost_file_of_a_real_table(name: str, fixtures_dir: Path, tmp_path: Path) -> None:
    location, outside = tmp_path / "t", tmp_path / "outside"
    shutil.copytree(fixtures_dir / "tables" / name, location)
    shutil.copytree(fixtures_dir / "external" / name, outside) if (fixtures_dir / "external" / name).is_dir() else None
    for place in (location, outside):
        for folder, _, _ in os.walk(place):
            Path(folder).chmod(0o755)  # the fixtures are read-only
    store, external = LocalStore(location), LocalStore(outside)
    externals = {OUTSIDE: external} if outside.is_dir() else {}

    def newest() -> str:
        ids = (path.name.partition("-")[2] for path in (location / "snapshot").glob("snapshot-*"))
        return f"snapshot/snapshot-{max(map(int, ids))}"

    def bodies() -> dict[Path, bytes]:
        return {path: path.read_bytes() for place in (location, outside) for path in place.rglob("*") if path.is_file()}

    needs = TableReader(store, externals).read(newest())
    lost = min(needs.live)
    (
        outside / lost.removeprefix(f"{OUTSIDE}/").removeprefix("FILE:/tmp/external/")
        if ":" in lost
        else location / lost
    ).unlink()
    with pytest.raises(UnreadableRootError):
        TableReader(store, externals).read(newest())
    before = bodies()
    maintainer = Maintainer(store, control=MemoryStore(), open_store=lambda _: external)
    shown = remove_unexisting_files(maintainer.table, RepairArguments(FILES), execute=False)
    accepted = None if shown.commits is None else repair_of(shown).loss_id
    report = remove_unexisting_files(maintainer.table, RepairArguments(FILES, accepted), execute=True)
    if name in REFUSED:
        assert refusal_of(report) == REFUSED[name]
        assert bodies() == before
        return
    assert report.status == "done", report
    repaired = TableReader(store, externals).read(newest())
    assert repaired.live == needs.live - {lost}
    assert repaired.document["totalRecordCount"] == needs.document["totalRecordCount"] - sum(
        file.rows for file in repair_of(report).files
    )
    changed = {path for path, body in before.items() if path.read_bytes() != body}
    assert changed <= {location / "snapshot" / "LATEST"}


@pytest.mark.parametrize("name", [name for name in TABLE_NAMES if "pk_" in name])
def test_a_vector_of_a_real_table(name: str, fixtures_dir: Path, tmp_path: Path) -> None:
    """A commit deletes a file with a vector, and leaves the vector. The other vectors and indexes stay as they are."""
    location = tmp_path / "t"
    shutil.copytree(fixtures_dir / "tables" / name, location)
    for folder, _, _ in os.walk(location):
        Path(folder).chmod(0o755)
    maintainer = Maintainer(LocalStore(location), control=MemoryStore(), open_store=lambda _: MemoryStore())
    report = clean_deletion_vectors(maintainer.table, RepairArguments(FILES), execute=True)
    if name in NO_AVRO | REFUSED.keys() and report.status == "refused":
        assert refusal_of(report) == REFUSED[name]
        return
    assert report.status == "nothing_to_do"
    before = _index_of(location)
    if not before:
        return
    gone = before[0]["_DELETIONS_VECTORS_RANGES"][0]["f0"]
    delete_files(location, {gone})
    report = clean_deletion_vectors(maintainer.table, RepairArguments(FILES), execute=True)
    assert report.status == "done", report
    assert _index_of(location) == before[1:]


def _index_of(location: Path) -> list[dict[str, Any]]:
    manifest = json.loads(newest_snapshot(location).read_text()).get("indexManifest")
    if manifest is None:
        return []
    with (location / "manifest" / manifest).open("rb") as file:
        return [row for row in fastavro.reader(file) if isinstance(row, dict)]
