"""Standard output and standard error.

Standard output holds one JSON document or text, never both. Text from a store or a table is printed without control
characters.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TextIO

from lakesweep.errors import MaintenanceError, masked

_ERASE = "\r\x1b[K"

_AT_ONCE = 1000
"""Lines or rows that are written together."""


class _Status:
    """The state of the terminal. The lock is held while anything is written."""

    may_colour = True
    """Whether the output is for people."""
    is_shown = False
    """Whether there is a line of progress."""
    lock = threading.Lock()


class OutputError(MaintenanceError):
    """Standard output cannot be written, for example because a disk is full. The command's changes are already done."""


@dataclass(frozen=True, slots=True)
class Files:
    """Rows of a document that may be too many to keep in memory."""

    rows: Callable[[], Iterable[Mapping[str, object]]]
    line: Callable[[Mapping[str, object]], str]
    """Renders one."""


def print_answer(document: Mapping[str, object], text: Iterable[str], files: Files | None, *, as_json: bool) -> None:
    """Print a document, or its text, and the rows that belong to it.

    Raises:
        OutputError: It could not be written.
    """
    if as_json:
        print_document(document, None if files is None else files.rows())
    else:
        print_lines(text if files is None else chain(text, map(files.line, files.rows())))


def print_document(document: Mapping[str, object], files: Iterable[Mapping[str, object]] | None = None) -> None:
    """Print one JSON document on one line, in ASCII.

    Args:
        document: The document.
        files: The rows of its last member, `files`. They are printed as they come.

    Raises:
        OutputError: It could not be written.
    """
    text = json.dumps(document)
    if files is not None:
        _write(sys.stdout, f'{text[:-1]}, "files": [')
        for some in _some(f"{', ' if number else ''}{json.dumps(row)}" for number, row in enumerate(files)):
            _write(sys.stdout, "".join(some))
        text = "]}"
    _write(sys.stdout, text + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print text.

    Raises:
        OutputError: It could not be written.
    """
    for some in _some(lines):
        _write(sys.stdout, _shown(map(printable, some), sys.stdout))


def write_text(text: str) -> None:
    """Write rows to standard output as they are: they are data, not sentences.

    Raises:
        OutputError: They could not be written.
    """
    _write(sys.stdout, text)


def _some(texts: Iterable[str]) -> Iterator[list[str]]:
    upcoming = iter(texts)
    while some := list(islice(upcoming, _AT_ONCE)):
        yield some


def say(message: str) -> None:
    """Print one sentence to standard error. A failure is ignored, since there is nowhere else to report it."""
    with contextlib.suppress(OutputError):
        _write(sys.stderr, _shown([f"lakesweep: {printable(masked(message))}"], sys.stderr))


def for_people(is_so: bool) -> None:
    """State whether the output is for people. Otherwise it has no colour, on standard error neither."""
    _Status.may_colour = is_so


def show_status(text: str) -> None:
    """Show a line of progress on standard error, until the next output. An empty text erases it."""
    with contextlib.suppress(OutputError, ValueError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        _write(sys.stderr, printable(text)[: columns - 1], is_status=True)


def explain_usage(text: str) -> None:
    """Print the help to standard error, for a call without a command."""
    with contextlib.suppress(OutputError):
        _write(sys.stderr, f"{text}\n")


def unwritten(stream: TextIO, error: OSError) -> OutputError:
    """Return the error for a stream that cannot be written. Keep the interpreter from flushing it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return OutputError(f"cannot write to standard output: {error.strerror}")


def printable(text: str) -> str:
    """Return `text` with every control character escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _shown(lines: Iterable[str], stream: TextIO | None) -> str:
    """Return lines as the stream shows them. Only a terminal shows them in another way than a file."""
    if stream is not None and (stream.isatty() or "FORCE_COLOR" in os.environ):
        from lakesweep.cli.terminal.style import broken, is_coloured, painted

        lines = [piece for line in lines for piece in broken(line, stream)]
        if _Status.may_colour and is_coloured(stream):
            lines = map(painted, lines)
    return "".join(f"{line}\n" for line in lines)


def _write(stream: TextIO | None, text: str, *, is_status: bool = False) -> None:
    if stream is None:
        return  # the caller closed it and wants no output
    with _Status.lock:
        if _Status.is_shown or (is_status and text):
            _send(sys.stderr, _ERASE)
        _Status.is_shown = is_status and bool(text)
        _send(stream, text)


def _send(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        # the reader closed the pipe; the command's work is done, so the exit code does not change
        unwritten(stream, error)
    except OSError as error:
        raise unwritten(stream, error) from error
