"""The data files of a table's roots, counted in the one walk over the manifests that also counts bytes by reason.

Files are counted by the set of roots that need them, as `table/reach/live_files.py` does: thousands of files have the
same set. Only the names of the newest snapshot's files, and of the files beyond it, are remembered.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from lakesweep.model.roots import Root
from lakesweep.table.reach.held import Mention
from lakesweep.table.reach.live_files import Amount, FilesBeyond

SMALL_BYTES = 16 << 20
"""A live data file below this is small; see `TableOverview`."""


class DataFiles:
    """What the entries of manifests say of data files."""

    def __init__(self, roots: Sequence[Root], newest: str | None) -> None:
        """Count nothing yet.

        Args:
            roots: Bit n of a set stands for the n-th root.
            newest: The path of the newest snapshot of main; `None`: there is none.
        """
        self._bits = {root.ref.path: 1 << number for number, root in enumerate(roots)}
        self._newest = self._bits[newest] if newest is not None else 0
        self._amounts: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        """Set of roots -> files, bytes and rows of the entries that exactly these roots need."""
        self._small = [0, 0, 0]
        self._known: set[str] = set()
        self._beyond: dict[str, tuple[int, int, int]] = {}
        self.level_0: dict[str, set[str]] = {}
        """Manifest -> the data files of the newest snapshot on level 0 that it adds."""

    def note(self, mention: Mention) -> None:
        """Note one entry."""
        needed_by = mention.needed_by
        if not needed_by or mention.is_change:
            return
        entry = mention.entry
        name, size_bytes, rows = entry.file_name, entry.file_size, entry.row_count
        _add(self._amounts[needed_by], size_bytes, rows)
        if not needed_by & self._newest:
            roots = needed_by | self._beyond.get(name, (0, 0, 0))[0]
            self._beyond[name] = roots, size_bytes, rows
            return
        self._known.add(name)
        if size_bytes < SMALL_BYTES:
            _add(self._small, size_bytes, rows)
        if entry.level == 0:
            self.level_0.setdefault(mention.manifest, set()).add(name)

    def live(self) -> Amount:
        """Return the data files of the newest snapshot."""
        found = (Amount(*amount) for needed_by, amount in self._amounts.items() if needed_by & self._newest)
        return reduce(Amount.plus, found, Amount())

    def small(self) -> Amount:
        """Return those of them that are small."""
        return Amount(*self._small)

    @property
    def level_0_files(self) -> int:
        """Return the number of those on level 0."""
        return sum(map(len, self.level_0.values()))

    def beyond(self) -> FilesBeyond:
        """Return the files that each root needs beyond the newest snapshot."""
        amounts: dict[int, Amount] = {}
        for name, (needed_by, size_bytes, rows) in self._beyond.items():
            if name not in self._known:  # Known names were deleted here, and added again at another level.
                amounts[needed_by] = amounts.get(needed_by, Amount()).plus(Amount(1, size_bytes, rows))
        return FilesBeyond(self.live(), self._bits, amounts)

    def bytes_of(self, path: str) -> int:
        """Return the bytes of the data files of the root at a path."""
        bit = self._bits[path]
        return sum(amount[1] for needed_by, amount in self._amounts.items() if needed_by & bit)


def _add(amount: list[int], size_bytes: int, rows: int) -> None:
    amount[0] += 1
    amount[1] += size_bytes
    amount[2] += rows
