"""Tables are measured in several processes, and a process may die."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lakesweep.api.warehouse import PlaceOpening
from lakesweep.model.progress import Progress
from lakesweep.operations.overview import processes
from lakesweep.operations.overview.looking import Look, Task
from lakesweep.operations.overview.processes import looks_of
from lakesweep.operations.overview.tables import FoundTable
from lakesweep.operations.overview.warehouse import overview
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from tests.support.lakehouse import Lakehouse, figures

TABLES = 9
REPOSITORY = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Deadly(PlaceOpening):
    """Ends the process that opens some tables."""

    deadly: tuple[str, ...] = ()
    once: str = ""
    """A folder: a table that has a file there ends no process any more."""
    parent: int = 0
    slow: float = 0.0

    def table(self, location: str, counter: RequestCounter, progress: Progress) -> Table:
        time.sleep(self.slow)
        if location.endswith(self.deadly) and os.getpid() != self.parent:
            mark = Path(self.once or "/nonexistent") / location.rpartition("/")[2]
            if not self.once or not mark.exists():
                if self.once:
                    mark.touch()
                time.sleep(0.3)  # so that others are under way
                os.kill(os.getpid(), signal.SIGKILL)
        return super().table(location, counter, progress)


class Unstarted(PlaceOpening):
    """No other process can make one of it."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os._exit, (7,))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    found = Lakehouse(tmp_path_factory.mktemp("lake"))
    for number in range(TABLES):
        found.add(f"db{number % 3}.db/t{number}", commits=2)
    return found


def tasks(lake: Lakehouse) -> list[Task]:
    return [Task(number, FoundTable(f"{lake.location}/{name}", name), 0) for number, name in enumerate(lake.tables)]


def children(pid: int) -> set[int]:
    found: set[int] = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found |= {int(each) for each in (thread / "children").read_text().split()}
    return found


def problems(looks: Sequence[Look]) -> dict[str, str]:
    return {
        look.overview.name: look.overview.problem_code or ""
        for look in looks
        if look.overview and look.overview.problem
    }


def deadly(lake: Lakehouse, *names: str, **more: object) -> Deadly:
    return Deadly(lake.opening().place, names, parent=os.getpid(), **more)


def test_processes_say_the_same(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    real = processes.looks_of

    def counted(opening: PlaceOpening, given: Sequence[Task], count: int) -> Iterator[Look]:
        started.append(count)
        return real(opening, given, count)

    monkeypatch.setattr(processes, "looks_of", counted)
    monkeypatch.setattr(processes, "WORTH", TABLES)
    monkeypatch.setattr("lakesweep.operations.overview.memory.SAVED_AFTER_S", 1e9)  # it takes requests
    many = lake.overview(is_fresh=True, processes=2)
    assert started == [2]
    one = lake.overview(is_fresh=True, processes=1)
    assert started == [2]
    assert figures(many) == figures(one)
    assert many.requests == one.requests
    assert all(each.is_remembered for each in lake.overview().tables)


def test_a_process_that_dies_costs_only_the_table_that_is_to_blame(lake: Lakehouse) -> None:
    looks = list(looks_of(deadly(lake, "/t4"), tasks(lake), 2))
    assert sorted(look.number for look in looks) == list(range(TABLES))
    assert problems(looks) == {"db1.db/t4": "process_died"}


def test_a_table_that_ends_one_process_is_tried_again(lake: Lakehouse, tmp_path: Path) -> None:
    looks = list(looks_of(deadly(lake, "/t4", "/t5", once=str(tmp_path)), tasks(lake), 1))
    assert sorted(look.number for look in looks) == list(range(TABLES))
    assert problems(looks) == {}


def test_without_other_processes_this_one_measures(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list(looks_of(Unstarted(lake.opening().place), tasks(lake), 2))
    assert sorted(look.number for look in looks) == list(range(TABLES))
    assert problems(looks) == {}
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    looks = list(looks_of(lake.opening(), tasks(lake), 2))
    assert sorted(look.number for look in looks) == list(range(TABLES))


def test_an_abandoned_overview_leaves_no_process(lake: Lakehouse) -> None:
    before = children(os.getpid())
    looks = looks_of(deadly(lake, slow=0.2), tasks(lake), 2)
    next(looks)
    assert len(children(os.getpid()) - before) == 2
    looks.close()
    assert children(os.getpid()) <= before


def test_an_opening_that_cannot_travel_is_used_here(lake: Lakehouse) -> None:
    opening = lake.opening()
    local = replace(opening, place=replace(opening.place, table=lambda: None))
    assert processes.can_travel(opening)
    assert not processes.can_travel(local)
    assert overview(local, [lake.location]).totals.failed == 0


KILLED = """
import os, signal, sys
from lakesweep.operations.overview import memory, processes
memory.SAVED_AFTER_S, memory.MOST_SAVING = 0.0, 1e9
from lakesweep.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_overview_is_continued(tmp_path: Path, number: signal.Signals) -> None:
    """Its processes end with it, and the next call says what a whole one says."""
    lake = _many(tmp_path)

    def has_stored() -> bool:
        return bool(list(lake.control.glob("overviews/*/tables.ndjson.gz")))

    assert _killed(lake, number, has_stored) > 0
    found = lake.overview()
    assert sum(each.is_remembered for each in found.tables) > 0
    assert figures(found) == figures(lake.overview(is_fresh=True))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_an_overview_may_be_killed_at_any_time(tmp_path: Path, seed: int) -> None:
    """Two calls after another, and then one that nobody kills."""
    lake, chance = _many(tmp_path), random.Random(seed)
    for number in (signal.SIGKILL, signal.SIGTERM):
        end = time.monotonic() + chance.uniform(0.3, 4)
        _killed(lake, number, lambda until=end: time.monotonic() > until)
    assert figures(lake.overview()) == figures(lake.overview(is_fresh=True))


def _many(folder: Path) -> Lakehouse:
    lake = Lakehouse(folder)
    for each in range(24):
        lake.add(f"db{each % 3}.db/t{each}", commits=2)
    return lake


def _killed(lake: Lakehouse, number: signal.Signals, is_time: Callable[[], bool]) -> int:
    """Kill an overview once it is time, unless it has ended; return how many processes it had."""
    words = ["overview", lake.location, "--control", str(lake.control), "--processes", "2", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
    command = [sys.executable, "-c", KILLED, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as child:
        end = time.monotonic() + 60
        while not is_time() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        family = children(child.pid) if child.poll() is None else set()
        child.send_signal(number)
        printed, said = child.communicate(timeout=60)
    if child.returncode == 128 + number:
        assert json.loads(printed)["error"]["code"] in ("interrupted", "terminated")
    else:
        assert child.returncode in (0, -number), said
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < end + 30:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
    return len(family)
