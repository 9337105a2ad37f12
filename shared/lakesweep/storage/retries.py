"""What happens while a server of AWS does not answer and botocore tries again.

A request may take `LONGEST_REQUEST_S`, and botocore may first ask STS for credentials. So whoever waits is told of
failed attempts. After a stop there is no further attempt.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from lakesweep.storage import stops
from lakesweep.storage.clock import monotonic_s

TOLD_AFTER_S = 3.0
"""A shorter silence is not worth a sentence, nor is another one so soon: many threads may wait."""
_BEGAN = "lakesweep_began"

_listeners: list[Callable[[str], None]] = []
_last_told_s = [0.0]


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Let `listener` hear, during the block, that a server does not answer. Any thread may call it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def watch(session: Any) -> None:
    """Watch every client that this botocore session makes."""
    session.register("before-call", _begin)
    session.register("needs-retry", _look)


def _begin(params: dict[str, Any], **_: object) -> None:
    params["context"][_BEGAN] = (monotonic_s(), stops.count)


def _look(attempts: int, caught_exception: Exception | None, request_dict: dict[str, Any], **_: object) -> None:
    """Look at a failed attempt, before botocore sends another one."""
    if not type(caught_exception).__module__.startswith("botocore") or caught_exception is None:
        return  # the server answered, or the attempt was never sent
    context = request_dict["context"]
    began_s, stop = context[_BEGAN]
    if stop != stops.count:
        raise caught_exception
    limit = context["client_config"].retries.get("total_max_attempts", 1)
    if attempts < limit:
        tell(request_dict["url"], began_s, attempts, limit, type(caught_exception).__name__)


def tell(url: str, began_s: float, attempt: int, limit: int, why: str) -> None:
    """Tell the listener that an attempt failed and another one follows, if it has waited for long.

    Args:
        url: The server did not answer at this URL.
        began_s: When the first attempt began, by `monotonic_s`.
        attempt: The number of the failed attempt, from 1.
        limit: Number of attempts.
        why: The kind of failure.
    """
    now_s = monotonic_s()
    if now_s - max(began_s, _last_told_s[0]) >= TOLD_AFTER_S and _listeners:
        _last_told_s[0] = now_s
        place = urlsplit(url)
        _listeners[-1](
            f"no answer from {place.scheme}://{place.netloc} for {now_s - began_s:.0f} s; attempt {attempt} of "
            f"{limit} failed ({why}), trying again"
        )
