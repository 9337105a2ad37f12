"""Words that messages share."""

from collections.abc import Sequence


def some_of(names: Sequence[object], at_most: int = 10) -> str:
    """Return the first of some names, and how many more there are, so that a message remains readable."""
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(map(str, names[:at_most])) + more
