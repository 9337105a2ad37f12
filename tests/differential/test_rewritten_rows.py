"""Rows that `delete-rows` takes out by rewriting data files, beside the engine and pypaimon.

The engine does what Spark's DELETE does without deletion vectors: the files with such rows leave, and a writer gets
their other rows. `LAKESWEEP_ROW_HISTORIES` says how many random histories.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.differential.deleted_columns import ROW_ID, Column, draw_columns
from tests.differential.deleted_rows import DeletedRows
from tests.differential.engine import Engine
from tests.differential.metadata_edit import Record, entries_of
from tests.support.acting import Acting
from tests.support.conditions import NANOS, TYPES
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_ROW_HISTORIES") or 6)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 1)


class RewrittenRows(DeletedRows):
    """A table without deletion vectors."""

    @property
    def _unwritable(self) -> tuple[str, ...]:
        """Time stamps that pyarrow does not write beside others."""
        return NANOS

    def delete_by_engine(self, random: Random) -> None:
        """Let the engine delete some rows."""
        numbers = random.sample(sorted(self.rows), min(len(self.rows), random.randint(1, 4)))
        self.do("typed_cow_delete", column=ROW_ID, numbers=numbers)
        self.rows = {number: row for number, row in self.rows.items() if number not in numbers}

    def _committed(self, before: Mapping[str, Any], files: Mapping[str, int]) -> None:
        """One OVERWRITE, in which nothing leaves but files with such rows, and nothing comes but their other rows."""
        after, live = self.snapshot(), self.live()
        assert (after["id"], after["commitKind"]) == (before["id"] + 1, "OVERWRITE"), str(self)
        left, new = files.keys() - live.keys(), live.keys() - files.keys()
        change = sum(live[name] for name in new) - sum(files[name] for name in left)
        assert after["deltaRecordCount"] == change, str(self)
        assert after["totalRecordCount"] == before["totalRecordCount"] + change == len(self.rows), str(self)
        assert self.last is not None
        assert len(left) <= len(self.last.rows) == -change, str(self)
        self.facts["files that were rewritten"] += len(left)
        self.facts["new files"] += len(new)


def drawn(engine: Engine, work: Path, name: str, random: Random) -> RewrittenRows:
    """Draw a table and create it; pypaimon takes the partitions of 0.0 and -0.0 for one."""
    options = {
        "deletion-vectors.enabled": "false",
        "partition.legacy-name": random.choice(("true", "false")),
        "metadata.stats-mode": random.choice(("truncate(16)", "truncate(2)", "full", "counts", "none")),
        "metadata.stats-dense-store": random.choice(("true", "false")),
        "manifest.merge-min-count": random.choice(("3", "30")),
        "target-file-size": random.choice(("256 mb", "256 mb", "3 kb")),
        "compaction.min.file-num": "2",
        "write-only": "true",
    }
    scene = RewrittenRows(engine, name, work, draw_columns(random, set(TYPES) - {*NANOS, "d"}), options)
    scene.create()
    return scene


def play(engine: Engine, work: Path, seed: int, steps: int = 10) -> Counter[str]:
    """Play a history; it ends with everything that the engine may do on top of our last delete."""
    random = Random(seed)
    scene = drawn(engine, work, f"cow{seed}", random)
    scene.put(random)
    scene.put(random)
    every: list[Callable[[Random], None]] = [
        scene.put, scene.put, scene.put_by_python, scene.delete_by_engine, scene.compact, scene.alter, scene.alter,
        scene.drop_partition, scene.overwrite, scene.expire, scene.scan_for_orphans, scene.compact_manifests,
    ]  # fmt: skip
    for _ in range(steps):
        is_ours = random.random() < 0.5
        step = scene.delete if is_ours else random.choice(every)
        step(random)
        scene.check(after_ours=is_ours)
        scene.check_older(random)
    scene.put(random)
    for step in (scene.delete, scene.delete_by_engine, scene.compact, scene.put, scene.overwrite, scene.drop_partition):
        step(random)
        scene.check()
    return scene.facts


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_histories(engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int) -> None:
    """Random tables, conditions, schema changes, and others between our deletes."""
    record_property("rows", dict(play(engine, tmp_path, seed)))


NUMBER, VALUE, KEY = (
    Column(0, ROW_ID, ROW_ID, "BIGINT"), Column(1, "i", "i", "INT"), Column(100, "s", "s", "STRING", is_key=True),
)  # fmt: skip


def plain(engine: Engine, work: Path, name: str) -> RewrittenRows:
    """Create a table of two partitions, with two data files each."""
    scene = RewrittenRows(engine, name, work, [NUMBER, VALUE, KEY], {"deletion-vectors.enabled": "false"})
    scene.create()
    for first in range(0, 40, 10):
        key = "xy"[first // 20]
        rows = {number: {0: number, 1: number % 7, 100: key} for number in range(first, first + 10)}
        scene.do("typed_put", rows=scene.stated(rows.values()))
        scene.rows |= rows
    scene._next = 100
    return scene


def test_the_commit_is_that_of_the_engine(engine: Engine, tmp_path: Path) -> None:
    """Both delete the same rows of two equal tables, of one file in each partition and all rows of another one."""
    theirs, mine = plain(engine, tmp_path, "cow_theirs"), plain(engine, tmp_path, "cow_ours")
    gone = [3, 4, *range(20, 30), 38]
    theirs.do("typed_cow_delete", column=ROW_ID, numbers=gone)
    assert mine.call(f"rid IN ({', '.join(map(str, gone))})").status == "done"
    documents = [scene.snapshot() for scene in (theirs, mine)]
    same = ("version", "id", "schemaId", "commitKind", "totalRecordCount", "deltaRecordCount", "commitIdentifier")
    assert [documents[0].get(key) for key in same] == [documents[1].get(key) for key in same]
    assert documents[0].get("indexManifest") is documents[1].get("indexManifest") is None
    assert delta(theirs) == delta(mine)
    mine.rows = theirs.rows = {number: row for number, row in mine.rows.items() if number not in gone}
    for scene in (theirs, mine):
        scene.check()


def delta(scene: RewrittenRows) -> list[str]:
    """Return the entries of the newest snapshot's delta, without what two runs never share."""
    found = []
    for entry in entries_of(scene.location, "deltaManifestList"):
        file: Record = dict(entry["_FILE"])
        for key in ("_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME"):
            file.pop(key)
        found.append(json.dumps({**entry, "_FILE": file}, default=repr, sort_keys=True))
    return sorted(found)


ACTS = ("delete", "compact", "append", "overwrite", "drop", "a column")
MOMENTS = {"data": "/bucket-0/data-", "manifest": "put manifest/manifest-", "snapshot": "put snapshot/snapshot-"}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("act", ACTS)
def test_the_engine_commits_meanwhile(engine: Engine, tmp_path: Path, act: str, moment: str) -> None:
    """No row that either deleted comes back, none is there twice, and no other is lost."""
    scene = plain(engine, tmp_path, f"cow_meanwhile_{ACTS.index(act)}_{moment}")
    ours, new = {3, 4, 15, *range(20, 30)}, {0: 99, 1: 9, 100: "x"}

    def act_now() -> None:
        match act:
            case "delete":
                scene.do("typed_cow_delete", column=ROW_ID, numbers=[4, 5, 31])
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

    racing = Acting(lambda call: MOMENTS[moment] in call and "put" in call, act_now)
    report = scene.call(f"rid IN ({', '.join(map(str, ours))})", switch=racing)
    assert racing.has_acted and report.status == "done", report.refusal
    scene.rows = {number: row for number, row in scene.rows.items() if number not in ours}
    gone = {"delete": {5, 31}, "drop": set(range(20)), "overwrite": set(range(20))}.get(act, set())
    scene.rows = {number: row for number, row in scene.rows.items() if number not in gone}
    scene.check(after_ours=True)
    random = Random(1)
    for step in (scene.put, scene.delete_by_engine, scene.compact, scene.overwrite, scene.drop_partition):
        step(random)
        scene.check()
