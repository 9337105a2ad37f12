"""Facts about files: what an expiry would free, and what the roots that stay still need.

A file is *freed* when only expiring snapshots hold it by the engine's rules; it is *referenced* when a root that stays
names it. Names are compared without their folder: they carry UUIDs, and a computed path can differ from the real one,
so a clash of names can only keep garbage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.model.roots import Root

FileKind = Literal["data", "extra", "changelog", "index", "index_manifest", "manifest", "manifest_list", "statistics"]

DATA_KINDS = frozenset({"data", "extra", "changelog"})
"""Kinds that manifests name."""


def base_name(path: str) -> str:
    """Return the last part of a path or URI."""
    return path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Freed:
    """A file that the expiring snapshots would take with them."""

    kind: FileKind
    path: str
    """Relative to the table root, an absolute URI when external."""
    size_bytes: int | None
    reason: str
    owner: str
    """Name of the data file that an extra file goes or stays with; its own name otherwise."""

    @property
    def name(self) -> str:
        """Return the name without its folder."""
        return base_name(self.path)


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that a root names and that could not be read."""

    root: Root
    part: Literal["state", "index", "changelog"]
    """What of the root hangs on it."""
    problem: str
    is_missing: bool
    """It is not there, which of some parts is no damage. Else it is there, and damaged."""


@dataclass(frozen=True, slots=True)
class References:
    """What roots that stay need, as far as it was asked."""

    names: Mapping[str, str] = field(default_factory=dict)
    """File name -> why it stays: `live`, `tagged`, `branch`, `changelog`."""
    unknown: Mapping[FileKind, tuple[str, ...]] = field(default_factory=dict)
    """Kind -> sentences about roots whose files of that kind could not all be read; every such file stays."""
    unreadable_roots: frozenset[str] = frozenset()
    """Paths of those roots."""
    gaps: tuple[Gap, ...] = ()
    """What of them could not be read."""

    def reason_to_keep(self, freed: Freed) -> str | None:
        """Return why `freed` stays, `None` when nothing needs it."""
        if freed.kind in self.unknown:
            return "unreadable_root"
        return self.names.get(freed.name) or self.names.get(freed.owner)

    def problems(self) -> Iterator[str]:
        """Yield each sentence about an unreadable root once."""
        yield from dict.fromkeys(sentence for sentences in self.unknown.values() for sentence in sentences)
