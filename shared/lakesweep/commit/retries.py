"""How often and how soon a commit is tried again, by the table's options.

Source: Paimon `CoreOptions` (`commit.max-retries`, `commit.timeout`, `commit.min-retry-wait`,
`commit.max-retry-wait`), `RetryWaiter`.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.format.values.options import bad_option, parse_duration_ms, parse_int

_DEFAULT_RETRIES = "10"
_DEFAULT_MIN_WAIT = "10 ms"
_DEFAULT_MAX_WAIT = "10 s"
_JITTER = 0.2
"""The longest addition to a wait, as a part of it, so that writers that collided do not collide again."""
_LARGEST_POWER = 30


@dataclass(frozen=True, slots=True)
class Retries:
    """The limits of one commit."""

    at_most: int
    """Attempts after the first."""
    min_wait_ms: int
    max_wait_ms: int
    timeout_ms: int | None
    """No attempt begins after this time; `None`: no limit."""

    def wait_s(self, failed: int) -> float:
        """Return how long to wait after so many failed attempts, at least one."""
        wait_ms = min(self.min_wait_ms << min(failed - 1, _LARGEST_POWER), self.max_wait_ms)
        return wait_ms * (1 + random.random() * _JITTER) / 1000


def retries_of(options: Mapping[str, str]) -> Retries:
    """Return the limits that a table's options state.

    Raises:
        FormatError: An option is not valid.
    """

    def duration(key: str, default: str) -> int:
        return parse_duration_ms(options.get(key, default), key)

    at_most = parse_int(options.get("commit.max-retries", _DEFAULT_RETRIES), "commit.max-retries")
    if at_most < 0:
        raise bad_option("commit.max-retries", "a number that is not negative", str(at_most))
    return Retries(
        at_most,
        duration("commit.min-retry-wait", _DEFAULT_MIN_WAIT),
        duration("commit.max-retry-wait", _DEFAULT_MAX_WAIT),
        duration("commit.timeout", "") if "commit.timeout" in options else None,
    )
