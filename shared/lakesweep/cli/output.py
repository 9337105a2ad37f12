"""Standard output and standard error.

Standard output holds one JSON document or text, never both. What a store or a table says goes to a terminal without
control characters.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO


def print_document(document: Mapping[str, object]) -> None:
    """Print one JSON document on one line, in ASCII."""
    _write(sys.stdout, json.dumps(document) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print text."""
    _write(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def say(message: str) -> None:
    """Print one sentence to standard error."""
    _write(sys.stderr, f"lakesweep: {printable(message)}\n")


def printable(text: str) -> str:
    """Return `text` with everything that a terminal could act on spelled out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _write(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # The reader has seen enough. What was done is done, so the exit code stays what it is; and the interpreter
        # must not try to flush into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
