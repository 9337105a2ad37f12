"""Requests are counted from any number of threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from lakesweep.storage.requests import KINDS, RequestCounter


def test_no_request_is_lost() -> None:
    counter = RequestCounter()

    def work(_: int) -> None:
        for _ in range(1000):
            counter.add("get")
            counter.add_read_bytes(3)
            counter.add_deleted_keys(2)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert counter.snapshot() == dict.fromkeys(KINDS, 0) | {"get": 8000}
    assert (counter.read_bytes, counter.deleted_keys) == (24_000, 16_000)


def test_a_snapshot_stays_as_it_was() -> None:
    counter = RequestCounter()
    before = counter.snapshot()
    counter.add("list", 2)
    assert before["list"] == 0
    assert counter.snapshot()["list"] == 2


def test_unknown_kinds_are_bugs() -> None:
    with pytest.raises(KeyError):
        RequestCounter().add("post")
