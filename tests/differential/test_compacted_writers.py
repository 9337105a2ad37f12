"""Manifests of several writers compacted: everybody reads the same rows, and the engine goes on in each partition.

The table has commits of the engine and of pypaimon, whose manifests have different schemas, in turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential.commit_acts import COMPACTION, Act, by_ours
from tests.differential.commit_readers import readers
from tests.differential.commit_tables import Kind
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.support.commit_scene import Acting
from tests.support.faulty_store import FaultyStore
from tests.support.live_records import listed, live_records

pytestmark = pytest.mark.differential

KIND = Kind("append", (("p", "STRING"),), (("a",), ("b",), ("c",)), {"bucket": "-1", **RETAIN_EVERYTHING}, None)
COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("id", pa.int32()), pa.field("v", pa.string())])


class Mixed:
    """A table that both write."""

    def __init__(self, engine: Engine, name: str) -> None:
        from pypaimon import CatalogFactory

        self.engine, self.name = engine, name
        self.location = engine.location(f"d.{name}")
        self.store = LocalStore(str(self.location))
        self.catalog = CatalogFactory.create({"warehouse": str(engine.warehouse)})
        self.rows: list[list[str]] = []
        engine("create", table=self.table, **KIND.create)
        for commit in range(3):
            self.put([[p, str(commit), "java"] for p in "abc"])
            self.put_by_python([[p, str(commit), "python"] for p in "abc"])

    @property
    def table(self) -> str:
        return f"d.{self.name}"

    def newest(self) -> int:
        return max(int(path.name.rpartition("-")[2]) for path in self.location.glob("snapshot/snapshot-*"))

    def put(self, rows: list[list[str]]) -> None:
        self.engine("put", table=self.table, rows=rows)
        self.rows += rows

    def put_by_python(self, rows: list[list[str]]) -> None:
        builder = self.catalog.get_table(self.table).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        records = [{"p": p, "id": int(number), "v": v} for p, number, v in rows]
        write.write_arrow(pa.Table.from_pylist(records, COLUMNS))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        self.rows += rows

    def overwrite(self, row: list[str]) -> None:
        self.engine("put", table=self.table, rows=[row], overwrite=True)
        self.rows = [*(each for each in self.rows if each[0] != row[0]), row]

    def check(self) -> None:
        """Everybody reads these rows, and every filter of the engine agrees."""
        judged = self.engine("judge", table=self.table)
        assert not judged["wrong"], judged["wrong"]
        assert sorted(judged["rows"]) == sorted(self.rows)
        expected = {
            partition: sorted(row[1:] for row in self.rows if row[0] == partition) for partition, *_ in self.rows
        }
        for name, read in readers().items():
            found = {partition[0]: sorted(map(list, rows)) for partition, rows in read(self.location, KIND).items()}
            assert found == expected, name

    def schemas(self) -> set[str]:
        """Return the schemas of the live entries."""
        return {schema for schema, _ in live_records(self.store, self.newest())}

    def go_on(self) -> None:
        """Let both write, and the engine overwrite, drop, compact and expire on top of what we left."""
        self.put([["a", "7", "java"]])
        self.put_by_python([["b", "7", "python"]])
        self.check()
        self.overwrite(["c", "8", "java"])
        self.engine("compact", table=self.table)
        self.engine("drop_partitions", table=self.table, specs=[{"p": "a"}])
        self.rows = [row for row in self.rows if row[0] != "a"]
        self.check()
        self.engine("compact_manifests", table=self.table)
        self.engine("expire", table=self.table, retain_max=1, retain_min=1, time_retain_s=0)
        self.check()


def test_the_engine_and_pypaimon_go_on(engine: Engine, tmp_path: Path) -> None:
    mixed = Mixed(engine, "mixed")
    mixed.overwrite(["b", "9", "java"])
    assert len(mixed.schemas()) == 2
    before, base = live_records(mixed.store, mixed.newest()), mixed.newest()
    answer = by_ours(mixed.location, KIND, Act(COMPACTION), tmp_path / "control")
    assert answer.exit_code == 0, answer
    assert mixed.newest() == base + 1
    assert live_records(mixed.store, mixed.newest()) == before
    lines = listed(mixed.store, mixed.newest())
    assert [line["_NUM_DELETED_FILES"] for line in lines] == [0, 0], "one for each schema"
    mixed.check()
    assert by_ours(mixed.location, KIND, Act(COMPACTION), tmp_path / "control").document["status"] == "nothing_to_do"
    mixed.go_on()


@pytest.mark.parametrize("other", ["put", "overwrite", "python", "compact_manifests"])
def test_another_commits_meanwhile(engine: Engine, tmp_path: Path, other: str) -> None:
    """After its commit what was written is used again, unless the engine itself compacted manifests."""
    mixed = Mixed(engine, f"meanwhile_{other}")
    mixed.overwrite(["b", "9", "java"])
    acts: dict[str, Callable[[], object]] = {
        "put": lambda: mixed.put([["a", "5", "java"]]),
        "overwrite": lambda: mixed.overwrite(["a", "5", "java"]),
        "python": lambda: mixed.put_by_python([["a", "5", "python"]]),
        "compact_manifests": lambda: engine("compact_manifests", table=mixed.table),
    }
    base = mixed.newest()
    control = LocalStore(str(tmp_path / "control"))
    lease = "control put " + ControlArea(control, mixed.store.location).prefix + "lease.json"
    switch = Acting(lease, acts[other])
    table = Table(
        ref=TableRef(mixed.store.location),
        store=FaultyStore(mixed.store, switch, "table"),
        area=ControlArea(FaultyStore(control, switch, "control"), mixed.store.location),
        open_store=LocalStore,
    )
    catalog = {"catalog_type": "filesystem", "catalog_lock": True}
    report = run_operation(table, COMPACTION, catalog, execute=True)
    assert report.refusal is None, report.refusal
    assert report.commits is not None
    document = json.loads(json.dumps(report.commits.to_json()))
    if other == "compact_manifests":
        assert (report.status, mixed.newest()) == ("nothing_to_do", base + 1), "the engine merged all into one"
    else:
        assert (report.status, mixed.newest()) == ("done", base + 2)
        assert document["reused_attempt"] and document["made"][0]["attempts"] == 2
    assert live_records(mixed.store, mixed.newest()) == live_records(mixed.store, base + 1)
    mixed.check()
    mixed.go_on()
