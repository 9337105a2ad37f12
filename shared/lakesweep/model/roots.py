"""Roots: the documents from which a table's files are reachable, as a listing shows them.

A *root* is a snapshot, a tag or a long-lived changelog of any branch. All branches share the folders of data files,
manifests, index files and statistics. So a file may be deleted only if no root of *any* branch needs it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.format.snapshot import Snapshot

RootKind = Literal["snapshot", "tag", "changelog"]


@dataclass(frozen=True, slots=True)
class RootRef:
    """A root as listed, not yet read."""

    branch: str
    kind: RootKind
    name: str
    """The id of a snapshot or changelog, the name of a tag."""
    path: str
    etag: str
    size_bytes: int

    @property
    def id(self) -> int:
        """Return the snapshot id from the file name; the document of a tag contains its id."""
        return int(self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.branch == "main" else f" of branch {self.branch}")


@dataclass(frozen=True, slots=True)
class Root:
    """A root with its document."""

    ref: RootRef
    snapshot: Snapshot
    body: bytes = b""
    """The document itself, so that it can be restored."""


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """Any other small document: a consumer, a schema, a hint."""

    name: str
    path: str
    etag: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class BranchListing:
    """The documents in one branch's folders."""

    name: str
    snapshots: tuple[RootRef, ...] = ()
    """Ascending by id."""
    changelogs: tuple[RootRef, ...] = ()
    """Ascending by id."""
    tags: tuple[RootRef, ...] = ()
    consumers: tuple[DocumentRef, ...] = ()
    schemas: tuple[DocumentRef, ...] = ()
    """Ascending by id."""
    hints: Mapping[str, DocumentRef] = field(default_factory=dict)
    """By path below the branch's folder: `snapshot/LATEST`, `changelog/EARLIEST`, ..."""

    def roots(self) -> Iterator[RootRef]:
        """Yield every root of this branch."""
        yield from self.snapshots
        yield from self.changelogs
        yield from self.tags


@dataclass(frozen=True, slots=True)
class TableListing:
    """All roots of all branches at one moment."""

    branches: Mapping[str, BranchListing]
    links: tuple[str, ...] = ()
    """Symbolic links in the listing; the objects behind them are unknown."""

    def roots(self) -> Iterator[RootRef]:
        """Yield every root of every branch."""
        for branch in self.branches.values():
            yield from branch.roots()

    def etags(self) -> dict[str, str]:
        """Return path -> ETag of every root."""
        return {ref.path: ref.etag for ref in self.roots()}
