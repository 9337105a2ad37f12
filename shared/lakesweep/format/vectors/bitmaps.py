"""Roaring bitmaps in memory, by pyroaring: the only module that knows it.

pyroaring is optional, and workers do not have it. Without it, Lakesweep still reads vectors as bits
(`DeletionVector.deleted`), but makes no vectors and no lists of positions.
"""

from array import array
from typing import TYPE_CHECKING

from lakesweep.errors import FormatError, UnsupportedFormatError

if TYPE_CHECKING:
    import pyroaring

    Bitmap = pyroaring.BitMap


def bitmap_of(rows: "array[int]") -> "Bitmap":
    """Return a bitmap of rows (`array("I")`) in any order. Rows that repeat count once."""
    return _bitmap_class()(rows)


def rows_of(portable: bytes, path: str) -> "array[int]":
    """Return the rows of a bitmap in the portable format, ascending, as `array("I")`.

    Raises:
        FormatError: This is no bitmap, or its containers contradict each other. pyroaring checks that.
    """
    rows: array[int] = read_bitmap(portable, path).to_array()
    return rows


def read_bitmap(portable: bytes, path: str) -> "Bitmap":
    """Return a bitmap in the portable format.

    Raises:
        FormatError: This is no bitmap, or its containers contradict each other. pyroaring checks that.
    """
    bitmap = _bitmap_class()
    try:
        return bitmap.deserialize(portable)
    except (ValueError, IndexError) as error:
        raise FormatError(f"{path}: expected a Roaring bitmap, found {error}") from error


def _bitmap_class() -> "type[Bitmap]":
    try:
        from pyroaring import BitMap
    except ImportError as error:
        raise UnsupportedFormatError(
            "positions in deletion vectors need pyroaring: pip install 'lakesweep[vectors]'",
            code="vectors_need_pyroaring",
        ) from error
    return BitMap
