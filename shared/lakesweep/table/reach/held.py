"""The values that the visitor yields: files with the roots that name or need them, and documents that it cannot read.

A set of roots is a number with one bit for each root (`Holders.roots_in`).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lakesweep.format.manifest import IndexEntry, ManifestEntry, ManifestMeta
from lakesweep.model.roots import Part, Root
from lakesweep.table.metadata import Unreadable
from lakesweep.table.reach.root_files import RootList

NamedKind = Literal["manifest_list", "manifest", "index_manifest", "statistics"]


class Named(NamedTuple):
    """A file that the documents and lists of roots name."""

    kind: NamedKind
    name: str
    size_bytes: int | None
    """As a document or list states it."""
    named_by: int
    needed_by: int

    @property
    def path(self) -> str:
        """Return its path."""
        return f"{'statistics' if self.kind == 'statistics' else 'manifest'}/{self.name}"


class NamedIndex(NamedTuple):
    """An index file that the index manifests of roots name."""

    entry: IndexEntry
    named_by: int
    needed_by: int


class Unread(NamedTuple):
    """A document that a root names and that could not be read."""

    root: Root
    part: Part
    content: Unreadable


class Mention(NamedTuple):
    """One entry of one manifest."""

    entry: ManifestEntry
    named_by: int
    needed_by: int
    is_change: bool = False
    """The manifest belongs to a changelog list."""
    manifest: str = ""
    """Its name."""


@dataclass(slots=True)
class ManifestHolders:
    """A manifest, and the roots that hold it, by the entries that they use."""

    meta: ManifestMeta
    in_state: int = 0
    """Roots whose base or delta names it."""
    in_changelog: int = 0
    """Roots whose changelog list names it."""
    state: int = 0
    """Roots whose files are the additions of manifests without the deletions."""
    changes: int = 0
    """Roots to which every addition in it is a readable change."""
    replay: int = 0
    """Changelog documents without their own list. Files that a commit wrote count; files of compaction do not."""
    needed: int = 0
    """Roots whose readers open it."""

    @property
    def named(self) -> int:
        """Return the roots that name it."""
        return self.in_state | self.in_changelog

    def add(self, root: Root, bit: int, each: RootList) -> None:
        """Note that a list of a root names it."""
        if each.is_needed:
            self.needed |= bit
        if each.field == "changelog":
            self.in_changelog |= bit
            if each.is_needed:
                self.changes |= bit
            return
        self.in_state |= bit
        if root.ref.kind != "changelog":
            self.state |= bit
        elif each.is_needed and each.field == "delta":
            self.replay |= bit
