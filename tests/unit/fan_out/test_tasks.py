"""What travels in messages, and how a match is cut into tasks."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.codec import to_json
from lakesweep.operations.orphans.fan_out import gather
from lakesweep.operations.orphans.fan_out.gather import match_tasks
from lakesweep.operations.orphans.fan_out.limits import LIST_PAGES
from lakesweep.operations.orphans.fan_out.spill import SLOTS
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, ListTask, MatchTask, children_of, task_of
from lakesweep.operations.orphans.listing import Shard

TASKS = (
    ListTask("list-0", Shard(0), 8),
    ListTask("list-3.1.7", Shard(3, "dt=1/\udcff", "dt=2", 4), LIST_PAGES),
    DecodeTask("decode-17", "scan.json.gz"),
    MatchTask("match-1f-0", "match-1f.json.gz", 0, SLOTS, 12),
    MatchTask("owners-1f-7", "owners-1f.json.gz", 7, 8, 0, by_owner=True),
)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_task_travels(task: ListTask | DecodeTask | MatchTask) -> None:
    assert task_of(json.loads(json.dumps(to_json(task))), "here") == task


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "compact"},
        {"kind": None},
        {"id": ""},
        {"id": "../../tables/x"},
        {"id": "a" * 201},
        {"id": "a/b"},
        {"first": -1},
        {"first": True},
        {"first": 8},
        {"end": 257},
        {"end": "256"},
        {"document": "../state.json.gz"},
        {"document": "match-1f.json"},
        {"document": 7},
        {"rows": None},
        {"rows": -5},
    ],
    ids=str,
)
def test_what_is_no_task_is_refused(change: dict[str, object]) -> None:
    document = {**to_json(MatchTask("match-1f-7", "match-1f.json.gz", 7, 8, 1)), **change}
    with pytest.raises(FormatError, match=r"^here"):
        task_of(document, "here")


@pytest.mark.parametrize("change", [{"place": -1}, {"after": None}, {"until": 3}, {"limit": 8}, {"climb": None}])
def test_what_is_no_range_is_refused(change: dict[str, object]) -> None:
    task = to_json(TASKS[1])
    with pytest.raises(FormatError, match=r"^here"):
        task_of({**task, "shard": {**task["shard"], **change}}, "here")


@pytest.mark.parametrize("change", [{"budget": "8"}, {"budget": None}, {"shard": None}, {"place": 3}])
def test_what_is_no_listing_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"^here"):
        task_of({**to_json(TASKS[1]), **change}, "here")


def test_children_are_named_after_their_parent_in_order() -> None:
    left = [Shard(0, "a", "b", 1), Shard(0, "b", None, 2)]
    assert [(each.id, each.shard) for each in children_of("list-0.3", left)] == [
        ("list-0.3.0", left[0]),
        ("list-0.3.1", left[1]),
    ]


@pytest.mark.parametrize("seed", range(200))
def test_tasks_of_a_match_cover_the_slots_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    most, gap = random.choice((1, 10, 100, 10_000)), random.choice((0, 5, 50))
    monkeypatch.setattr(gather, "MATCH_ROWS", most)
    monkeypatch.setattr(gather, "MOST_GAP_ROWS", gap)
    rows: list[Sequence[int]] = [
        [random.choice((0, 0, 1, 7)) for _ in range(SLOTS)] for _ in range(random.randrange(1, 4))
    ]
    wanted: Any = range(SLOTS) if random.random() < 0.5 else {slot for slot in range(SLOTS) if random.random() < 0.2}

    tasks = list(match_tasks("match-1.json.gz", rows, wanted))

    covered = [slot for task in tasks for slot in range(task.first, task.end)]
    assert len(set(covered)) == len(covered)
    assert set(wanted) <= set(covered)
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.rows == sum(sum(each[task.first : task.end]) for each in rows)
        assert task.rows <= most or task.end == task.first + 1
        assert task.first in wanted
        assert task.end - 1 in wanted
