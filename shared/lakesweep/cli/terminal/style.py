"""Colour and line breaks for a person at a terminal. A line without colours is the same text.

Styles follow from a line's own words, since lines are made without regard to a terminal. A table's text may look like
such words; then it gets a colour, and nothing more.
"""

import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from typing import TextIO

from lakesweep.cli.width import is_too_narrow

_LEAST = 20
_COPIED = ("next ", "mend ")
"""Lines with a command that a person copies."""
_STYLES = tuple(
    (re.compile(pattern), style)
    for pattern, style in (
        (r"^lakesweep: (warning:|.* is damaged:)", "yellow"),
        (r": (done|nothing to do|healthy)$", "green"),
        (r": (planned)$", "cyan"),
        (r": (refused|stale|put off|interrupted)$", "yellow"),
        (r": (partial|damaged|broken)(?=;|$)|: (?=findings|\d+ findings)(\d* ?findings)", "bold red"),
        (r"^(delete|deleted|lose|failed|gone|orphan|missing|damaged root)  ", "red"),
        (r"  (partial|damaged|refused|stale|unreadable)(?=  |$)", "red"),
        (r"^(keep|kept|restore|restored)  ", "green"),
        (r"^(next|mend)  ", "cyan"),
        (r"^([A-Z]+(?: +[A-Z]+)*)$", "bold"),
    )
)


def is_coloured(stream: TextIO) -> bool:
    """Tell whether a stream shows colours: a terminal does unless the environment forbids it."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def painted(line: str) -> str:
    """Return a line with the colour of the first style that fits. Only then is rich imported."""
    for pattern, style in _STYLES:
        if found := pattern.search(line):
            from rich.color import ColorSystem
            from rich.style import Style

            begin, end = found.span(found.lastindex or 0)
            word = Style.parse(style).render(line[begin:end], color_system=ColorSystem.STANDARD)
            return line[:begin] + word + line[end:]
    return line


def broken(line: str, stream: TextIO) -> Iterator[str]:
    """Yield a line in pieces that fit a narrow terminal. A long word, such as a path, stays in one piece."""
    if not is_too_narrow(len(line), stream) or line.startswith(_COPIED):
        yield line
        return
    text = line.lstrip()
    indent = " " * (len(line) - len(text))
    yield from textwrap.wrap(
        text,
        max(_LEAST, shutil.get_terminal_size().columns),
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
