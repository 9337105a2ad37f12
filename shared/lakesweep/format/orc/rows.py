"""The rows of an ORC file, read with pyarrow. This must run in its own process (`decoder.py`)."""

from collections.abc import Iterator
from typing import Any

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.projection import Row, Want, project
from lakesweep.format.values.json_document import shorten

BLOCK_ROWS = 4096


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
