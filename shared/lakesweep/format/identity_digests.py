"""Digests of the files that entries name. Each takes few bytes, so those of a large table fit into memory.

A digest has 128 bits of BLAKE2b over every value of an identity. Of 10^7 DELETEs and 10^7 ADDs, a DELETE and the ADD
of another file would share one with a probability below 2^-81. With a shorter digest, a live file could pass for a
deleted one. So it is never cut; its first bits only say where in memory it is.
"""

from collections.abc import Iterable
from hashlib import blake2b

from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest import ManifestEntry

SIZE = 16
_STRIDE = SIZE + 1
"""A digest, and a byte that says whether its ADD was found."""
_GROUPS = 4096


def identity_digest(row: Row) -> bytes:
    """Return the digest of an entry that `RawManifest.copies` yields with its identity.

    Two entries have the same digest if and only if a DELETE of the one deletes the other (`ManifestEntry.identity`).
    """
    partition, bucket, file = row[:3]
    level, _, _, _, name, extra_files, index, external_path = file
    head = b"%d %d %d " % (bucket, level, len(partition)) + partition
    if not extra_files and index is None and external_path is None:
        # The name is the rest, so no other identity has these bytes.
        return blake2b(b"0" + head + name.encode(), digest_size=SIZE).digest()
    rest = repr((name, extra_files, index, external_path)).encode()
    return blake2b(b"1" + head + rest, digest_size=SIZE).digest()


def entry_digest(entry: ManifestEntry) -> bytes:
    """Return the `identity_digest` of an entry that was decoded as a whole."""
    partition, bucket, level, *names = entry.identity
    return identity_digest((partition, bucket, (level, None, None, None, *names)))


class Digests:
    """The digests of some entries. Of DELETEs: for each also whether the ADD of the same file was found."""

    def __init__(self) -> None:
        self._groups = [bytearray() for _ in range(_GROUPS)]
        self.count = 0
        self.unmatched = 0
        """Of these, those whose ADD was not found so far."""

    def add(self, digest: bytes) -> bool:
        """Add a digest; false: it is there already."""
        group = self._group(digest)
        if _find(group, digest) >= 0:
            return False
        group += digest + b"\0"
        self.count += 1
        self.unmatched += 1
        return True

    def match(self, digest: bytes) -> bool | None:
        """Note that an ADD has a digest; `None`: no DELETE has it. False: an earlier ADD had it, too."""
        group = self._group(digest)
        position = _find(group, digest)
        if position < 0:
            return None
        if group[position + SIZE]:
            return False
        group[position + SIZE] = 1
        self.unmatched -= 1
        return True

    def __contains__(self, digest: bytes) -> bool:
        return _find(self._group(digest), digest) >= 0

    def is_matched(self, digest: bytes) -> bool:
        """Tell whether the ADD of a digest that is there was found."""
        group = self._group(digest)
        return group[_find(group, digest) + SIZE] == 1

    def overlaps(self, digests: Iterable[bytes]) -> bool:
        """Tell whether any of some digests is there."""
        return any(digest in self for digest in digests)

    def _group(self, digest: bytes) -> bytearray:
        return self._groups[digest[0] << 4 | digest[1] >> 4]


def _find(group: bytearray, digest: bytes) -> int:
    """Return the position of a digest, -1 if it is not there. The same bytes between two digests do not count."""
    position = group.find(digest)
    while position > 0 and position % _STRIDE:
        position = group.find(digest, position + 1)
    return position
