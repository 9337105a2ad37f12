"""Find the deeper rows that newer ones replace."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lakesweep.errors import RefusedError
from lakesweep.format.vectors.vector import Width, collect, encode
from lakesweep.operations.keyed.merging.stream import Rows
from lakesweep.operations.reading.types import load_numpy

DUPLICATE_KEYS = "duplicate_keys"
_MOST_NARROW = (1 << 31) - 1


class Marking:
    """Collects positions in deeper data files."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._found: defaultdict[str, list[Any]] = defaultdict(list)
        self.count = 0
        """So many rows."""

    def mark(self, wanted: Any, rows: Sequence[Rows], codes: Any) -> None:
        """Mark the rows with some keys.

        Args:
            wanted: Codes of keys, ascending.
            rows: Deeper rows.
            codes: Theirs, in their order.

        Raises:
            RefusedError: Two rows have one key, and readers see both (`duplicate_keys`).
        """
        numpy = load_numpy()
        owners = numpy.full(len(wanted), -1)
        start = 0
        for number, each in enumerate(rows):
            own = codes[start : start + each.count]
            start += each.count
            first, end = own.searchsorted(wanted, "left"), own.searchsorted(wanted, "right")
            hits = numpy.flatnonzero(end > first)
            again = hits[(owners[hits] >= 0) | (end[hits] - first[hits] > 1)]
            if len(again):
                other = int(owners[again[0]])
                raise self._twice(each, each if other < 0 else rows[other])
            owners[hits] = number
            if len(hits):
                self._found[each.file.name].append(each.positions[first[hits]])
                self.count += len(hits)

    def _twice(self, one: Rows, other: Rows) -> RefusedError:
        where = one.file.file.path
        place = f"two in {where}" if one.file == other.file else f"one in {other.file.file.path} and one in {where}"
        return RefusedError(
            f"table {self._table}: expected at most one visible row of each key above level 0, found {place}; "
            "readers see both",
            code=DUPLICATE_KEYS,
        )

    def marks(self) -> dict[str, bytes]:
        """Return name of a data file -> the bytes of a vector."""
        numpy = load_numpy()
        found = {}
        for name, parts in self._found.items():
            positions = numpy.concatenate(parts)
            width: Width = 32 if int(positions.max()) <= _MOST_NARROW else 64
            found[name] = encode(collect(positions, width), width)
        return found
