"""Two calls at the same time: both have ended, and neither hides the other's error."""

import threading
from collections.abc import Callable

import pytest

from lakesweep.errors import LeaseLostError, ObjectNotFoundError, StorageError
from lakesweep.storage.guard import ask_guard, guarded_by
from lakesweep.storage.together import both

PATIENCE_S = 20


def failing(error: BaseException) -> Callable[[], int]:
    def fail() -> int:
        raise error

    return fail


@pytest.mark.parametrize("at_once", [True, False])
def test_an_error_of_either_call_is_raised(at_once: bool) -> None:
    """If both fail, it is that of the first."""
    one, two = StorageError("one"), ObjectNotFoundError("two")
    assert both(lambda: 1, lambda: "a", at_once=at_once) == (1, "a")
    for first, second, found in (
        (failing(one), lambda: 1, one),
        (lambda: 1, failing(two), two),
        (failing(one), failing(two), one),
    ):
        with pytest.raises(StorageError) as raised:
            both(first, second, at_once=at_once)
        assert raised.value is found


@pytest.mark.parametrize("error", [StorageError("broken"), KeyboardInterrupt(), ValueError()])
def test_the_first_call_has_ended_before_an_error_of_the_second_is_raised(error: BaseException) -> None:
    """Somebody may have pressed Ctrl-C: what is on its way is answered before the lease is released."""
    begun, ended = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert not threading.Event().wait(0.05)
        ended.set()

    def second() -> None:
        assert begun.wait(PATIENCE_S)
        raise error

    with pytest.raises(type(error)):
        both(first, second)
    assert ended.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("both")]


def test_both_calls_ask_the_guard_of_the_caller() -> None:
    """A thread of its own would otherwise change the table after the lease has ended."""

    def refuse() -> None:
        raise LeaseLostError("it has ended")

    with guarded_by(refuse):
        for first, second in ((ask_guard, int), (int, ask_guard)):
            with pytest.raises(LeaseLostError):
                both(first, second)
