"""A time that is stated as an age."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Age:
    """A time, given as a duration before the call."""

    span_ms: int

    def before(self, now_ms: int) -> int:
        """Return the time, not before 1970."""
        return max(0, now_ms - self.span_ms)

    def after(self, now_ms: int) -> int:
        """Return the time so long after the call."""
        return now_ms + self.span_ms
