"""The program of the process that decodes ORC: pyarrow, with limits of memory and time.

pyarrow's ORC reader trusts its input. So the frame of a file is checked first (`frame.py`), which finds most
damage. Other damage ends this process in the worst case, and no other process.

The process says ("ready", None). Then it answers one request after another until its input ends. A request is a file,
its path for messages, and the wanted fields. The answer is any number of ("rows", block), and one of

- ("whole", None): all rows were sent.
- ("refused", (code, message)): pyarrow never saw the file.
- ("spent", (code, message)): pyarrow saw the file, and its effect on this process is unknown. The process ends.

`marshal` writes and reads all of it. This is safe between two processes of one user, which can trust each other.
"""

import marshal
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from lakesweep.errors import FormatError, MaintenanceError, UnsupportedFormatError
from lakesweep.format.avro.container import FREE_RECORDS, MIN_RECORD_BYTES, most_bytes
from lakesweep.format.avro.projection import Row, Want, project
from lakesweep.format.orc.frame import check_frame
from lakesweep.format.values.json_document import shorten

BLOCK_ROWS = 4096
MAX_SECONDS = 60
"""The longest time without a block of rows. The rows of a small file are limited, so the total time is, too."""
MEMORY_BYTES = 192 << 20
MEMORY_RATIO = 32
MAX_MEMORY_BYTES = 2 << 30
"""This process may use `MEMORY_BYTES` plus `MEMORY_RATIO` times the size of the file. Measured: 30 MiB for pyarrow
itself, and 40 more for 100 000 entries in a file of 2 MiB."""

Answer = Callable[[str, Any], None]


def main() -> None:
    """Answer the requests on standard input on standard output."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # The signal ends the process.
    signal.alarm(MAX_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The output of a library is no answer.
    sys.modules["numpy"] = None  # type: ignore[assignment]  # Without it, pyarrow works and loads twice as fast.
    with suppress(UnsupportedFormatError):  # The error is reported for each file, below.
        load_pyarrow("")

    def answer(outcome: str, found: Any) -> None:
        marshal.dump((outcome, found), answers)

    answer("ready", None)
    is_spent = False
    while not is_spent:
        answers.flush()
        signal.alarm(0)
        try:
            body, path, wants = marshal.load(requests)
        except EOFError:
            break
        signal.alarm(MAX_SECONDS)
        _limit_memory(min(MAX_MEMORY_BYTES, MEMORY_BYTES + MEMORY_RATIO * len(body)))
        is_spent = _serve(body, path, tuple(map(_want, wants)), answer)
    answers.close()


def _serve(body: bytes, path: str, wants: tuple[Want, ...], answer: Answer) -> bool:
    """Return whether the process is spent."""
    try:
        load_pyarrow(path)
        check_frame(body, path)
    except MaintenanceError as error:
        answer("refused", (error.code, str(error)))
        return False
    # The limits of an Avro file, applied to rows as `marshal` writes them.
    most = most_bytes(len(body))
    row_count = size = 0
    try:
        for rows in read_blocks(body, path, wants):
            block = marshal.dumps(rows)
            row_count, size = row_count + len(rows), size + len(block)
            if not MIN_RECORD_BYTES * (row_count - FREE_RECORDS) <= size <= most:
                raise FormatError(
                    f"{path}: expected an ORC file of {len(body)} bytes, found {row_count} rows of {size} bytes in it"
                )
            answer("rows", block)
            signal.alarm(MAX_SECONDS)
    except MaintenanceError as error:
        answer("spent", (error.code, str(error)))
        return True
    answer("whole", None)
    return False


def _limit_memory(limit: int) -> None:
    """Limit the memory that this process may write, not the memory that it maps: code takes more than data."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _want(fields: tuple[Any, ...]) -> Want:
    name, kind, required, inner = fields
    return Want(name, kind, required, tuple(map(_want, inner)))


def read_blocks(body: bytes, path: str, wants: tuple[Want, ...]) -> Iterator[list[Row]]:
    """Decode the wanted fields, some rows at a time."""
    orc, arrow = load_pyarrow(path)
    # pyarrow reports damage as OSError, ValueError or an own class, depending on where it notices the damage.
    try:
        file = orc.ORCFile(arrow.BufferReader(body))
        columns = [name for name in _columns(wants) if _has(file.schema, name)]
    except Exception as error:
        raise _unreadable(path, error) from error
    seen = 0
    for stripe in range(file.nstripes):
        try:
            batch = file.read_stripe(stripe, columns=columns)
        except Exception as error:
            raise _unreadable(path, error) from error
        seen += batch.num_rows
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            try:
                records = batch.slice(start, BLOCK_ROWS).to_pylist()
            except Exception as error:
                raise _unreadable(path, error) from error
            yield [project(record, wants, path) for record in records]
    if seen != file.nrows:
        raise FormatError(f"{path}: expected {file.nrows} rows in an ORC file, found {seen}")


def load_pyarrow(path: str) -> tuple[Any, Any]:
    """Return pyarrow's ORC module, and pyarrow itself."""
    try:
        import pyarrow
        from pyarrow import orc
    except ImportError as error:
        raise UnsupportedFormatError(
            f"{path}: expected an Avro file, found ORC, which needs pyarrow: pip install 'lakesweep[orc]'",
            code="orc_needs_pyarrow",
        ) from error
    # The other memory pools grow in steps that are large compared with the limit.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return orc, pyarrow


def _columns(wants: tuple[Want, ...], prefix: str = "") -> Iterator[str]:
    # The fields of a struct are requested one by one; an array of structs is requested as a whole.
    for want in wants:
        if want.kind == "record":
            yield from _columns(want.fields, f"{prefix}{want.name}.")
        else:
            yield prefix + want.name


def _has(schema: Any, column: str) -> bool:
    """Tell whether the file has a column. Older files lack newer columns, and pyarrow refuses a request for them."""
    first, *rest = column.split(".")
    index = schema.get_field_index(first)
    if index < 0:
        return False
    type_ = schema.field(index).type
    for name in rest:
        index = type_.get_field_index(name)
        if index < 0:
            return False
        type_ = type_.field(index).type
    return True


def _unreadable(path: str, error: Exception) -> FormatError | UnsupportedFormatError:
    words = str(error)
    if "TZDIR" in words or "time zone" in words.lower():
        return UnsupportedFormatError(
            f"{path}: expected a time zone database, which pyarrow's ORC reader needs, found none: "
            "install the operating system's tzdata, or set TZDIR to the zoneinfo folder of the Python package tzdata",
            code="orc_needs_time_zones",
        )
    return FormatError(f"{path}: expected a whole ORC file, found {shorten(words) or type(error).__name__}")
