"""Ask, right before each change of a store, whether the change is still allowed.

A request may be sent long after the decision: botocore sends it again if its answer is lost, and a process may be
suspended in between. So the question is asked where the request leaves, for each attempt. A store does not know the
reason for a refusal; the caller supplies the guard through a `GuardedStore`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lakesweep.errors import LeaseLostError
from lakesweep.storage.clock import Stopwatch
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store, UndeleteRequest, UndeleteResult
from lakesweep.storage.wrappers.wrapping import WrappingStore

Guard = Callable[[], None]
"""Raises LeaseLostError if no change is allowed any more."""


def _allow() -> None:
    """Allow every change."""


_guard: ContextVar[Guard] = ContextVar("guard", default=_allow)


class LateDeleteError(LeaseLostError):
    """A call of `delete` was stopped by its guard."""

    def __init__(self, error: LeaseLostError, answers: Sequence[DeleteResult]) -> None:
        """Build the error from the guard's error.

        Args:
            error: The error of the guard.
            answers: The keys with a known result; `not_tried` for keys that were not asked for.
        """
        super().__init__(str(error), code=error.code)
        self.answers = tuple(answers)


class TimeLimit:
    """A guard that allows changes for some time, by clocks that continue while the process is suspended."""

    def __init__(self, begun: Stopwatch, length_ms: int, sentence: str, code: str = LeaseLostError.code) -> None:
        """Allow changes from `begun` on for `length_ms`.

        Args:
            begun: The begin of the time.
            length_ms: Its length.
            sentence: The message of the error afterwards.
            code: The code word of the error.
        """
        self._begun = begun
        self._length_ms = length_ms
        self._sentence = sentence
        self._code = code

    def left_ms(self) -> int:
        """Return how much time is left, below 0 when it is over."""
        return self._length_ms - self._begun.elapsed_ms()

    def __call__(self) -> None:
        """Raise LeaseLostError when the time is over."""
        left_ms = self.left_ms()
        if left_ms <= 0:
            over = f"that was {-left_ms / 1000:.0f} s ago"
            raise LeaseLostError(f"{self._sentence}; {over}, so Lakesweep sent no further request", code=self._code)


def current_guard() -> Guard:
    """Return the guard of this thread, for code that continues in other threads."""
    return _guard.get()


def ask_guard() -> None:
    """Make sure that a change is still allowed. This is the last step before the change.

    Raises:
        LeaseLostError: The change is not allowed.
    """
    _guard.get()()


@contextmanager
def guarded_by(guard: Guard) -> Iterator[None]:
    """Ask a guard before each change of this thread in the block, in addition to its other guards."""
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
    """Asks a guard before each attempt to change something."""

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
            LateDeleteError: The guard stopped the call halfway.
        """
        with guarded_by(self._guard):
            return self._store.delete(requests)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Remove delete markers; see `Store.undelete`."""
        with guarded_by(self._guard):
            return self._store.undelete(requests, only_check=only_check)
