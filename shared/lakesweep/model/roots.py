"""Tables, their roots, and facts about the files of roots.

A *root* is a snapshot, a tag or a long-lived changelog of any branch. All branches share the folders of data files,
manifests, index files and statistics. So a file may be deleted only if no root of *any* branch needs it.

A file is *freed* if only expiring snapshots hold it by Paimon's rules. It is *referenced* if a remaining root names it.
Names are compared without their folder, because they contain UUIDs and a computed path may differ from the real one. So
equal names can only keep garbage.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.errors import UsageError
from lakesweep.format.snapshot import Snapshot

MAIN = "main"
"""The branch whose documents lie directly below the table's root."""
_OF_BRANCH = re.compile(r"(?P<table>.+)/branch/branch-(?P<name>[^/]+)", re.DOTALL)
"""The folder of a branch."""
_NUMBERED = re.compile(
    r"branch/branch-(.+)/((?:snapshot/(?:snapshot-[0-9]+|EARLIEST|LATEST)"
    r"|changelog/(?:changelog-[0-9]+|EARLIEST|LATEST)|schema/schema-[0-9]+))",
    re.DOTALL,
)
_NAMED = re.compile(r"branch/branch-(.+?)/((?:tag|consumer)/(?:tag|consumer)-.+)", re.DOTALL)
"""A branch `a/snapshot` has its snapshots below `branch/branch-a/snapshot/snapshot/`."""

RootKind = Literal["snapshot", "tag", "changelog"]

FileKind = Literal["data", "extra", "changelog", "index", "index_manifest", "manifest", "manifest_list", "statistics"]

Part = Literal["state", "index", "changelog"]
"""The part of a root that a list or index manifest leads to: its data files, its index files, its changelog files."""

DATA_KINDS = frozenset({"data", "extra", "changelog"})
"""Kinds that manifests name."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table by its location.

    The location is normalised (`s3://bucket/prefix` or an absolute path, no trailing slash). So one table has one name,
    and two maintainers meet at one lease.
    """

    location: str
    branch: str = MAIN

    def __str__(self) -> str:
        return self.location if self.branch == MAIN else f"{self.location}$branch_{self.branch}"


def branch_dir(branch: str) -> str:
    """Return the folder of a branch's own documents, relative to the table root, `""` for main."""
    return "" if branch == MAIN else f"branch/branch-{branch}/"


def split_branch(path: str) -> tuple[str, str] | None:
    """Return the branch of a document, and the document's path below the branch's folder.

    `None`: it belongs to main, or is no snapshot, changelog, schema, tag, consumer or hint.
    """
    match = _NUMBERED.fullmatch(path) or _NAMED.fullmatch(path)
    return None if match is None else (match[1], match[2])


def check_whole(location: str) -> None:
    """Refuse the folder of a branch as a table: it looks like a table that has lost its files.

    A run on this folder would not meet the table's other maintainers at one lease.

    Args:
        location: The normalised location from the caller.

    Raises:
        UsageError: It is the folder of a branch.
    """
    if found := _OF_BRANCH.fullmatch(location):
        raise UsageError(
            f"{location}: expected a table, found the folder of its branch {found['name']!r}; give the table, "
            f"{found['table']}, and the branch by name"
        )


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
    modified_ms: int = field(default=0, compare=False)
    """When the store wrote it, if a listing showed it."""

    @property
    def id(self) -> int:
        """Return the snapshot id from the file name; the document of a tag contains its id."""
        return int(self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.branch == MAIN else f" of branch {self.branch}")


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
