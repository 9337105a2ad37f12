"""The data files of a table's roots, counted in the one walk over the manifests that also counts bytes by reason.

Files are counted by the set of roots that need them, as `table/reach/live_files.py` does: thousands of files have the
same set. Only the names of the newest snapshot's files, and of the files beyond it, are remembered.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakesweep.model.roots import Root
from lakesweep.table.reach.held import Mention
from lakesweep.table.reach.live_files import Amount, FilesBeyond

SMALL_BYTES = 16 << 20
"""A live data file below this is small; see `TableOverview`."""


@dataclass(slots=True)
class DataFiles:
    """What the entries of manifests say of data files."""

    roots: tuple[Root, ...]
    """Bit n of a set stands for the n-th root."""
    newest: int
    """The set of the newest snapshot of main; 0: there is none."""
    live: Amount = field(default_factory=Amount)
    """The data files of the newest snapshot."""
    small: Amount = field(default_factory=Amount)
    """Those of them that are small."""
    level_0: dict[str, set[str]] = field(default_factory=dict)
    """Manifest -> the data files of the newest snapshot on level 0 that it adds."""
    _amounts: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    """Set of roots -> files, bytes and rows of the entries that exactly these roots need."""
    _known: set[str] = field(default_factory=set)
    _beyond: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def note(self, mention: Mention) -> None:
        """Note one entry."""
        needed_by = mention.needed_by
        if not needed_by or mention.is_change:
            return
        entry = mention.entry
        name, size_bytes, rows = entry.file_name, entry.file_size, entry.row_count
        amount = self._amounts[needed_by]
        amount[0] += 1
        amount[1] += size_bytes
        amount[2] += rows
        if needed_by & self.newest:
            self._known.add(name)
            if size_bytes < SMALL_BYTES:
                self.small = self.small.plus(Amount(1, size_bytes, rows))
            if entry.level == 0:
                self.level_0.setdefault(mention.manifest, set()).add(name)
        else:
            before = self._beyond.get(name)
            self._beyond[name] = needed_by | (before[0] if before else 0), size_bytes, rows

    def end(self) -> None:
        """Sum up, after the last entry."""
        for needed_by, (files, size_bytes, rows) in self._amounts.items():
            if needed_by & self.newest:
                self.live = self.live.plus(Amount(files, size_bytes, rows))

    def beyond(self) -> FilesBeyond:
        """Return the files that each root needs beyond the newest snapshot."""
        amounts: dict[int, Amount] = {}
        for name, (needed_by, size_bytes, rows) in self._beyond.items():
            if name not in self._known:  # Known names were deleted here, and added again at another level.
                amounts[needed_by] = amounts.get(needed_by, Amount()).plus(Amount(1, size_bytes, rows))
        return FilesBeyond(self.live, {root.ref.path: 1 << number for number, root in enumerate(self.roots)}, amounts)

    def bytes_of(self, paths: Iterable[str]) -> Mapping[str, int]:
        """Return path of a root -> the bytes of its data files.

        Args:
            paths: Of the roots that are asked for.
        """
        bits = {root.ref.path: 1 << number for number, root in enumerate(self.roots)}
        return {
            path: sum(amount[1] for needed_by, amount in self._amounts.items() if needed_by & bits[path])
            for path in paths
            if path in bits
        }
