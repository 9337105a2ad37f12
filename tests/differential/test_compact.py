"""`compact` beside the engine and pypaimon: every version shows the rows that it did, and filters find them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest

from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from tests.differential.compacted import CATALOG, CODECS, Compacted
from tests.differential.deleted_columns import Column, draw_columns
from tests.differential.deleted_rows import DeletedRows
from tests.differential.engine import Engine
from tests.support.acting import Acting
from tests.support.conditions import NANOS, TYPES
from tests.support.faulty_store import Switch
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_ROW_HISTORIES") or 6)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 1)


def play(engine: Engine, work: Path, seed: int) -> Compacted:
    """Play a history; after each compaction of ours every version shows what it did before."""
    scene = Compacted(engine, f"compacted.t{seed}", work, Random(seed))
    scene.draw()
    scene.put()
    for round_ in range(3):
        for _ in range(6):
            scene.step()
        scene.put()
        if round_ == 1 and scene.newest():
            engine("tag", table=scene.table, op="create", name="t", snapshot=max(scene.newest() - 1, 1))
        scene.do("alter", set={"file.format": "parquet"})
        if not scene.newest():
            continue
        before, python = scene.versions(), scene.rows_of_python()
        if before["latest"] is None:
            scene.facts["not read by the engine"] += 1
            continue
        report = scene.compact(options={"file.compression": scene.random.choice(CODECS)})
        after = scene.versions()
        if report.status == "nothing_to_do":
            continue
        if report.status != "done":
            assert report.refusal is not None
            scene.facts[f"refused: {report.refusal.code}"] += 1
            assert after == before, f"a refused run changed rows\n{scene}"
            continue
        scene.facts["compacted"] += 1
        differing = _differing(before, after)
        assert not differing, f"{differing}\n{scene}"
        assert after[f"snapshot {scene.newest()}"] is not None
        if python is not None:
            assert scene.rows_of_python() == python, f"pypaimon\n{scene}"
            scene.facts["read by pypaimon"] += 1
    return scene


def _differing(before: Mapping[str, list[str] | None], after: Mapping[str, list[str] | None]) -> str:
    """Return the first rows of each version that were lost or came."""
    found = {}
    for name, rows in before.items():
        lost, came = Counter(rows or ()) - Counter(after[name] or ()), Counter(after[name] or ()) - Counter(rows or ())
        if lost or came or (rows is None) != (after[name] is None):
            found[name] = (list(lost)[:2], list(came)[:2])
    return str(found or "")


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_histories(engine: Engine, tmp_path: Path, seed: int) -> None:
    """Tables of all types, after several changes of the schema and deletes by vectors."""
    play(engine, tmp_path, seed)


def test_snappy(engine: Engine, tmp_path: Path) -> None:
    """Judged by pypaimon, since the engine of the tests has no library for it."""
    scene = Compacted(engine, "compacted.snappy", tmp_path, Random(1))
    scene.create([["a", "STRING"], ["b", "DECIMAL(20, 6)"], ["c", {"type": "ARRAY", "element": "DOUBLE"}]])
    scene.put()
    scene.put()
    before = scene.rows_of_python()
    options = {"file.compression": "snappy", "file.suffix.include.compression": "true"}
    assert scene.compact(options=options).status == "done"
    (name,) = scene.live()
    assert name.endswith(".snappy.parquet")
    assert before is not None
    assert scene.rows_of_python() == before


def test_nested_columns_that_may_not_be_null(engine: Engine, tmp_path: Path) -> None:
    """pypaimon reads them only if the new file says so, too."""
    scene = Compacted(engine, "compacted.strict", tmp_path, Random(1))
    inner = {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT NOT NULL"}]}
    scene.create([["a", inner], ["b", {"type": "ARRAY", "element": inner}]])
    for _ in range(2):
        engine("typed_put", table=scene.table, rows=[[[1], [[2], None]], [None, None]])
    before, python = scene.rows(), scene.rows_of_python()
    assert scene.compact().status == "done"
    assert before is not None
    assert scene.rows() == before
    assert python is not None
    assert scene.rows_of_python() == python


# --- between what others do ------------------------------------------------------------------------------------------


class Shared(DeletedRows):
    """A table that Lakesweep compacts between what others do."""

    @property
    def _unwritable(self) -> tuple[str, ...]:
        """Time stamps that pyarrow does not write beside others."""
        return NANOS

    def compact_by_ours(self, switch: Switch | None = None) -> RunReport:
        """Compact all files that share their partition with others, or have deleted rows."""
        report = compact(self.opened(switch), CompactArguments(catalog=CATALOG, full=True), execute=True)
        self.done.append(f"ours: compact, {report.status}")
        self._positions = {}
        return report


def shared(engine: Engine, work: Path, name: str, random: Random) -> Shared:
    """Draw a table and create it; pypaimon takes the partitions of 0.0 and -0.0 for one."""
    options = {
        "deletion-vectors.bitmap64": random.choice(("false", "true")),
        "deletion-vector.index-file.target-size": random.choice(("2 mb", "60 b", "1 b")),
        "index-file-in-data-file-dir": random.choice(("false", "true")),
        "partition.legacy-name": random.choice(("true", "false")),
        "metadata.stats-mode": random.choice(("truncate(16)", "truncate(2)", "full", "none")),
        "manifest.merge-min-count": random.choice(("3", "30")),
        "target-file-size": random.choice(("256 mb", "256 mb", "3 kb")),
        "compaction.min.file-num": "2",
        "write-only": "true",
    }
    scene = Shared(engine, name, work, draw_columns(random, set(TYPES) - {*NANOS, "d"}), options)
    scene.create()
    return scene


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_others_go_on(engine: Engine, tmp_path: Path, seed: int) -> None:
    """The engine and pypaimon do everything on top of our compaction, and it comes on top of what they did."""
    random = Random(seed)
    scene = shared(engine, tmp_path, f"shared{seed}", random)
    scene.put(random)
    every: list[Callable[[Random], None]] = [
        scene.put, scene.put_by_python, scene.delete_by_engine, scene.delete, scene.compact, scene.alter, scene.alter,
        scene.drop_partition, scene.overwrite, scene.expire, scene.scan_for_orphans, scene.compact_manifests,
    ]  # fmt: skip
    for step in random.sample(every, 7):
        step(random)
        scene.check()
        scene.put(random)
        before = scene.newest()
        report = scene.compact_by_ours()
        assert report.status in ("done", "nothing_to_do"), f"{report.refusal}\n{scene}"
        assert scene.newest() == before + (report.status == "done")
        scene.check(after_ours=True)
        scene.check_older(random)


NUMBER, VALUE, KEY = (
    Column(0, "rid", "rid", "BIGINT"), Column(1, "i", "i", "INT"), Column(100, "s", "s", "STRING", is_key=True),
)  # fmt: skip
ACTS = ("delete", "delete all", "compact", "append", "overwrite", "drop", "a column")
MOMENTS = {"data": "/bucket-0/data-", "manifest": "put manifest/manifest-", "snapshot": "put snapshot/snapshot-"}


@pytest.mark.parametrize("width", ["32", "64"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("act", ACTS)
def test_the_engine_commits_meanwhile(engine: Engine, tmp_path: Path, act: str, moment: str, width: str) -> None:
    """No row that it deleted comes back, none is there twice, and none is lost."""
    options = {
        "deletion-vectors.bitmap64": str(width == "64").lower(), "compaction.min.file-num": "2", "write-only": "true",
    }  # fmt: skip
    name = f"meanwhile_{ACTS.index(act)}_{moment}_{width}"
    scene = Shared(engine, name, tmp_path, [NUMBER, VALUE, KEY], options)
    scene.create()
    for at, partition in enumerate(("x", "x", "x", "y", "y", None)):
        rows = {number: {0: number, 1: number % 10, 100: partition} for number in range(10 * at, 10 * at + 10)}
        scene.do("typed_put", rows=scene.stated(rows.values()))
        scene.rows |= rows
    scene._next = 100
    first = sorted(scene.live())[:2]
    scene.do("dv_delete", n=2, only=first)
    scene.learn()
    new = {0: 99, 1: 9, 100: "x"}

    def act_now() -> None:
        match act:
            case "delete":
                scene.do("dv_delete", n=3, only=sorted(scene.live())[1:3])
            case "delete all":
                scene.do("dv_delete", n=10, only=first)
            case "compact":
                scene.do("compact")
            case "append":
                scene.do("typed_put", rows=scene.stated([new]))
            case "overwrite":
                scene.do("typed_put", rows=scene.stated([new]), overwrite=True)
            case "drop":
                scene.do("drop_partitions", specs=[{"s": "x"}])
            case "a column":
                scene.do("typed_alter", changes=[["add", ["more"], "INT"]])
                scene.columns.append(Column(2, "more", "i", "INT"))
        if act in ("append", "overwrite"):
            scene.rows[99] = new
        scene.learn()

    racing = Acting(lambda call: MOMENTS[moment] in call and "put" in call, act_now)
    report = scene.compact_by_ours(racing)
    assert racing.has_acted
    assert report.status in ("done", "partial", "stale"), report.refusal
    scene.check(after_ours=report.status == "done")
    if act == "append":
        assert report.status == "done"
    assert scene.compact_by_ours().status in ("done", "nothing_to_do")
    scene.check(after_ours=True)
    random = Random(1)
    for step in (scene.put, scene.delete_by_engine, scene.compact, scene.overwrite, scene.drop_partition):
        step(random)
        scene.check()
