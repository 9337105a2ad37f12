"""ORC metadata files: what tables with `manifest.format=orc` have in place of Avro.

Reading them takes pyarrow, which the workers do not carry. Such a file is whole and beyond a worker: it is refused with
a sentence that says what to install, never taken for damaged or empty.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.json_document import shorten
from lakesweep.format.orc_frame import MAGIC, check_frame
from lakesweep.format.projection import Row, Want, project

__all__ = ["MAGIC", "read_rows"]


def read_rows(body: bytes, path: str, wants: tuple[Want, ...]) -> Iterator[Row]:
    """Decode the wanted fields of every row, stripe by stripe.

    Raises:
        FormatError: The file is damaged, or a wanted field is missing or of another type.
        UnsupportedFormatError: pyarrow is not installed, or lacks a time zone database.
    """
    orc, arrow = _pyarrow(path)
    check_frame(body, path)
    # pyarrow reports damage as OSError, ValueError and classes of its own, depending on where it notices.
    try:
        file = orc.ORCFile(arrow.BufferReader(body))
        columns = [name for name in _columns(wants) if _has(file.schema, name)]
    except Exception as error:
        raise _unreadable(path, error) from error
    return _rows(file, path, wants, columns)


def _rows(file: Any, path: str, wants: tuple[Want, ...], columns: list[str]) -> Iterator[Row]:
    seen = 0
    for stripe in range(file.nstripes):
        try:
            records = file.read_stripe(stripe, columns=columns).to_pylist()
        except Exception as error:
            raise _unreadable(path, error) from error
        seen += len(records)
        for record in records:
            yield project(record, wants, path)
    if seen != file.nrows:
        raise FormatError(f"{path}: expected {file.nrows} rows in an ORC file, found {seen}")


def _pyarrow(path: str) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow.orc"), import_module("pyarrow")
    except ImportError as error:
        raise UnsupportedFormatError(
            f"{path}: expected an Avro file, found ORC, which takes pyarrow to read: pip install 'lakesweep[orc]'",
            code="orc_needs_pyarrow",
        ) from error


def _columns(wants: tuple[Want, ...], prefix: str = "") -> Iterator[str]:
    # A struct is asked for field by field; an array of structs comes as a whole.
    for want in wants:
        if want.kind == "record":
            yield from _columns(want.fields, f"{prefix}{want.name}.")
        else:
            yield prefix + want.name


def _has(schema: Any, column: str) -> bool:
    """Older files lack younger columns, and pyarrow refuses to be asked for them."""
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
    return FormatError(f"{path}: expected a whole ORC file, found {shorten(words)}")
