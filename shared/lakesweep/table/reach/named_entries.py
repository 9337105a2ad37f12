"""Entries of manifests as numbers: the compact form of each name when many processes decode.

A hash or the name itself tells which file an entry names. Three more facts show whether a root needs the file: the
entry's manifest, whether the entry adds or deletes, and the values that a deletion must match.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from lakesweep.format.manifest import COMPACT, ManifestEntry
from lakesweep.table.reach.holders import names_of

ADDED, COMPACTED, BY_ROOT = 1, 2, 4
"""Flags: the entry adds the file; compaction wrote the file; a root or list names the file, not a manifest."""


def number_of(name: str) -> int:
    """Return the number that stands for a manifest, or for the values that a deletion must match; never 0."""
    return (
        int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True) or 1
    )


def named_entries(entries: Iterable[ManifestEntry]) -> Iterator[tuple[str, int, int]]:
    """Yield each name of each entry, the number that a deletion must match, and the entry's flags."""
    for entry in entries:
        ident = number_of(repr(entry.identity))
        flags = (ADDED if entry.is_add else 0) | (COMPACTED if entry.file_source == COMPACT else 0)
        for name in names_of(entry):
            yield name, ident, flags
