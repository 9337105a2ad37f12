"""Read an ORC file stripe by stripe, in a process of its own.

Damaged bytes can end the process of pyarrow's ORC reader, or make it return other rows. So the other process first
checks the frame of the whole file, and decompresses every part (`format/orc/frame.py`). That process holds the file in
memory as it is compressed; this one has one batch at a time. A process decodes one file after another.

If a file says that it was written in another time zone than UTC, two kinds of time stamps are refused. Those with a
zone are written as times of the writer's clock, and each of Paimon's readers takes them for times of its own. And
pyarrow errs by a second between 1970 in UTC and 1970 in the zone of the writer, if there are fractions of a second. A
file that has no time stamps without a zone does not say: it is read as Paimon reads it in UTC.
"""

import atexit
import marshal
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import RawIOBase
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values.data_type import DataField
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.reading.casting import has_chars, trim_chars
from lakesweep.operations.reading.types import load_arrow, time_stamps

if TYPE_CHECKING:
    from subprocess import Popen

_MAIN = "import sys; sys.path[:] = sys.argv[1:]; from lakesweep.operations.reading.orc_process import main; main()"
"""Not `-m`, which looks for this package and pyarrow in fewer places than this process."""
_PIECE_BYTES = 8 << 20
_UTC = frozenset(("UTC", "GMT", "Etc/UTC", "Etc/GMT"))
_SECOND = 1_000_000_000
_NEAR_HOURS = 20
"""Zones differ from UTC by less."""
_NO_ANSWER = (EOFError, OSError, TypeError, ValueError)
"""The exceptions if the process ends, or writes anything except an answer."""
_ENDED_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT, -signal.SIGALRM)


class _Running(NamedTuple):
    process: "Popen[bytes]"
    requests: IO[bytes]
    answers: IO[bytes]

    def end(self, patience_seconds: float = 0) -> int:
        """End the process, and return its exit code."""
        from subprocess import TimeoutExpired

        if patience_seconds:
            with suppress(TimeoutExpired):
                self.process.wait(patience_seconds)
        self.process.kill()
        for pipe in (self.requests, self.answers):
            with suppress(OSError):
                pipe.close()
        return self.process.wait()


_idle: list[_Running] = []
"""Processes that have decoded their last file whole."""


def orc_batches(source: RawIOBase, file: ReadFile, fields: Sequence[DataField]) -> Iterator[tuple[int, Any]]:
    """Yield record batches with the position of their first row; see `parquet_batches`.

    Raises:
        FormatError: The file is damaged, has another number of rows, or lacks a column.
        UnsupportedFormatError: The process could not start, or was ended from outside.
        StorageError: A read failed.
    """
    arrow = load_arrow()
    try:
        running = _idle.pop()
    except IndexError:
        running = _start(file.path)
    is_whole = False
    try:
        _send(running, source, file, [field.name for field in fields])
        schema, zones, first = None, frozenset[str](), 0
        while not is_whole:
            outcome, found = _answer(running, file.path)
            if outcome == "schema":
                encoded, names = found
                schema, zones = arrow.ipc.read_schema(arrow.py_buffer(encoded)), frozenset(names) - _UTC
            elif outcome == "batch":
                batch = arrow.ipc.read_record_batch(arrow.py_buffer(found), schema)
                if zones:
                    _check_zone(batch, fields, zones, file.path)
                yield first, _trimmed(batch, fields)
                first += batch.num_rows
            elif outcome == "whole":
                is_whole = True
            else:
                code, message = found
                raise (FormatError(message) if code == FormatError.code else UnsupportedFormatError(message, code=code))
        if first != file.rows:
            raise FormatError(f"{file.path}: expected {file.rows} rows, found {first}")
    finally:
        if is_whole:
            _idle.append(running)
        else:
            running.end()


def _check_zone(batch: Any, fields: Sequence[DataField], zones: frozenset[str], path: str) -> None:
    for field in fields:
        for array in time_stamps(batch.column(batch.schema.get_field_index(field.name))):
            is_instant = array.type.tz is not None
            is_refused = bool(zones - {""}) if is_instant else "" in zones or _has_odd(array)
            if is_refused:
                raise UnsupportedFormatError(
                    f"{path}: expected time stamps of {field.name} that do not depend on the time zone of the writer, "
                    "found others; read other columns, or use Paimon",
                    code="orc_time_zone",
                )


def _has_odd(array: Any) -> bool:
    """Tell whether time stamps near 1970 have fractions of a second."""
    from pyarrow import compute

    nanos = array.cast(load_arrow().int64())
    whole = compute.multiply(compute.divide(nanos, _SECOND), _SECOND)
    is_near = compute.less(compute.abs(nanos), _NEAR_HOURS * 3600 * _SECOND)
    return bool(compute.any(compute.and_(is_near, compute.not_equal(nanos, whole))).as_py())


def _trimmed(batch: Any, fields: Sequence[DataField]) -> Any:
    """Return a batch whose CHARs have no blanks at their end: Java's ORC reader returns none, whatever was written."""
    arrow = load_arrow()
    types = {field.name: field.type for field in fields}
    if not any(map(has_chars, types.values())):
        return batch
    arrays = [
        trim_chars(batch.column(number), types[name]) if name in types else batch.column(number)
        for number, name in enumerate(batch.schema.names)
    ]
    return arrow.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _start(path: str) -> _Running:
    from subprocess import DEVNULL, PIPE, Popen

    process = Popen(
        [sys.executable, "-c", _MAIN, *sys.path],
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
        process_group=0,  # Ctrl-C on a terminal is for this process, which ends the other one
    )  # fmt: skip
    running = _Running(process, cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout))
    try:
        marshal.load(running.answers)
    except _NO_ANSWER as error:
        raise UnsupportedFormatError(
            f"{path}: expected to start a process that reads ORC, but it failed with exit code {running.end(1.0)}",
            code="orc_needs_pyarrow",
        ) from error
    return running


def _send(running: _Running, source: RawIOBase, file: ReadFile, columns: list[str]) -> None:
    """Send a file, so that this process has only a piece of it in memory."""
    pieces = -(-file.size_bytes // _PIECE_BYTES)
    try:
        marshal.dump((file.path, columns, file.size_bytes, pieces), running.requests)
    except OSError as error:
        raise _why_ended(running, file.path) from error
    for _ in range(pieces):
        piece = source.read(_PIECE_BYTES)
        try:
            marshal.dump(piece, running.requests)
        except OSError as error:
            raise _why_ended(running, file.path) from error
    running.requests.flush()


def _answer(running: _Running, path: str) -> tuple[str, Any]:
    try:
        outcome, found = marshal.load(running.answers)
    except _NO_ANSWER as error:
        raise _why_ended(running, path) from error
    return outcome, found


def _why_ended(running: _Running, path: str) -> FormatError | UnsupportedFormatError:
    code = running.end(1.0)
    if code in _ENDED_FROM_OUTSIDE:  # also by its own limit of time; nothing is known about the file
        return UnsupportedFormatError(f"{path}: expected to decode ORC, but signal {-code} ended the process")
    return FormatError(f"{path}: expected a whole ORC file, found one that ends its reader with exit code {code}")


def _end_all() -> None:
    while _idle:
        _idle.pop().end()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_idle.clear)  # The pipes belong to the parent.
