"""Vectors of two vectors: with the positions of both, or with those of one alone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakesweep.format.vectors.bitmaps import bitmap_of
from lakesweep.format.vectors.vector import DeletionVector, Width, check_largest, encode, read_vector

if TYPE_CHECKING:
    from lakesweep.format.vectors.bitmaps import Bitmap


def union(one: DeletionVector, positions: DeletionVector) -> DeletionVector:
    """Return a vector with all positions of two vectors, in the width of the first.

    Its bytes are those of `vector_of` for these positions.

    Raises:
        FormatError: The rows of a vector contradict its headers.
        ValueError: A position is too large for the width.
        UnsupportedFormatError: pyroaring is missing.
    """
    mine, others = one.bitmaps(), positions.bitmaps()
    merged = mine | others
    for key in mine.keys() & others.keys():
        merged[key] = mine[key] | others[key]
    return _vector_of_bitmaps(merged, one.width)


def without(one: DeletionVector, positions: DeletionVector) -> DeletionVector | None:
    """Return the first vector without the positions of the second, in the width of the first; None if none is left.

    Its bytes are those of `vector_of` for these positions.

    Raises:
        FormatError: The rows of a vector contradict its headers.
        UnsupportedFormatError: pyroaring is missing.
    """
    others = positions.bitmaps()
    left = {key: rows - others[key] if key in others else rows for key, rows in one.bitmaps().items()}
    return _vector_of_bitmaps(left, one.width) if any(left.values()) else None


def _vector_of_bitmaps(bitmaps: "Mapping[int, Bitmap]", width: Width) -> DeletionVector:
    """Return the vector of some bitmaps.

    Set operations leave runs as they are. So each bitmap is made anew, as Paimon encodes its rows.
    """
    found = {key: bitmap_of(bitmap.to_array()) for key, bitmap in bitmaps.items() if bitmap}
    check_largest(found, width)
    return read_vector(encode(found, width), None, "a new deletion vector")
