"""How wide a terminal is."""

import shutil
from typing import TextIO

_NARROW = 60
"""With fewer columns, long lines are broken between words, and rows are shown as blocks."""


def is_too_narrow(width: int, stream: TextIO) -> bool:
    """Tell whether a stream is a narrow terminal that cannot show a line of this width."""
    return stream.isatty() and shutil.get_terminal_size().columns < min(_NARROW, width)
