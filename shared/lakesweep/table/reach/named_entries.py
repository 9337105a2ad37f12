"""The names in the entries of manifests, and their compact form when many processes decode.

A hash or the name itself tells which file an entry names. Three more facts show whether a root needs the file: the
entry's manifest, whether the entry adds or deletes, and the values that a deletion must match.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from lakesweep.format.manifest import COMPACT, EntryNames, IndexEntry, ManifestEntry
from lakesweep.model.roots import base_name
from lakesweep.table.paths import real_name

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


def names_of(entry: ManifestEntry | EntryNames) -> Iterator[str]:
    """Yield every file name that an entry refers to. These are the names that `live_set` counts."""
    yield from data_names(entry)
    yield from entry.extra_files


def data_names(entry: ManifestEntry | EntryNames) -> Iterator[str]:
    """Yield the names of an entry's data or changelog file: its name in the entry, and its real name."""
    yield entry.file_name
    if "$" in entry.file_name:
        yield real_name(entry.file_name)
    if entry.external_path is not None:
        name = base_name(entry.external_path)
        yield name
        yield real_name(name)


def index_names(entry: IndexEntry) -> Iterator[str]:
    """Yield the names of an index file."""
    yield entry.file_name
    if entry.external_path is not None:
        name = base_name(entry.external_path)
        yield name
        yield real_name(name)
