"""The S3 server is killed in the middle of a run, for good or to come back.

A real process and SIGKILL: no answer, no connection, requests that were carried out though nobody heard so.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lakesweep.storage import aws_client as s3_client
from lakesweep.storage.s3.store import S3Store
from tests.servers.tables import snapshots, table_of
from tests.support.lake import Lake, lake_on
from tests.support.reader import read_all
from tests.support.versitygw import Versitygw

COMMITS, KEEP = 12, 3
AFTER_THE_LEASE_MS = 721_000
"""When the lease of a run that could not give it back is free again."""


@contextmanager
def before_each_request(lake: Lake, act: Callable[[int, str], None]) -> Iterator[None]:
    """Call `act` with 1, 2, ... and the operation before each attempt of a request that commands make."""
    store = lake.store
    assert isinstance(store, S3Store)
    events, count, lock = store._s3.client().meta.events, 0, threading.Lock()

    def handler(event_name: str, **_: object) -> None:
        nonlocal count
        with lock:
            count += 1
            act(count, event_name.rsplit(".", 1)[-1])

    events.register("before-send.s3", handler)
    try:
        yield
    finally:
        events.unregister("before-send.s3", handler)


def expected(lake: Lake) -> dict[str, bytes]:
    """Return what an undisturbed run leaves of a table of its own on the same server."""
    assert lake.server is not None
    twin = lake_on(lake.server, table_of(COMMITS, KEEP))
    answer = twin.call("expire-snapshots", "--execute")
    assert answer.exit_code == 0, answer.messages
    return twin.bodies()


def check(lake: Lake, left: dict[str, bytes]) -> None:
    """Run again: whatever was begun is finished, and everything that stays reads."""
    read_all(lake.store)
    answer = lake.call("expire-snapshots", "--execute")
    assert answer.exit_code == 0, answer.messages
    assert lake.bodies() == left
    assert sorted(read_all(lake.store)) == snapshots(COMMITS - KEEP + 1, COMMITS)
    again = lake.call("expire-snapshots", "--execute")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")


@pytest.mark.long
def test_it_dies_for_good(own_versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a dozen points of a run: it says so in a sentence, and when its lease is free the next run ends the work."""
    monkeypatch.setattr(s3_client, "MAX_ATTEMPTS", 1)  # else each request waits for seconds
    server = own_versitygw.server
    lake = lake_on(server, table_of(COMMITS, KEEP))
    left = expected(lake)
    total = 0

    def note(number: int, _: str) -> None:
        nonlocal total
        total = number

    with before_each_request(lake, note):
        assert lake.call("expire-snapshots", "--execute").exit_code == 0
    assert total > 30
    now_ms = S3Store.now_ms
    ends = []
    planning = (1, total // 3, total * 2 // 3)
    executing = range(total * 3 // 4, total + 1, max(1, total // 40))
    for point in (*planning, *executing):
        lake = lake_on(server, table_of(COMMITS, KEEP))
        before = lake.keys()

        def kill(number: int, _: str, point: int = point) -> None:
            if number == point:
                own_versitygw.kill()

        with before_each_request(lake, kill):
            answer = lake.call("expire-snapshots", "--execute")
        own_versitygw.start()
        if point < total - 3:  # the last requests give back the lease and keep the report
            assert answer.exit_code in (1, 3, 4), (point, answer.printed)
        if answer.exit_code in (1, 3):
            (sentence,) = answer.sentences
            assert sentence.startswith("lakesweep: ")
            assert "s3://" in sentence
        assert "Traceback" not in answer.messages
        ends.append((point, answer.exit_code, len(before - lake.keys())))
        with monkeypatch.context() as later:
            later.setattr(S3Store, "now_ms", lambda store: now_ms(store) + AFTER_THE_LEASE_MS)
            check(lake, left)
    print(f"{total} requests; killed before request, exit code, objects gone: {ends}")
    assert {code for _, code, _ in ends} >= {1, 4}


@pytest.mark.parametrize("moment", ["before a request", "during a request"])
def test_it_comes_back(own_versitygw: Versitygw, moment: str) -> None:
    """A restart within the attempts of a request goes unnoticed, though a request may have been carried out twice."""
    lake = lake_on(own_versitygw.server, table_of(COMMITS, KEEP))
    left = expected(lake)
    restarts: list[threading.Thread] = []

    def restart() -> None:
        own_versitygw.kill()
        own_versitygw.start()

    def act(number: int, operation: str) -> None:
        is_batch = operation == "DeleteObjects"
        if moment == "before a request" and (number in (2, 20) or (is_batch and len(restarts) < 3)):
            restarts.append(threading.Thread())
            restart()
        elif moment == "during a request" and is_batch and not restarts:
            restarts.append(threading.Timer(0.003, restart))
            restarts[-1].start()

    with before_each_request(lake, act):
        answer = lake.call("expire-snapshots", "--execute")
    for thread in restarts:
        if thread.ident is not None:
            thread.join()
    assert restarts
    assert (answer.exit_code, answer.document["status"]) == (0, "done"), answer.messages
    assert lake.bodies() == left
    check(lake, left)
