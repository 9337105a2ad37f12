"""Which of the rows with one key counts.

The row with the largest values of the sequence columns counts, then the one with the largest sequence number. If these
are the same in two runs, the row of the earlier run counts, and within one run the later row. (In Paimon this
depends on the keys that were merged before.)

Source: Paimon `SortMergeReaderWithLoserTree`, `DeduplicateMergeFunction`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakesweep.operations.reading.types import load_numpy

_SMALLEST = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in the order of their keys."""

    order: Any
    """The numbers of the rows."""
    starts: Any
    """The places in `order` where a key begins."""

    @property
    def is_plain(self) -> bool:
        """Tell whether each key comes once."""
        return len(self.starts) == len(self.order)


def groups_of(codes: Any) -> Groups:
    """Return the groups of rows with the same code; there is at least one row."""
    numpy = load_numpy()
    order = codes.argsort(kind="stable")
    ordered = codes[order]
    is_first = numpy.concatenate(([True], ordered[1:] != ordered[:-1]))
    return Groups(order, numpy.flatnonzero(is_first))


def winners_of(groups: Groups, ranks: Sequence[Any]) -> Any:
    """Return the number of the row of each group that counts, in the order of keys.

    Args:
        groups: The rows.
        ranks: Arrays of int64; rows with the largest value of the first one are compared by the second one, and so on.
            If all are the same, the last row counts.
    """
    if groups.is_plain:
        return groups.order
    numpy = load_numpy()
    count = len(groups.order)
    sizes = numpy.diff(groups.starts, append=count)
    may_win = numpy.ones(count, bool)
    for rank in ranks:
        ordered = rank[groups.order]
        best = numpy.maximum.reduceat(numpy.where(may_win, ordered, _SMALLEST), groups.starts)
        may_win &= ordered == numpy.repeat(best, sizes)
    places = numpy.where(may_win, numpy.arange(count), -1)
    return groups.order[numpy.maximum.reduceat(places, groups.starts)]
