"""Ask right before each change of a store whether it may still be made.

A request may be sent long after somebody decided on it: botocore sends it again when its answer is lost, and a process
may stand still in between. So the question is asked where the request leaves, for each attempt. A store does not know
why: whoever changes something through a `GuardedStore` brings the answer along.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lakesweep.errors import LeaseLostError
from lakesweep.storage.elapsed import Stopwatch
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store, UndeleteRequest, UndeleteResult
from lakesweep.storage.wrapping import WrappingStore

Guard = Callable[[], None]
"""Raises LeaseLostError when nothing may be changed any more."""


def _allow() -> None:
    """Allow every change."""


_guard: ContextVar[Guard] = ContextVar("guard", default=_allow)


class LateDeleteError(LeaseLostError):
    """A call of `delete` was stopped by its guard."""

    def __init__(self, error: LeaseLostError, answers: Sequence[DeleteResult]) -> None:
        """Make it of what the guard raised.

        Args:
            error: What the guard raised.
            answers: Of the keys of which it is known what became of them; `not_tried` of those that were not asked for.
        """
        super().__init__(str(error), code=error.code)
        self.answers = tuple(answers)


class TimeLimit:
    """A guard that allows changes for some time, by clocks that go on while the process stands still."""

    def __init__(self, begun: Stopwatch, length_ms: int, sentence: str, code: str = LeaseLostError.code) -> None:
        """Allow changes from `begun` on for `length_ms`.

        Args:
            begun: From when on the time counts.
            length_ms: How long.
            sentence: What the error says when it is over.
            code: The word for it.
        """
        self._begun = begun
        self._length_ms = length_ms
        self._sentence = sentence
        self._code = code

    def left_ms(self) -> int:
        """Return how much of it is left, below 0 when it is over."""
        return self._length_ms - self._begun.elapsed_ms()

    def __call__(self) -> None:
        """Raise LeaseLostError when it is over."""
        left_ms = self.left_ms()
        if left_ms <= 0:
            over = f"that was {-left_ms / 1000:.0f} s ago"
            raise LeaseLostError(f"{self._sentence}; {over}, so Lakesweep sent no further request", code=self._code)


def current_guard() -> Guard:
    """Return what says whether the caller may change anything, for code that goes on in other threads."""
    return _guard.get()


def ask_guard() -> None:
    """Make sure that a change may still be made: the last thing before it is.

    Raises:
        LeaseLostError: It may not.
    """
    _guard.get()()


@contextmanager
def guarded_by(guard: Guard) -> Iterator[None]:
    """Have a guard asked for what this thread changes in the block, besides those that it brought along."""
    outer = _guard.get()

    def both() -> None:
        outer()
        guard()

    token = _guard.set(guard if outer is _allow else both)
    try:
        yield
    finally:
        _guard.reset(token)


class GuardedStore(WrappingStore):
    """Has a guard asked before each attempt to change something."""

    def __init__(self, store: Store, guard: Guard) -> None:
        """Wrap a store."""
        super().__init__(store)
        self._guard = guard

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`."""
        with guarded_by(self._guard):
            return self._store.put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete objects; see `Store.delete`.

        Raises:
            LateDeleteError: The guard stopped it on the way.
        """
        with guarded_by(self._guard):
            return self._store.delete(requests)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Take deletions back; see `Store.undelete`."""
        with guarded_by(self._guard):
            return self._store.undelete(requests, only_check=only_check)
