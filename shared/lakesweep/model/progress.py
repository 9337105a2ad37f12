"""How far a run is, for the person who waits."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with what is counted, such as `objects deleted`, the number so far, and the total if it is known."""


def no_progress(what: str, done: int, total: int | None) -> None:
    """Show nothing."""
