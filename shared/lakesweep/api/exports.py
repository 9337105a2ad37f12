"""Rows as a file of CSV or Parquet, or as CSV on standard output.

In CSV an unknown value is an empty field and an empty text is `""`. Times are ISO-8601 in UTC. Names of objects and
tables may be chosen by others, and a spreadsheet takes a text as a formula if it begins with one of `= + - @`, also in
their wide forms, a tab or a line break. So such a text gets a `'` before it, and so does one that begins with `'`.
Parquet has texts unchanged, and times as timestamps in UTC.
"""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from lakesweep.errors import RefusedError, StorageError, UsageError
from lakesweep.model.pause import utc_text
from lakesweep.storage.local.output import created, is_direct

STREAM = "-"
_ENDINGS = (".csv", ".parquet")
_AT_ONCE = 32_768
"""Rows of a row group, and of a piece of CSV."""
_FORMULA = (*"=+-@\t\r\n'", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The last ones are the wide forms of the first, which some spreadsheets take for them."""
_QUOTED = frozenset('",\n\r')
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Column:
    """A column."""

    name: str
    kind: Literal["text", "count", "amount", "time", "flag"] = "text"
    """`time`: rows have epoch milliseconds."""


def check_target(path: str) -> None:
    """Make sure that rows may be written to a path.

    Raises:
        UsageError: This is no file on this machine that ends in `.csv` or `.parquet`, and not `-`.
        RefusedError: Something exists there that is no pipe or device.
    """
    if path == STREAM:
        return
    final = Path(path)
    if "://" in path or final.suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"--to {path}: expected a path on this machine that ends in {' or '.join(_ENDINGS)}, or -",
            code="bad_argument",
        )
    if not final.absolute().parent.is_dir():
        raise UsageError(f"--to {path}: expected a folder {final.absolute().parent}, found none", code="bad_argument")
    _check_free(final)
    if final.suffix.lower() == ".parquet":
        _arrow()


def export(path: str, columns: Sequence[Column], rows: Iterable[Row], emit: Callable[[str], object]) -> int:
    """Write rows, and return how many. A file gets its name when all rows are in it; a pipe gets them at once.

    Args:
        path: As of `check_target`.
        columns: Of the rows.
        rows: Read one after the other.
        emit: Writes a text to standard output.

    Raises:
        RefusedError: Something exists there by now.
        StorageError: The disk refused.
    """
    if path == STREAM:
        return _write_csv(columns, rows, emit)
    final = Path(path)
    try:
        with created(final) as file:
            if final.suffix.lower() == ".parquet":
                return _write_parquet(file, columns, rows)
            text = io.TextIOWrapper(file, "utf-8", "backslashreplace", newline="")
            try:
                return _write_csv(columns, rows, text.write)
            finally:
                text.detach()
    except FileExistsError:
        raise _exists(final) from None
    except OSError as error:
        raise StorageError(f"{final}: expected to write rows there, but the disk refused: {error}") from error


def _check_free(final: Path) -> None:
    if os.path.lexists(final) and not is_direct(final):
        raise _exists(final)


def _exists(final: Path) -> RefusedError:
    return RefusedError(f"--to {final}: expected a new file, found one that exists", code="target_exists")


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    upcoming = iter(rows)
    while piece := list(islice(upcoming, _AT_ONCE)):
        yield piece


def _write_csv(columns: Sequence[Column], rows: Iterable[Row], emit: Callable[[str], object]) -> int:
    emit(",".join(column.name for column in columns) + "\n")
    count = 0
    for piece in _pieces(rows):
        emit("".join(f"{','.join(map(_field, columns, row))}\n" for row in piece))
        count += len(piece)
    return count


def _field(column: Column, value: object) -> str:
    if value is None:
        return ""
    if column.kind == "flag":
        return "true" if value else "false"
    if column.kind == "time" and isinstance(value, int):
        return _time(value)
    text = str(value)
    if column.kind == "text" and text.startswith(_FORMULA):
        text = f"'{text}"
    return text if text and not _QUOTED & set(text) else '"' + text.replace('"', '""') + '"'


def _time(epoch_ms: int) -> str:
    try:
        return utc_text(epoch_ms)
    except OverflowError:  # no calendar has this time
        return ""


def _write_parquet(file: BinaryIO, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    arrow = _arrow()
    from pyarrow import parquet

    types = {
        "text": arrow.string(),
        "count": arrow.int64(),
        "amount": arrow.float64(),
        "time": arrow.timestamp("ms", "UTC"),
        "flag": arrow.bool_(),
    }
    schema = arrow.schema([(column.name, types[column.kind]) for column in columns])
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for piece in _pieces(rows):
            values = [
                arrow.array([_value(column, row[number]) for row in piece], types[column.kind])
                for number, column in enumerate(columns)
            ]
            writer.write_batch(arrow.record_batch(values, schema=schema))
            count += len(piece)
    return count


def _value(column: Column, value: object) -> object:
    if column.kind == "text" and isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # a name may have bytes that are no text
    if column.kind == "count" and isinstance(value, int):
        return value if value < 1 << 63 else None
    return value


def _arrow() -> Any:
    from lakesweep.operations.reading.types import load_arrow

    return load_arrow()
