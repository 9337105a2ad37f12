"""Hints: the files `EARLIEST` and `LATEST`, each one decimal snapshot id.

A hint may be missing, old or wrong; it is never more than a place to start looking. Source: Paimon `HintFileUtils`.
"""

import re

_DIGITS = re.compile(rb"[0-9]{1,19}")
_MAX_ID = (1 << 63) - 1


def parse_hint(body: bytes) -> int | None:
    """Return the id, or None for anything that Java would not take: white space around it included."""
    if not _DIGITS.fullmatch(body):
        return None
    number = int(body)
    return number if 0 < number <= _MAX_ID else None
