"""Hints: the files `EARLIEST` and `LATEST`, each one decimal snapshot id.

A hint may be missing, old or wrong, so a search may only begin with it. Source: Paimon `HintFileUtils`, and
`FileIO#readFileUtf8`, which joins lines: a file from an editor or `echo` ends with a line end.
"""

import re

_DIGITS = re.compile(rb"[0-9]{1,19}")
_LINE_ENDS = b"\r\n"
_MAX_ID = (1 << 63) - 1


def parse_hint(body: bytes) -> int | None:
    """Return the id, or None for anything else. Paimon does not accept a space around it either."""
    digits = body.translate(None, _LINE_ENDS)
    if not _DIGITS.fullmatch(digits):
        return None
    number = int(digits)
    return number if 0 < number <= _MAX_ID else None
