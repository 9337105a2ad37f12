"""Where the listing of a table is cut before anything of it is known but its folders."""

from random import Random

import pytest

from lakesweep.operations.orphans.fan_out import begin as beginning
from lakesweep.operations.orphans.fan_out.begin import first_tasks
from lakesweep.operations.orphans.fan_out.limits import FIRST_PAGES, LIST_PAGES
from lakesweep.operations.orphans.fan_out.tasks import ListTask
from tests.support.memory_store import MemoryStore


def store_of(*keys: str) -> MemoryStore:
    store = MemoryStore("memory://bucket/db.db/t")
    for key in keys:
        store.put(key, b"")
    return store


def ranges(tasks: list[ListTask]) -> list[tuple[str, str | None]]:
    return [(task.shard.after, task.shard.until) for task in tasks if task.shard.place == 0]


def test_a_small_table_is_one_task() -> None:
    tasks = first_tasks(store_of("dt=1/bucket-0/a", "dt=2/bucket-0/a"), 1000, 1)
    assert [(task.id, task.budget, task.shard.until) for task in tasks] == [("list-0", LIST_PAGES, None)]


def test_of_what_nothing_is_known_little_is_listed_at_first() -> None:
    tasks = first_tasks(store_of("dt=1/bucket-0/a"), 0, 3)
    assert [(task.id, task.budget) for task in tasks] == [(f"list-{place}", FIRST_PAGES) for place in range(3)]


def test_a_large_table_is_cut_between_partitions_evenly() -> None:
    store = store_of(*(f"dt={day:03}/bucket-0/a" for day in range(100)), "manifest/m", "snapshot/snapshot-1")
    tasks = first_tasks(store, 1_000_000, 2)
    assert [task.budget for task in tasks] == [*[LIST_PAGES] * 7, FIRST_PAGES]
    assert [after for after, _ in ranges(tasks)] == ["", *(f"dt={number * 100 // 7:03}/" for number in range(1, 7))]


def test_few_folders_are_looked_into() -> None:
    keys = [f"region={region}/dt={day}/bucket-0/a" for region in "abc" for day in range(10)]
    tasks = first_tasks(store_of(*keys), 1_000_000, 1)
    assert all("/dt=" in after for after, _ in ranges(tasks)[1:])
    assert len(tasks) == 7


def test_one_folder_is_not_cut() -> None:
    tasks = first_tasks(store_of(*(f"bucket-0/data-{number}" for number in range(9))), 1_000_000, 1)
    assert [(task.id, task.budget) for task in tasks] == [("list-0", FIRST_PAGES)]


@pytest.mark.parametrize("seed", range(100))
def test_ranges_hold_every_key_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(beginning, "PAGE_KEYS", random.choice((1, 2, 5)))
    monkeypatch.setattr(beginning, "LIST_PAGES", random.choice((1, 2, 5)))
    names = ["a", "a-b", "a.b", "a0", "b", "ü", "manifest", "branch", "\U0001f600", "dt=1", "dt=10", "dt=1-"]
    keys = {
        "/".join([*(random.choice(names) for _ in range(random.randrange(4))), f"f{random.randrange(9)}"])
        for _ in range(random.randrange(1, 80))
    }
    store = store_of(*sorted(keys))
    tasks = first_tasks(store, random.choice((0, 10, 100)), 1)
    listed = [
        each.key for after, until in ranges(tasks) for page in store.list_range("", after, until) for each in page
    ]
    assert sorted(listed) == sorted(keys)
    assert len({task.id for task in tasks}) == len(tasks)
