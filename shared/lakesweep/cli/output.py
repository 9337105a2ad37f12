"""Standard output and standard error.

Standard output holds one JSON document or text, never both. What a store or a table says goes to a terminal without
control characters.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from lakesweep.errors import MaintenanceError, masked


class OutputError(MaintenanceError):
    """Standard output takes no more, such as a full disk. Whatever the command did is done."""


def print_document(document: Mapping[str, object]) -> None:
    """Print one JSON document on one line, in ASCII.

    Raises:
        OutputError: It could not be written.
    """
    _write(sys.stdout, json.dumps(document) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print text.

    Raises:
        OutputError: It could not be written.
    """
    _write(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def say(message: str) -> None:
    """Print one sentence to standard error, if that takes it: there is nowhere else to complain."""
    with contextlib.suppress(OutputError):
        _write(sys.stderr, f"lakesweep: {printable(masked(message))}\n")


def explain_usage(text: str) -> None:
    """Print the help to standard error, for somebody who gave no command."""
    with contextlib.suppress(OutputError):
        _write(sys.stderr, f"{text}\n")


def unwritten(stream: TextIO, error: OSError) -> OutputError:
    """Return what to say when a stream takes no more, and keep the interpreter from trying again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return OutputError(f"cannot write to standard output: {error.strerror}")


def printable(text: str) -> str:
    """Return `text` with everything that a terminal could act on spelled out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return  # closed by the caller, who wants nothing
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        unwritten(stream, error)  # the reader has seen enough; what was done is done, so the exit code stays as it is
    except OSError as error:
        raise unwritten(stream, error) from error
