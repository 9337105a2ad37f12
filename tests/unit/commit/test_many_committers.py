"""Eight committers at one table: every commit exists once, and no id is missing."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.commit.environment import Committed
from lakesweep.commit.loop import commit
from lakesweep.control.area import ControlArea
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.commit_scene import Scene, prepared_on
from tests.support.memory_store import MemoryStore

COMMITTERS = 8
COMMITS = {"memory": 25, "local": 2}
"""Of each committer. A local disk makes every file durable, which takes its time."""
OPTIONS = {"commit.max-retries": "100000", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "4 ms"}


def commit_all(scene: Scene, areas: list[ControlArea], commits: int) -> list[Committed]:
    """Let each committer make its commits, all at the same time."""
    gate = threading.Barrier(COMMITTERS)
    pause = threading.Event()

    def work(number: int) -> list[Committed]:
        gate.wait()
        ended = []
        for batch in range(commits):
            env = scene.env(run=f"r{number}", batch=batch, area=areas[number], options=OPTIONS)
            env = replace(env, sleep=pause.wait)
            ended.append(commit(env, lambda attempt: prepared_on(attempt, scene.table)))
        return ended

    with ThreadPoolExecutor(COMMITTERS) as pool:
        return [each for found in pool.map(work, range(COMMITTERS)) for each in found]


def check(scene: Scene, ended: list[Committed], commits: int) -> None:
    total = COMMITTERS * commits
    assert Counter(each.status for each in ended) == {"committed": total}
    assert scene.ids() == list(range(1, 4 + total))
    assert sorted(each.snapshot_id or 0 for each in ended) == list(range(4, 4 + total))
    assert all(scene.snapshot(each.snapshot_id).uuid == each.uuid for each in ended)
    users = Counter(scene.snapshot(each).commit_user for each in range(4, 4 + total))
    assert set(users.values()) == {1}
    assert {each.replaced for each in ended} == {0}


def stores(kind: str, folder: Path) -> tuple[Store, Store]:
    if kind == "memory":
        return MemoryStore("memory://bucket/t"), MemoryStore("memory://control")
    return LocalStore(str(folder / "t")), LocalStore(str(folder / "control"))


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_committers_with_one_lease(kind: str, tmp_path: Path) -> None:
    table, control = stores(kind, tmp_path)
    scene = Scene(table, control)
    ended = commit_all(scene, [scene.area] * COMMITTERS, COMMITS[kind])
    check(scene, ended, COMMITS[kind])
    assert scene.lease().expires_ms == 0
    assert scene.table.read("snapshot/LATEST").data == str(scene.ids()[-1]).encode()


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_committers_that_do_not_see_each_other(kind: str, tmp_path: Path) -> None:
    """With a control location each, the condition alone keeps them apart."""
    scene = Scene(stores(kind, tmp_path)[0])
    areas = [ControlArea(MemoryStore(f"memory://control-{each}"), scene.area.table) for each in range(COMMITTERS)]
    ended = commit_all(scene, areas, COMMITS[kind])
    check(scene, ended, COMMITS[kind])
    assert max(each.attempts for each in ended) > 1
