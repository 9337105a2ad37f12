"""Facts about files: the files that an expiry would free, and the files that the remaining roots need.

A file is *freed* if only expiring snapshots hold it by Paimon's rules. It is *referenced* if a remaining root names it.
Names are compared without their folder, because they contain UUIDs and a computed path may differ from the real one. So
equal names can only keep garbage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.model.roots import Root

FileKind = Literal["data", "extra", "changelog", "index", "index_manifest", "manifest", "manifest_list", "statistics"]

Part = Literal["state", "index", "changelog"]
"""The part of a root that a list or index manifest leads to: its data files, its index files, its changelog files."""

DATA_KINDS = frozenset({"data", "extra", "changelog"})
"""Kinds that manifests name."""


def base_name(path: str) -> str:
    """Return the last part of a path or URI."""
    return path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Freed:
    """A file that the expiring snapshots would free."""

    kind: FileKind
    path: str
    """Relative to the table root, or an absolute URI for an external file."""
    size_bytes: int | None
    reason: str
    owner: str
    """Name of the data file that an extra file belongs to; otherwise its own name."""

    @property
    def name(self) -> str:
        """Return the name without its folder."""
        return base_name(self.path)


@dataclass(frozen=True, slots=True)
class Gap:
    """A file that a root names and that could not be read."""

    root: Root
    part: Part
    """The part of the root that needs it."""
    problem: str
    is_missing: bool
    """The file does not exist, which is no damage for some parts. Otherwise it exists, and is damaged."""


@dataclass(frozen=True, slots=True)
class References:
    """The needs of the remaining roots, for the files that were asked about."""

    names: Mapping[str, str] = field(default_factory=dict)
    """File name -> why it is kept: `live`, `tagged`, `branch`, `changelog`."""
    unknown: Mapping[FileKind, tuple[str, ...]] = field(default_factory=dict)
    """Kind -> sentences about roots whose files of this kind are not all known; every file of the kind is kept."""
    unreadable_roots: frozenset[str] = frozenset()
    """Paths of these roots."""
    gaps: tuple[Gap, ...] = ()
    """The unreadable files of these roots."""

    def reason_to_keep(self, freed: Freed) -> str | None:
        """Return why `freed` is kept, `None` if no root needs it."""
        if freed.kind in self.unknown:
            return "unreadable_root"
        return self.names.get(freed.name) or self.names.get(freed.owner)

    def problems(self) -> Iterator[str]:
        """Yield each sentence about an unreadable root once."""
        yield from dict.fromkeys(sentence for sentences in self.unknown.values() for sentence in sentences)
