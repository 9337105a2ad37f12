"""Roaring bitmaps in memory, by pyroaring: the only module that knows it.

pyroaring is optional, and workers do not have it. Without it, Lakesweep still reads vectors as bits
(`DeletionVector.deleted`), but makes no vectors and no lists of positions.
"""

from array import array
from typing import TYPE_CHECKING

from lakesweep.errors import UnsupportedFormatError

if TYPE_CHECKING:
    import pyroaring

    Bitmap = pyroaring.BitMap


def bitmap_of(rows: "array[int]") -> "Bitmap":
    """Return a bitmap of rows (`array("I")`) in any order. Rows that repeat count once."""
    return _bitmap_class()(rows)


def rows_of(portable: bytes) -> "array[int]":
    """Return the rows of a bitmap in the portable format, ascending, as `array("I")`.

    Args:
        portable: Bytes whose containers are checked (`containers.py`). Others may end the process.
    """
    rows: array[int] = _bitmap_class().deserialize(portable).to_array()
    return rows


def _bitmap_class() -> "type[Bitmap]":
    try:
        from pyroaring import BitMap
    except ImportError as error:
        raise UnsupportedFormatError(
            "positions in deletion vectors need pyroaring: pip install 'lakesweep[vectors]'",
            code="vectors_need_pyroaring",
        ) from error
    return BitMap
