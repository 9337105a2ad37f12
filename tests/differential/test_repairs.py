"""A table that lost a file, a manifest or its statistics, repaired by Lakesweep, and what other engines make of it.

Before the repair the engine fails. Afterwards it reads what the model says, by a full scan and by every filter, and so
do pypaimon and the Rust implementation. Then the engine appends, deletes, compacts, overwrites and drops on top.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.model.commits.repair import RepairReport
from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.commit_readers import readers
from tests.differential.commit_tables import Kind
from tests.differential.engine import Engine, EngineError
from tests.differential.metadata_edit import LISTS, newest_snapshot, records_of
from tests.differential.written_tables import APPEND, PRIMARY_KEY, kind_of, write
from tests.support.acting import Acting
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.differential

VECTORS = {"bucket": "-1", "deletion-vectors.enabled": "true"}
KINDS = [
    APPEND,
    PRIMARY_KEY,
    kind_of("append in buckets", **{"bucket": "2", "bucket-key": "id"}),
    kind_of("append with row ids", **{"bucket": "-1", "row-tracking.enabled": "true"}),
    kind_of("append with vectors", **VECTORS),
    kind_of("append with vectors beside the data", **VECTORS, **{"index-file-in-data-file-dir": "true"}),
    kind_of("primary key with vectors", **{"bucket": "1", "deletion-vectors.enabled": "true"}),
    kind_of("append, other files", **{"bucket": "-1", "data-file.external-paths.strategy": "round-robin"}),
]


@pytest.fixture
def repaired(engine: Engine, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(operation: str, table: str) -> dict[str, Any]:
        location = str(engine.location(table))
        line = [operation, location, "--control", str(tmp_path / "control"), "--json"]
        shown = ours.run(line).document
        if operation.startswith("remove"):
            accepted = shown["commits"]["loss_id"]
            line += ["--catalog-type", "filesystem", "--catalog-lock", "--execute"]
            line += ["--accept-loss", accepted] if accepted else []
        else:
            line = ["execute", location, shown["plan_id"], "--confirm", shown["plan_id"], *line[2:]]
        answer = ours.run(line)
        assert answer.exit_code == 0, answer
        assert answer.document["status"] == "done", answer.document
        return answer.document

    return run


def _newest(location: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(newest_snapshot(location).read_text())
    return document


def _judged(engine: Engine, table: str, kind: Kind) -> dict[str, int]:
    """Return the rows of each partition, about which everybody agrees."""
    judged = engine("judge", table=table)
    assert not judged["wrong"], judged["wrong"]
    found: dict[str, int] = {}
    for partition, *_ in judged["rows"]:
        found[partition] = found.get(partition, 0) + 1
    for name, read in readers().items():
        if "other files" not in kind.shape:
            read_rows = read(engine.location(table), kind)
            assert {partition[0]: len(rows) for partition, rows in read_rows.items()} == found, name
    return found


def _on_top(engine: Engine, table: str, kind: Kind) -> None:
    """Let the engine do everything in the partition that lost something, each on a copy of the table."""
    steps: Mapping[str, Callable[[str], object]] = {
        "append": lambda to: engine("put", table=to, rows=[["a", "5", "again"]]),
        "delete": lambda to: engine("dv_delete", table=to, n=1) if "append with vectors" in kind.shape else None,
        "compact": lambda to: engine("compact", table=to),
        "overwrite": lambda to: engine("put", table=to, rows=[["a", "1", "again"]], overwrite=True),
        "drop": lambda to: engine("drop_partitions", table=to, specs=[{"p": "a"}]),
        "compact manifests": lambda to: engine("compact_manifests", table=to),
    }
    for name, step in steps.items():
        copy = f"{table}_{name.replace(' ', '_')}"
        shutil.copytree(engine.location(table), engine.location(copy))
        step(copy)
        found = _judged(engine, copy, kind)
        assert found.get("a", 0) == (1 if name == "overwrite" else 0) if name in ("overwrite", "drop") else True, name
        shutil.rmtree(engine.location(copy))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.shape)
def test_a_data_file(engine: Engine, tmp_path: Path, repaired: Callable[..., dict[str, Any]], kind: Kind) -> None:
    table = f"d.lost_{kind.shape.replace(' ', '_').replace(',', '')}"
    if "other files" in kind.shape:
        outside = (tmp_path / "outside").as_uri()
        kind = kind_of(kind.shape, **kind.options, **{"data-file.external-paths": outside})
    write(engine, table, kind)
    location, before = engine.location(table), _judged(engine, table, kind)
    newest = [root for root in engine("references", table=table) if root["kind"] == "snapshot"][-1]
    lost = next(path for path in newest["files"] if "p=a/" in path and "/data-" in path)
    (location / lost).unlink()
    with pytest.raises(EngineError):
        engine("rows", table=table)
    objects = {path: path.read_bytes() for path in location.rglob("*") if path.is_file()}
    total = _newest(location)["totalRecordCount"]
    document = repaired("remove-unexisting-files", table)
    (file,) = document["commits"]["lost_files"]
    assert file["path"].endswith(lost.removeprefix(str(tmp_path)))
    assert {path for path, body in objects.items() if path.read_bytes() != body} <= {location / "snapshot" / "LATEST"}
    after = _judged(engine, table, kind)
    assert {partition: rows for partition, rows in after.items() if partition != "a"} == {
        partition: rows for partition, rows in before.items() if partition != "a"
    }
    assert _newest(location)["totalRecordCount"] == total - file["rows"]
    if kind.shape == "append":
        assert after["a"] == before["a"] - file["rows"]
    _on_top(engine, table, kind)


DECLARED = Catalog("filesystem", has_lock=True)
MEANWHILE: Mapping[str, Callable[[Engine, str], object]] = {
    "append": lambda engine, table: engine("put", table=table, rows=[["a", "7", "java"], ["b", "7", "java"]]),
    "overwrite": lambda engine, table: engine("put", table=table, rows=[["a", "7", "java"]], overwrite=True),
    "drop": lambda engine, table: engine("drop_partitions", table=table, specs=[{"p": "a"}]),
    "delete": lambda engine, table: engine("dv_delete", table=table, n=2),
    "expire": lambda engine, table: engine("expire", table=table, retain_max=1, retain_min=1, time_retain_s=0),
}


@pytest.mark.parametrize("act", MEANWHILE)
@pytest.mark.parametrize("when", ["manifest/", "snapshot/snapshot-"])
def test_a_writer_commits_meanwhile(engine: Engine, when: str, act: str) -> None:
    """Right before the first file of the repair, or right before its snapshot: as if it had come after the repair."""
    kind, table = KINDS[4], f"d.meanwhile_{act}_{when.partition('/')[0]}"
    write(engine, table, kind)
    location, before = engine.location(table), _judged(engine, table, kind)
    newest = [root for root in engine("references", table=table) if root["kind"] == "snapshot"][-1]
    lost = next(path for path in newest["files"] if "p=a/" in path and "/data-" in path)
    (location / lost).unlink()
    copy = f"{table}_copy"
    shutil.copytree(location, engine.location(copy))

    def repair(name: str, switch: Switch) -> RunReport:
        store = FaultyStore(LocalStore(str(engine.location(name))), switch, "table")
        target = Maintainer(store, control=MemoryStore()).table
        shown = remove_unexisting_files(target, arguments := RepairArguments(DECLARED), execute=False).commits
        assert isinstance(shown, RepairReport)
        return remove_unexisting_files(target, replace(arguments, accept_loss=shown.loss_id), execute=True)

    acting = Acting(lambda name: name.startswith(f"table put {when}"), lambda: MEANWHILE[act](engine, table))
    report = repair(table, acting)
    assert acting.has_acted
    assert report.told_status == ("nothing_to_do" if act in ("overwrite", "drop") else "done"), report
    assert repair(copy, Switch()).told_status == "done"
    MEANWHILE[act](engine, copy)
    assert engine("judge", table=table)["rows"] == engine("judge", table=copy)["rows"]
    assert _judged(engine, table, kind) == _judged(engine, copy, kind) != before
    _on_top(engine, table, kind)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("kind", [APPEND, PRIMARY_KEY, KINDS[4]], ids=lambda kind: kind.shape)
def test_a_manifest(engine: Engine, repaired: Callable[..., dict[str, Any]], kind: Kind, place: int) -> None:
    """Also one that deletes: its rows return, and the engine can go on."""
    table = f"d.without_manifest_{kind.shape.replace(' ', '_')}_{place}"
    write(engine, table, kind)
    location = engine.location(table)
    metas = [meta for key in LISTS for meta in records_of(location, key)]
    (location / "manifest" / metas[place]["_FILE_NAME"]).unlink()
    with pytest.raises(EngineError):
        engine("rows", table=table)
    report = repaired("remove-unexisting-manifests", table)
    (lost,) = report["commits"]["lost_manifests"]
    assert (lost["added"], lost["deleted"]) == (metas[place]["_NUM_ADDED_FILES"], metas[place]["_NUM_DELETED_FILES"])
    found = _judged(engine, table, kind)
    if kind.shape == "append":
        assert _newest(location)["totalRecordCount"] == sum(found.values())
    _on_top(engine, table, kind)


def test_statistics(engine: Engine, repaired: Callable[..., dict[str, Any]]) -> None:
    """Paimon reads without them, and cannot commit."""
    table = "d.without_statistics"
    write(engine, table, APPEND)
    engine("statistics", table=table)
    before = _judged(engine, table, APPEND)
    for path in (engine.location(table) / "statistics").iterdir():
        path.unlink()
    with pytest.raises(EngineError):
        engine("put", table=table, rows=[["a", "5", "again"]])
    repaired("remove-unexisting-files", table)
    assert _judged(engine, table, APPEND) == before
    _on_top(engine, table, APPEND)


@pytest.mark.parametrize(("name", "value"), [("LATEST", "9999"), ("LATEST", "0"), ("EARLIEST", "3")])
def test_hints(engine: Engine, repaired: Callable[..., dict[str, Any]], name: str, value: str) -> None:
    """A LATEST that names nothing stops the engine; an EARLIEST that names too much keeps snapshots for ever."""
    table = f"d.hint_{name}_{value}"
    write(engine, table, APPEND)
    location = engine.location(table)
    before = _judged(engine, table, APPEND)
    (location / "snapshot" / name).write_text(value)
    if value == "9999":
        with pytest.raises(EngineError):
            engine("rows", table=table)
    repaired("repair-hints", table)
    assert _judged(engine, table, APPEND) == before
    engine("put", table=table, rows=[["a", "5", "again"]])
    engine("expire", table=table, retain_max=1, retain_min=1, time_retain_s=0)
    assert sorted(path.name for path in (location / "snapshot").glob("snapshot-*")) == ["snapshot-5"]
