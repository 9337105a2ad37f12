"""The lives of files, summed up so that every policy is answered at once.

A branch has n snapshots, oldest first. An expiry deletes the first p of them. So three facts tell all about a file:

- It appears with the snapshot at one position.
- It goes once a certain number of snapshots are expired: when Paimon's rules have freed it, and no remaining snapshot
  needs it. `NEVER`: expiry does not delete it.
- The tags of the branch that need it. They keep it, and the last of them takes it along.

A file that another branch or a changelog needs is kept under every policy.
"""

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

NEVER = 1 << 62
"""More snapshots than any branch has."""


class Files(NamedTuple):
    """Counts and bytes of files."""

    data: int = 0
    metadata: int = 0
    data_bytes: int = 0
    metadata_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of both."""
        return self.data_bytes + self.metadata_bytes

    def plus(self, other: "Files") -> "Files":
        """Return the sum."""
        return Files(*(mine + its for mine, its in zip(self, other, strict=True)))

    def minus(self, other: "Files") -> "Files":
        """Return the difference."""
        return Files(*(mine - its for mine, its in zip(self, other, strict=True)))


NONE = Files()


class Deleted:
    """What is deleted under one decision about the tags, by the number of expired snapshots."""

    __slots__ = ("_at", "_sums")

    def __init__(self, by_number: dict[int, Files]) -> None:
        """Take the files that go with each number of expired snapshots."""
        self._at = sorted(by_number)
        self._sums = [NONE, *accumulate((by_number[number] for number in self._at), Files.plus)]

    def after(self, expired: int) -> Files:
        """Return what is deleted once this many snapshots are expired."""
        return self._sums[bisect_right(self._at, expired)]


class _Sum:
    """A sum that grows; there are many files, so it is changed in place."""

    __slots__ = ("data", "data_bytes", "metadata", "metadata_bytes")

    def __init__(self) -> None:
        self.data = self.metadata = self.data_bytes = self.metadata_bytes = 0

    def add(self, size_bytes: int, *, is_data: bool) -> None:
        if is_data:
            self.data += 1
            self.data_bytes += size_bytes
        else:
            self.metadata += 1
            self.metadata_bytes += size_bytes

    def files(self) -> Files:
        return Files(self.data, self.metadata, self.data_bytes, self.metadata_bytes)


class Lives:
    """The files of a table, in groups of equal lives."""

    def __init__(self) -> None:
        self._born: dict[int, _Sum] = defaultdict(_Sum)
        self._groups: dict[tuple[int, int, bool], _Sum] = defaultdict(_Sum)
        self._always = _Sum()

    @property
    def always(self) -> Files:
        """Return the files that another branch or a changelog needs."""
        return self._always.files()

    def add(
        self,
        size_bytes: int,
        *,
        is_data: bool,
        born: int = 0,
        goes: int = NEVER,
        tags: int = 0,
        is_of_tags: bool = False,
        is_held: bool = False,
    ) -> None:
        """Add a file.

        Args:
            size_bytes: Its size.
            is_data: It is no metadata.
            born: The position of the snapshot with which it appears.
            goes: It goes once this many snapshots are expired, unless a tag needs it.
            tags: The tags that need it: a number with one bit for each.
            is_of_tags: No snapshot of the branch needs it, so the last of these tags takes it along.
            is_held: Another branch or a changelog needs it.
        """
        self._born[born].add(size_bytes, is_data=is_data)
        if is_held:
            self._always.add(size_bytes, is_data=is_data)
        elif goes < NEVER or tags:
            self._groups[goes, tags, is_of_tags].add(size_bytes, is_data=is_data)

    def deleted(self, kept_tags: int, freeing_tags: int) -> Deleted:
        """Return what goes under a decision about the tags.

        Args:
            kept_tags: The tags that stay.
            freeing_tags: Tags that go, and whose snapshot no other root of the branch holds: their files go with them.
        """
        found: dict[int, Files] = defaultdict(Files)
        for (goes, tags, is_of_tags), total in self._groups.items():
            if tags & kept_tags:
                continue
            number = 0 if is_of_tags and tags & freeing_tags else goes
            if number < NEVER:
                found[number] = found[number].plus(total.files())
        return Deleted(found)

    def present(self, positions: int) -> list[Files]:
        """Return what was there right after each of the snapshots, if nothing had ever been deleted."""
        found = (self._born[each].files() if each in self._born else NONE for each in range(max(positions, 1)))
        return list(accumulate(found, Files.plus))
