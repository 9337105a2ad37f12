"""The clock of the work passes as fast as the work, however busy the machine is."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.system.clock import Clock
from tests.support.system.work_clock import ToldClock, WorkClock

WORK_S = 0.5
WORKS = f"import time\nwhile time.process_time() < {WORK_S}: pass"
AT_ONCE = 8


@contextmanager
def asked_again_and_again(clock: WorkClock) -> Iterator[None]:
    """Ask a clock the time as often as the threads of a system do."""
    stopping = threading.Event()

    def ask() -> None:
        while not stopping.wait(0.01):
            clock.now()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_work_takes_as_long_beside_others() -> None:
    """Eight processes on a few processors: all of them are done when little more than the work of one is."""
    clock = WorkClock()
    with asked_again_and_again(clock):
        processes = [subprocess.Popen([sys.executable, "-c", WORKS]) for _ in range(AT_ONCE)]
        assert [process.wait() for process in processes] == [0] * AT_ONCE
    assert 0.2 * WORK_S < clock.now() < 4 * WORK_S


def test_time_passes_while_nothing_is_to_be_done() -> None:
    clock = WorkClock()
    began_s = time.monotonic()
    clock.sleep(0.3)
    assert time.monotonic() - began_s >= 0.3


def test_it_never_goes_back() -> None:
    clock = WorkClock()
    times: list[list[float]] = [[] for _ in range(4)]

    def ask(seen: list[float]) -> None:
        until_s = time.monotonic() + 0.3
        while time.monotonic() < until_s:
            seen.append(clock.now())

    threads = [threading.Thread(target=ask, args=(seen,)) for seen in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen == sorted(seen) and seen for seen in times)


def test_waiting_ends_with_what_is_waited_for_or_with_the_time() -> None:
    clock = WorkClock()
    assert clock.wait(lambda _: True, 0.0)
    assert not clock.wait(threading.Event().wait, 0.1)


def test_another_process_is_told_the_time(tmp_path: Path) -> None:
    clock = WorkClock()
    clock.tell(tmp_path / "told")
    told = ToldClock(tmp_path / "told")
    clock.sleep(0.05)
    said_s = clock.now()
    assert told() == pytest.approx(said_s)


def test_what_is_skipped_is_no_work() -> None:
    clock = Clock()
    clock.skip_to(clock.now() + 3600)
    clock.jump(-60)
    assert clock.work.now() < 60
