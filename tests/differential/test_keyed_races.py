"""Others commit while `compact` works on a table with a primary key: no row is lost, comes back, or is there twice."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.differential.engine import Engine, EngineError
from tests.differential.keyed_history import KeyedTable
from tests.support.acting import Acting
from tests.support.keyed_checks import problems
from tests.support.keyed_files import KeyedSnapshot

pytestmark = pytest.mark.differential

MOMENTS = {"data": "bucket-", "manifest": "put manifest/manifest-", "snapshot": "put snapshot/snapshot-"}
ACTS = (
    "write", "pypaimon", "compact", "compact fully", "compact one bucket", "mark and compact", "overwrite", "truncate",
    "a column",
)  # fmt: skip
DEEP = 400
"""Rows of the run below all others."""


def scene_of(engine: Engine, work: Path, name: str, **options: str) -> KeyedTable:
    """Create a table of two buckets: a large run on the deepest level, and small files on level 0 of each."""
    options = {"bucket": "2", "compaction.size-ratio": "0", "deletion-vectors.enabled": "true", **options}
    scene = KeyedTable(engine, name, work, ("BIGINT",), False, options)
    scene.pool = [[key] for key in range(DEEP)]
    write(scene, range(DEEP))
    scene.do("compact")
    scene.model = scene.model.compacted()
    write(scene, range(0, 40, 3))
    write(scene, range(30, 60, 4), kind=3)
    return scene


def write(scene: KeyedTable, keys: range, kind: int = 0) -> None:
    """Let the engine write rows with these keys."""
    rows = rows_of(keys, scene.newest())
    scene.do("typed_put", rows=rows, kinds=[kind] * len(rows))
    scene.model = scene.model.put(rows, [kind] * len(rows))


def rows_of(keys: range, seed: int) -> list[list[Any]]:
    """Return rows whose values Parquet cannot shorten, so that the run of many is large."""
    return [[key, 1, sha256(f"{seed}, {key}".encode()).hexdigest(), None] for key in keys]


def act_on(scene: KeyedTable, act: str) -> None:
    """Let others commit; what they compacted is seen."""
    match act:
        case "write":
            write(scene, range(0, 30, 2))
        case "pypaimon":
            scene.put_by_python(Random(1))
        case "overwrite":
            scene.overwrite(Random(1))
        case "truncate":
            scene.do("truncate")
            scene.model = scene.model.without({"[]"})
        case "a column":
            scene.add_column(Random(1))
        case _:
            if act == "mark and compact":
                write(scene, range(100, 130))
            words = {"bucket": 0} if act == "compact one bucket" else {}
            scene.do("compact", minor=act != "compact fully", **words)


@pytest.mark.parametrize("full", [False, True], ids=["up", "full"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("act", ACTS)
def test_others_commit_meanwhile(
    engine: Engine, tmp_path: Path, act: str, moment: str, vectors: str, full: bool
) -> None:
    name = f"race_{ACTS.index(act)}_{moment}_{vectors}_{full}"
    scene = scene_of(engine, tmp_path, name, **{"deletion-vectors.enabled": vectors})
    planned = scene.model.compacted().seen
    racing = Acting(lambda call: "put" in call and MOMENTS[moment] in call, lambda: act_on(scene, act))
    report = scene.call(full=full, switch=racing)
    assert racing.has_acted or report.status == "nothing_to_do"
    assert report.status in ("done", "partial", "stale", "nothing_to_do"), report.refusal
    if vectors == "true" and act in ("write", "pypaimon"):
        assert report.status == "done", "files on level 0 are in nobody's way"
        # Whoever took the id of our snapshot may have done anything, so all is done anew.
        scene.model = scene.model.compacted() if moment == "snapshot" else scene.model.showing(planned)
    elif act.startswith(("compact", "mark")) or (act == "a column" and report.status == "done"):
        scene.model = scene.model.compacted()
    if act == "compact fully":
        scene.learn_dangling()
    scene.check()
    scene.compact(Random(1), full=full)
    scene.check()
    go_on(scene)


def go_on(scene: KeyedTable) -> None:
    """Let others write and compact on top."""
    random = Random(1)
    for step in (scene.put, scene.compact_by_engine, scene.put_by_python, scene.compact_by_engine):
        step(random)
        scene.check()


@pytest.mark.parametrize("ours_full", [False, True], ids=["up", "full"])
@pytest.mark.parametrize("minor", [False, True], ids=["full of the engine", "minor of the engine"])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_compaction_of_the_engine_that_began_before(
    engine: Engine, tmp_path: Path, vectors: str, minor: bool, ours_full: bool
) -> None:
    """It compacted the same files, so its commit fails."""
    options = {"deletion-vectors.enabled": vectors, "num-sorted-run.compaction-trigger": "2"}
    scene = scene_of(engine, tmp_path, f"before_{vectors}_{minor}_{ours_full}", **options)
    scene.do("compact", minor=minor, hold=True)
    scene.compact(Random(2), full=ours_full)
    with pytest.raises(EngineError, match="conflict"):
        scene.do("commit_held")
    scene.check()
    go_on(scene)


def behind(engine: Engine, work: Path, name: str, compact: Callable[[KeyedTable], object]) -> KeyedTable:
    """Let a writer of the engine that compacts by itself commit on top of a compaction that it has not seen.

    It looked at the bucket before, and keeps its own view of levels and vectors.
    """
    options = {"bucket": "1", "compaction.size-ratio": "0", "deletion-vectors.enabled": "true"}
    scene = KeyedTable(engine, name, work, ("BIGINT",), False, options)
    scene.do("writer_open", name=name, options={"write-only": "false"})
    scene.pool = [[key] for key in range(DEEP)]
    rows = rows_of(range(DEEP), 0)
    engine("writer_put", name=name, rows=rows)
    engine("writer_commit", name=name, compact="full")
    scene.model = scene.model.put(rows, [0] * len(rows)).compacted()
    scene.check()
    write(scene, range(3, 5))
    compact(scene)
    scene.model = scene.model.compacted()
    scene.check()
    engine("writer_put", name=name, rows=[[100, 1, "other", None]])
    engine("writer_commit", name=name)
    engine("writer_close", name=name)
    return scene


def test_a_writer_with_an_older_view_brings_rows_back(engine: Engine, tmp_path: Path) -> None:
    """So does the engine beside its own compaction, which is why others must be write-only."""
    scene = behind(engine, tmp_path, "behind_itself", lambda scene: scene.do("compact", minor=True))
    found = problems(KeyedSnapshot(scene.location))
    assert found == [f"bucket 0: I1: key ({key},) has 2 visible rows, on the levels [4, 5]" for key in (3, 4)]


def test_rows_that_came_back_are_hidden_again(engine: Engine, tmp_path: Path) -> None:
    """The next run of ours says so, and the run after it goes on as ever."""
    scene = behind(engine, tmp_path, "behind_ours", lambda scene: scene.compact(Random(1), full=False))
    assert len(problems(KeyedSnapshot(scene.location))) == 2
    report = scene.call(full=False)
    assert (report.status, report.refusal and report.refusal.code) == ("partial", "marks_lost")
    rows = [[100, 1, "other", None]]
    scene.model = scene.model.put(rows, [0]).compacted()
    scene.check()
    scene.compact(Random(1), full=True)
    scene.check()
    go_on(scene)


@pytest.mark.parametrize("full", [False, True], ids=["up", "full"])
@pytest.mark.parametrize("who", ["the engine", "Lakesweep"])
def test_rows_that_a_rollback_brings_back_stay(engine: Engine, tmp_path: Path, who: str, full: bool) -> None:
    """An older version that somebody commits again has rows that we marked later."""
    scene = scene_of(engine, tmp_path, f"back_{who[-1]}_{full}")
    scene.check()
    older = scene.newest() - 2
    scene.compact(Random(2), full=False)
    assert scene.facts["marked rows"]
    if who == "the engine":
        scene.do("rollback_as_latest", to=older)
    else:
        scene.run("rollback", "--snapshot", str(older), "--as-latest", "--catalog-type", "filesystem")
    scene.model = scene.model.without({"[]"}).put(rows_of(range(DEEP), 0), [0] * DEEP).compacted()
    scene.check()
    scene.call(full=full)
    scene.check()
    go_on(scene)
