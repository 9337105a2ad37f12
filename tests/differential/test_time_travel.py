"""Versions beside the engine: random documents, and every way to say which one is meant.

A table of which only the documents matter: the test writes them. `LAKESWEEP_TRAVEL_COUNT` is how many histories.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import RefusedError
from lakesweep.model.roots import TableRef
from lakesweep.runs.parameters.time_travel import Purpose, Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.support.sampling import is_sampled

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_TRAVEL_COUNT") or (12 if is_sampled() else 30))
FIRST_SEED = int(os.environ.get("LAKESWEEP_TRAVEL_SEED") or 20260101)
TABLE = "travel.t"
LEAST = -(1 << 63)
NO_AREA: ControlArea | None = None


@dataclass(slots=True)
class History:
    """The documents of one table."""

    location: Path
    body: str
    times: dict[int, int] = field(default_factory=dict)
    marks: dict[int, int | None] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)

    def document(self, snapshot_id: int) -> str:
        """Return a snapshot that holds nothing new."""
        document = json.loads(self.body) | {"id": snapshot_id, "timeMillis": self.times[snapshot_id]}
        if self.marks[snapshot_id] is not None:
            document["watermark"] = self.marks[snapshot_id]
        return json.dumps(document)

    def write(self, random: Random) -> None:
        """Draw snapshots, tags, and which snapshots are left."""
        for folder in ("snapshot", "tag"):
            shutil.rmtree(self.location / folder, ignore_errors=True)
            (self.location / folder).mkdir()
        newest, time, mark = random.randint(1, 24), random.randint(1, 9), random.choice([None, 0, 5])
        self.times, self.marks, self.tags = {}, {}, {}
        is_marked, goes_back = random.random() < 0.6, random.random() < 0.15
        for i in range(1, newest + 1):
            time += random.choice([0, 0, 1, 2, 7]) - (random.choice([0, 0, 0, 9]) if goes_back else 0)
            mark = (mark or 0) + random.choice([0, 1, 3]) if is_marked else random.choice([mark, None, LEAST])
            self.times[i], self.marks[i] = 1000 + time, mark
        for _ in range(random.randint(0, 5)):
            tagged = random.randint(1, newest)
            name = random.choice(["x", "nightly", str(random.randint(1, newest)), f"watermark-{random.randint(0, 9)}"])
            self.tags[name] = tagged
        for name, tagged in self.tags.items():
            (self.location / "tag" / f"tag-{name}").write_text(self.document(tagged))
        first = random.randint(1, newest) if random.random() < 0.5 else 1
        holes = random.random() < 0.2
        for i in range(1, newest + 1):
            if i < first or (holes and first < i < newest and random.random() < 0.3):
                del self.times[i], self.marks[i]
                continue
            (self.location / "snapshot" / f"snapshot-{i}").write_text(self.document(i))
        if random.random() < 0.7:
            (self.location / "snapshot" / "LATEST").write_text(str(newest))
            (self.location / "snapshot" / "EARLIEST").write_text(str(first))

    @property
    def has_holes(self) -> bool:
        """Tell whether ids are missing between the first and the last."""
        return len(self.times) < max(self.times) - min(self.times) + 1

    @property
    def lacks_marks(self) -> bool:
        """Tell whether a snapshot has no watermark."""
        return any(mark in (None, LEAST) for mark in self.marks.values())


@dataclass(frozen=True, slots=True)
class Question:
    """One version, in our words and in the engine's."""

    version: Version
    purpose: Purpose
    options: dict[str, str]
    by_watermark: bool = False


def questions(history: History) -> Iterator[Question]:
    """Yield every way to say a version that may mean something, and some that mean nothing."""
    newest = max(history.times)
    for i in range(newest + 3):
        yield Question(Version(snapshot_id=i), "read", {"scan.snapshot-id": str(i)})
        yield Question(Version(version=str(i)), "read", {"scan.version": str(i)})
    for time in range(min(history.times.values()) - 2, max(history.times.values()) + 3):
        yield Question(Version(timestamp_ms=time), "read", {"scan.timestamp-millis": str(time)})
        yield Question(Version(timestamp_ms=time), "rollback", {"rollback.timestamp": str(time)})
    marks = [mark for mark in history.marks.values() if mark not in (None, LEAST)]
    for mark in range(min(marks, default=0) - 2, max(marks, default=0) + 3):  # type: ignore[operator]
        text = f"watermark-{mark}"
        yield Question(Version(watermark=mark), "read", {"scan.watermark": str(mark)}, by_watermark=True)
        yield Question(Version(watermark=mark), "rollback", {"rollback.watermark": str(mark)}, by_watermark=True)
        yield Question(Version(version=text), "read", {"scan.version": text}, by_watermark=text not in history.tags)
    for name in (*history.tags, "none", "watermark-", "-1", "1x", "\N{ARABIC-INDIC DIGIT TWO}"):
        yield Question(Version(tag=name), "read", {"scan.tag-name": name})
        yield Question(Version(version=name), "read", {"scan.version": name})


def ours(table: Table, question: Question) -> int | None:
    """Return the snapshot's id, `None` for a refusal."""
    own = discover(table.store).branches["main"]
    try:
        root = resolve(table, own, question.version, purpose=question.purpose)
    except RefusedError:
        return None
    return None if root is None else root.snapshot.id


def reason(history: History, question: Question, mine: int | None, theirs: object) -> str | None:
    """Return why the two may differ, `None` where they may not."""
    if history.has_holes and "snapshot-" in str(theirs) and mine is not None:
        return "the engine's search fails where an id is missing"
    if not question.by_watermark:
        return None
    wanted = question.version.watermark
    wanted = int(str(question.version.version)[len("watermark-") :]) if wanted is None else wanted
    real = {i: mark for i, mark in history.marks.items() if mark is not None and mark != LEAST}
    fits = (lambda mark: mark <= wanted) if question.purpose == "rollback" else (lambda mark: mark >= wanted)
    choose = max if question.purpose == "rollback" else min
    best = choose((mark for mark in real.values() if fits(mark)), default=None)
    if (None if mine is None else real[mine]) != best:
        return None
    if question.purpose == "rollback" and mine is None and theirs == min(history.marks):
        return "1.4 goes to the first snapshot although its watermark is higher; later versions do not"
    if question.purpose == "rollback" and theirs == min(history.marks) and real.get(theirs) == best:
        return "1.4 takes the first snapshot where it has the watermark, ours the one that halving comes upon"
    if history.lacks_marks:
        return "1.4 takes the smallest number for a watermark, and stumbles over none; later versions do not"
    return None


@pytest.fixture(scope="module")
def history(engine: Engine) -> Iterator[History]:
    options = {**RETAIN_EVERYTHING, "bucket": "-1"}
    engine("create", table=TABLE, columns=[["id", "INT"]], primary_keys=[], partition_keys=[], options=options)
    engine("write", table=TABLE, n=1, seed=1, keys=[0, 9])
    location = engine.location(TABLE)
    yield History(location, (location / "snapshot" / "snapshot-1").read_text())
    engine("drop", table=TABLE)


def test_the_same_version_is_meant(engine: Engine, history: History) -> None:
    """Wherever the two differ there is a reason, and it is not that ours is wrong."""

    def open_store(location: str) -> Store:
        raise AssertionError(f"nothing here opens {location}")

    reasons: dict[str, int] = {}
    asked = 0
    for seed in range(FIRST_SEED, FIRST_SEED + COUNT):
        history.write(Random(seed))
        store = LocalStore(str(history.location))
        table = Table(TableRef(store.location), store, NO_AREA, open_store)
        every: Sequence[Question] = tuple(questions(history))
        answers = engine("travel", table=TABLE, versions=[question.options for question in every])
        for question, answer in zip(every, answers, strict=True):
            asked += 1
            mine = ours(table, question)
            theirs = answer if isinstance(answer, int) and answer != -1 else None
            if mine == theirs:
                continue
            why = reason(history, question, mine, answer)
            told = f"{seed}: {question}: {mine}, engine {answer}; {history.times}, {history.marks}, {history.tags}"
            assert why is not None, told
            reasons[why] = reasons.get(why, 0) + 1
    assert asked > 50 * COUNT
    print(f"{asked} versions of {COUNT} histories; differences with a reason: {reasons}")
