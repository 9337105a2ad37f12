"""ORC metadata files: tables with `manifest.format=orc` use them instead of Avro.

Reading them needs pyarrow, which workers do not have. There, Lakesweep refuses an ORC file with a message that says
what to install. It never treats the file as damaged or empty. pyarrow runs in its own process (`decoder.py`), because
damaged bytes can end the process.

The process starts with the first file and continues for the next ones, whichever thread reads them. After a failure
the process is ended, since damaged bytes may have changed its memory. For the same reason a failure counts only if a
new process reports it. A process that has decoded before may have been ended from outside, or lack memory because of
earlier files.
"""

import atexit
import marshal
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from lakesweep.errors import FormatError, MaintenanceError, UnsupportedFormatError
from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.orc.decoder import MAX_SECONDS
from lakesweep.format.values.json_document import shorten

if TYPE_CHECKING:
    from subprocess import Popen

_MAIN = "import sys; sys.path[:] = sys.argv[1:]; from lakesweep.format.orc.decoder import main; main()"
"""Not `-m`, which looks for this package and pyarrow in fewer places than this process."""

_NO_ANSWER = (EOFError, OSError, TypeError, ValueError)
"""The exceptions if the process ends, or writes anything except an answer."""

_PATIENCE_SECONDS = 1.0
"""Time for a silent process to end by itself, so that its exit code tells why."""

_ENDED_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT)


class _Running(NamedTuple):
    process: "Popen[bytes]"
    requests: IO[bytes]
    answers: IO[bytes]


class OrcProcess:
    """Decodes one file at a time, in its own process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None
        atexit.register(self.end)
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def decode(self, body: bytes, path: str, wants: tuple[Want, ...]) -> list[bytes]:
        """Return the rows in blocks: lists of rows, as `marshal` writes them.

        Raises:
            FormatError: The file is damaged.
            UnsupportedFormatError: pyarrow or one of its requirements is missing, or the result is unknown.
        """
        with self._lock:
            if self._running is not None:
                try:
                    return self._ask(self._running, body, path, wants)
                except MaintenanceError:
                    if self._is_running():  # It still works, so its failure counts.
                        raise
            return self._ask(self._start(path), body, path, wants)

    def end(self, patience_seconds: float = 0) -> int | None:
        """End the process, if there is one, and return its exit code.

        Args:
            patience_seconds: How long it has to end by itself.
        """
        running, self._running = self._running, None
        if running is None:
            return None
        if patience_seconds:
            from subprocess import TimeoutExpired

            with suppress(TimeoutExpired):
                running.process.wait(patience_seconds)
        running.process.kill()
        for pipe in (running.requests, running.answers):
            with suppress(OSError):  # The last output may not have arrived.
                pipe.close()
        return running.process.wait()

    def _is_running(self) -> bool:
        return self._running is not None

    def _start(self, path: str) -> _Running:
        from subprocess import DEVNULL, PIPE, Popen  # here, since few tables have ORC, and workers start cold

        try:
            process = Popen(
                [sys.executable, "-c", _MAIN, *sys.path],
                stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
                process_group=0,  # Ctrl-C on a terminal is for this process, which ends the other one
            )  # fmt: skip
            running = _Running(process, cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout))
            self._running = running
            marshal.load(running.answers)
        except BaseException as error:
            code = self.end(_PATIENCE_SECONDS)
            if not isinstance(error, _NO_ANSWER):
                raise
            found = shorten(str(error)) if code is None else f"exit code {code}"
            raise UnsupportedFormatError(
                f"{path}: expected to start a process that reads ORC, but it failed: {found}",
                code="orc_needs_pyarrow",
            ) from error
        return running

    def _ask(self, running: _Running, body: bytes, path: str, wants: tuple[Want, ...]) -> list[bytes]:
        """Decode. A process that must not be asked again is ended."""
        outcome = ""
        blocks: list[bytes] = []
        try:
            marshal.dump((body, path, tuple(map(astuple, wants))), running.requests)
            running.requests.flush()
            outcome, found = marshal.load(running.answers)
            while outcome == "rows":
                blocks.append(found)
                outcome, found = marshal.load(running.answers)
        except _NO_ANSWER as error:
            raise _why_ended(path, self.end(_PATIENCE_SECONDS)) from error
        finally:
            if outcome not in ("whole", "refused"):
                self.end()
        if outcome == "whole":
            return blocks
        code, message = found
        raise FormatError(message) if code == FormatError.code else UnsupportedFormatError(message, code=code)

    def _leave_to_parent(self) -> None:
        """Forget the process after a fork: the pipes belong to the parent."""
        if self._running is not None:
            self._running.process.returncode = 0  # The parent waits for it.
        self._lock, self._running = threading.Lock(), None


def _why_ended(path: str, code: int | None) -> MaintenanceError:
    # An end from outside, for example by a lack of memory in the machine, says nothing about the file.
    if code == -signal.SIGALRM:
        return UnsupportedFormatError(f"{path}: expected rows of ORC within {MAX_SECONDS} seconds, found none")
    if code in _ENDED_FROM_OUTSIDE:
        return UnsupportedFormatError(f"{path}: expected to decode ORC, but signal {-code} ended the process")
    return FormatError(f"{path}: expected a whole ORC file, found one that ends its reader with exit code {code}")


_process = OrcProcess()


def read_rows(body: bytes, path: str, wants: tuple[Want, ...]) -> Iterator[Row]:
    """Decode the wanted fields of every row.

    The whole file is decoded before this returns.

    Raises:
        FormatError: The file is damaged, or a wanted field is missing or has another type.
        UnsupportedFormatError: pyarrow is not installed, or lacks a time zone database. Or the decoding was ended from
            outside or by its time limit, so nothing is known about the file.
    """
    return _rows(_process.decode(body, path, wants))


def _rows(blocks: list[bytes]) -> Iterator[Row]:
    blocks.reverse()
    while blocks:  # Blocks are removed one by one, so that rows do not stay in memory twice.
        yield from marshal.loads(blocks.pop())
