"""Where a deletion vector lies."""

from typing import NamedTuple

from lakesweep.format.manifest import VectorRange
from lakesweep.format.vectors.vector import Width


class LocatedVector(NamedTuple):
    """A deletion vector as an index manifest describes it."""

    index_file: str
    """Relative to the table root, an absolute URI when external."""
    index_size: int
    data_file: str
    """A name without a folder."""
    offset: int
    length: int
    width: Width | None
    """`None`: only the bytes tell it, since there is a gap behind the vector."""
    cardinality: int | None
    """The number of deleted rows; `None`: the writer did not record it."""

    @property
    def place(self) -> VectorRange:
        """Return the range as it stands in the index manifest."""
        return self.data_file, self.offset, self.length, self.cardinality
