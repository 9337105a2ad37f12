"""The options that limit retries."""

import pytest

from lakesweep.commit.retries import retries_of
from lakesweep.errors import FormatError
from tests.support.commit_scene import Acting, Scene


def test_defaults() -> None:
    found = retries_of({})
    assert (found.at_most, found.min_wait_ms, found.max_wait_ms, found.timeout_ms) == (10, 10, 10_000, None)


@pytest.mark.parametrize(("failed", "ms"), [(1, 10), (2, 20), (5, 160), (10, 5120), (11, 10_000), (5000, 10_000)])
def test_waits_double_up_to_a_limit(failed: int, ms: int) -> None:
    waits = [retries_of({}).wait_s(failed) * 1000 for _ in range(200)]
    assert min(waits) >= ms
    assert max(waits) <= ms * 1.2
    assert max(waits) > min(waits), "writers that collided must not collide again"


@pytest.mark.parametrize("key", ["max-retries", "min-retry-wait", "max-retry-wait", "timeout"])
def test_an_option_that_is_not_valid_is_refused_before_anything_is_prepared(key: str) -> None:
    scene = Scene()
    with pytest.raises(FormatError, match=f"commit.{key}"):
        scene.commit(options={f"commit.{key}": "soon"})
    assert scene.prepared == []


def test_retries_are_never_negative() -> None:
    with pytest.raises(FormatError, match="not negative"):
        retries_of({"commit.max-retries": "-1"})


def test_no_attempt_begins_after_the_timeout() -> None:
    scene = Scene()
    act = Acting("table put snapshot/snapshot-4", scene.foreign)
    ended = scene.commit(act, options={"commit.timeout": "0 ms"}, check_time=lambda what: _pass_a_moment())
    assert (ended.status, ended.code, ended.attempts) == ("gave_up", "commit_timeout", 1)


def _pass_a_moment() -> None:
    import time

    time.sleep(0.002)
