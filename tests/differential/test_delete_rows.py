"""Rows that `delete_rows` takes out, beside the engine and pypaimon: everybody reads what the conditions leave.

`LAKESWEEP_ROW_HISTORIES` says how many random histories, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first.
"""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pytest

from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import collect, encode, read_vector
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.match import FileMatch
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.rewriting import RewrittenBin, Work
from tests.differential.deleted_columns import Column
from tests.differential.deleted_rows import DeletedRows, draw_table
from tests.differential.engine import Engine
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_ROW_HISTORIES") or 6)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 1)
STEPS = 14
Step = Callable[[Random], None]


def others(scene: DeletedRows) -> list[Step]:
    """What others do; some of it more often."""
    return [
        scene.put, scene.put, scene.put_by_python, scene.put_by_python, scene.delete_by_engine, scene.delete_by_engine,
        scene.compact, scene.alter, scene.alter, scene.alter, scene.drop_partition, scene.overwrite, scene.other_width,
    ]  # fmt: skip


def maintenance(scene: DeletedRows) -> list[Step]:
    return [scene.expire, scene.scan_for_orphans, scene.clean, scene.compact_manifests]


def play(engine: Engine, work: Path, seed: int, steps: int = STEPS) -> Counter[str]:
    """Play a history; it ends with everything that the engine may do on top of our last delete."""
    random = Random(seed)
    scene = draw_table(engine, work, f"t{seed}", random)
    scene.put(random)
    scene.put(random)
    scene.check()
    for _ in range(steps):
        kind = random.random()
        if kind < 0.45:
            scene.delete(random)
        elif kind < 0.55:
            scene.undo(random)
        else:
            random.choice(others(scene) if kind < 0.87 else maintenance(scene))(random)
        scene.check(after_ours=kind < 0.55)
        scene.check_older(random)
    scene.put(random)
    scene.delete(random)
    for step in (scene.delete_by_engine, scene.compact, scene.put, scene.delete, scene.overwrite, scene.drop_partition):
        step(random)
        scene.check()
    return scene.facts


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_histories(engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int) -> None:
    """Random tables, conditions, schema changes, and others between our deletes."""
    facts = play(engine, tmp_path, seed)
    record_property("rows", dict(facts))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "+03:30", "UTC")
"""Two of them have days of 23 hours or other minutes than UTC."""


def _local(micros: int, zone: str) -> str:
    """Write a moment as a clock of a zone shows it."""
    clock = timezone(timedelta(hours=3, minutes=30)) if zone == "+03:30" else ZoneInfo(zone)
    shown = (EPOCH + timedelta(microseconds=micros)).astimezone(clock)
    return shown.replace(tzinfo=None).isoformat(" ", "microseconds")


@pytest.mark.parametrize("zone", ZONES)
def test_times_of_a_zone(engine: Engine, tmp_path: Path, zone: str) -> None:
    """A time without a zone is one of the stated zone, in every way to write it, and of UTC beside other columns."""
    columns = [Column(0, "rid", "rid", "BIGINT")]
    columns += [Column(1, "ltz", "ltz", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), Column(2, "ts", "ts", "TIMESTAMP(6)")]
    scene = DeletedRows(engine, f"zone{ZONES.index(zone)}", tmp_path, columns)
    scene.create()
    first = 1_710_054_000_000_000  # 2024-03-10 07:00, at which New York's clocks jump
    moments = [first + hours * 3_600_000_000 + more for hours in range(-13, 14) for more in (0, 1)]
    rows = {number: {0: number, 1: moment, 2: moment} for number, moment in enumerate(moments)}
    scene.do("typed_put", rows=scene.stated(rows.values()))
    scene.rows |= rows
    for number, word in ((3, "TIMESTAMP "), (20, ""), (26, "TIMESTAMP "), (40, "TIMESTAMP_LTZ ")):
        moment = moments[number]
        text = f"ltz = {word}'{_local(moment, zone)}' OR ts = TIMESTAMP_NTZ '{_local(moments[number + 5], 'UTC')}'"
        report = scene.call(text, zone=zone)
        assert report.status == "done", report.refusal
        del scene.rows[number], scene.rows[number + 5]
        scene.check(after_ours=True)
    last = moments[30]
    scene.call(f"ltz > '{_local(last, zone)}'", zone=zone)
    scene.rows = {number: row for number, row in scene.rows.items() if row[1] <= last}
    scene.check(after_ours=True)


def test_without_a_zone(engine: Engine, tmp_path: Path) -> None:
    """Such a time is refused, and nothing happens."""
    scene = DeletedRows(
        engine, "zoneless", tmp_path, [Column(0, "rid", "rid", "BIGINT"), Column(1, "ltz", "ltz", "TIMESTAMP_LTZ(6)")]
    )
    scene.create()
    scene.do("typed_put", rows=[[1, [0, 0]]])
    report = scene.call("ltz = TIMESTAMP '1970-01-01 00:00:00'", zone=None)
    assert report.refusal is not None and report.refusal.code == "no_time_zone"
    assert scene.newest() == 1
    assert scene.call("ltz = TIMESTAMP '1970-01-01 02:00:00+02:00'", zone=None).status == "done"
    assert scene.newest() == 2


@dataclass(frozen=True, slots=True)
class Harmful:
    """Finds other rows than there are."""

    true: LocalEngine
    harm: Callable[[list[int]], list[int]]

    def match(self, plan: ReadPlan) -> Iterator[FileMatch]:
        for found in self.true.match(plan):
            (length,) = struct.unpack(">I", found.blob[:4])
            positions = array("I", self.harm(list(read_vector(found.blob, length, "a test").positions())))
            yield FileMatch(found.path, len(positions), encode(collect(positions, 32), 32))

    def write(self, schema: TableSchema, groups: Sequence[Group]) -> Sequence[WrittenGroup]:
        return self.true.write(schema, groups)

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        return self.true.rewrite(work, bins)


HARMS: Mapping[str, Callable[[list[int]], list[int]]] = {
    "none": lambda positions: positions,
    "a row less": lambda positions: positions[:-1],
    "a row more": lambda positions: [*positions, positions[-1] + 1],
    "the next rows": lambda positions: [position + 1 for position in positions],
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_noticed(engine: Engine, tmp_path: Path, harm: str) -> None:
    """Each judge sees it when other rows go."""
    scene = DeletedRows(engine, f"harm_{harm.replace(' ', '_')}", tmp_path, [Column(0, "rid", "rid", "BIGINT")])
    scene.create()
    rows = {number: {0: number} for number in range(10)}
    scene.do("typed_put", rows=scene.stated(rows.values()))
    scene.call("rid IN (2, 3, 5)", engine=Harmful(LocalEngine(scene.opened()), HARMS[harm]))
    scene.rows = {number: row for number, row in rows.items() if number not in (2, 3, 5)}
    judges = {"the engine": scene.read_by_engine, "Lakesweep": scene.read_by_ours, "pypaimon": scene.read_by_python}
    for who, read in judges.items():
        expected = (
            contextlib.nullcontext() if harm == "none" else pytest.raises(AssertionError, match="expected, found")
        )
        with expected:
            scene.compare(who, read())
