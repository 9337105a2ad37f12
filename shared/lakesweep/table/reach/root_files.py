"""The files that each root names directly: its manifest lists, and the manifests in them.

The delta list of most expiring snapshots needs no request. A commit builds its base list from the base and delta of its
predecessor. So if the base list of snapshot n + 1 is the base list of n and more manifests, these are the delta of n.

Lakesweep relies on this only for expiring snapshots, never for remaining roots. If it were wrong (two writers raced a
rollback), other files would be proposed. The remaining roots are asked about each proposed file, so at worst some files
are left behind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.roots import Part, Root
from lakesweep.table.metadata import MetadataReader, Unreadable

ListContent = tuple[ManifestMeta, ...] | Unreadable


class RootList(NamedTuple):
    """A manifest list that a root names."""

    name: str
    size: int | None
    """In bytes, as the root's document states it."""
    rows: int | None
    """The rows that the root's document counts in it."""
    field: Literal["base", "delta", "changelog"]
    is_needed: bool
    """Readers of the root open it."""

    @property
    def part(self) -> Part:
        """Return the part of the root that it leads to."""
        return "changelog" if self.field == "changelog" else "state"


def lists_of(root: Root) -> Iterator[RootList]:
    """Yield every list of a root.

    Readers of changes open the changelog list of a changelog document. If there is none, they replay the delta.
    """
    snapshot = root.snapshot
    total, delta, changelog = snapshot.total_record_count, snapshot.delta_record_count, snapshot.changelog_manifest_list
    base = None if total is None or delta is None else total - delta
    has_state = root.ref.kind != "changelog" or changelog is None
    yield RootList(snapshot.base_manifest_list, snapshot.base_manifest_list_size, base, "base", has_state)
    yield RootList(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, delta, "delta", has_state)
    if changelog is not None:
        size = snapshot.changelog_manifest_list_size
        yield RootList(changelog, size, None, "changelog", root.ref.kind != "tag")


def state_lists(root: Root) -> Iterator[RootList]:
    """Yield the lists that lead to the files of a root's state, or to the files that a changelog's commit added."""
    return (each for each in lists_of(root) if each.is_needed and each.part == "state")


@dataclass(frozen=True, slots=True)
class RootFiles:
    """A root's lists, each as its content or as a value that says why the content is unknown."""

    root: Root
    base: ListContent
    delta: ListContent
    changelog: ListContent | None
    """`None`: the root has no changelog list, or the caller did not ask for it."""

    @property
    def unreadable_lists(self) -> tuple[Unreadable, ...]:
        """Return the base and delta lists that could not be read."""
        return tuple(content for content in (self.base, self.delta) if isinstance(content, Unreadable))

    @property
    def is_bare(self) -> bool:
        """Tell whether this is a changelog whose lists were rightly deleted with its snapshot.

        This is normal for a commit without a changelog, if the writer produces changelog files. Both lists are deleted
        together, so a single missing list is damage.
        """
        return self.root.ref.kind == "changelog" and all(
            isinstance(content, Unreadable) and content.missing for content in (self.base, self.delta)
        )

    def manifests(self) -> tuple[ManifestMeta, ...]:
        """Return the readable manifests of base and delta, in list order."""
        return (*_known(self.base), *_known(self.delta))


FIRST = 1
"""Id of a table's first snapshot. Its base list is empty, so no later list can show its delta."""


def read_root_files(
    reader: MetadataReader,
    roots: Iterable[Root],
    with_changelog: Callable[[Root], bool],
    going: frozenset[str] = frozenset(),
) -> dict[str, RootFiles]:
    """Read the lists of many roots in two rounds; the second is for expiring roots alone.

    Args:
        reader: Where to read.
        roots: Any roots of any branches.
        with_changelog: Tells whether the changelog list of a root is wanted.
        going: Paths of expiring roots, whose delta may be derived from the next base list.

    Returns:
        Path of the root -> its lists.
    """
    roots = tuple(roots)
    first: dict[str, int | None] = {}
    for root in roots:
        snapshot = root.snapshot
        if _has_state(root):
            first[snapshot.base_manifest_list] = snapshot.base_manifest_list_size
            if root.ref.path not in going or snapshot.id == FIRST:
                first[snapshot.delta_manifest_list] = snapshot.delta_manifest_list_size
        if snapshot.changelog_manifest_list is not None and with_changelog(root):
            first[snapshot.changelog_manifest_list] = snapshot.changelog_manifest_list_size
    lists = dict(reader.manifest_lists(first))
    implied = _implied_deltas(roots, lists, going)
    lists |= reader.manifest_lists(
        {
            root.snapshot.delta_manifest_list: root.snapshot.delta_manifest_list_size
            for root in roots
            if root.ref.path in going and _has_state(root) and root.ref.path not in implied
        }
    )

    def files_of(root: Root) -> RootFiles:
        snapshot = root.snapshot
        base: ListContent = ()
        delta: ListContent = ()
        if _has_state(root):
            base = plausible_list(snapshot.base_manifest_list, lists[snapshot.base_manifest_list], _base_rows(snapshot))
            delta = implied.get(root.ref.path) or lists[snapshot.delta_manifest_list]
            delta = plausible_list(snapshot.delta_manifest_list, delta, snapshot.delta_record_count)
        changelog = snapshot.changelog_manifest_list
        return RootFiles(
            root=root,
            base=base,
            delta=delta,
            changelog=lists[changelog] if changelog is not None and with_changelog(root) else None,
        )

    return {root.ref.path: files_of(root) for root in roots}


def _base_rows(snapshot: Snapshot) -> int | None:
    total, delta = snapshot.total_record_count, snapshot.delta_record_count
    return None if total is None or delta is None else total - delta


def plausible_list(name: str, content: ListContent, rows: int | None) -> ListContent:
    """Return a list, or `Unreadable` if it is empty although its snapshot counts rows in it.

    Writers before 1.1 state no size of a list. A list that is cut off between two blocks then reads as a shorter list.
    """
    if content != () or not rows:
        return content
    path = f"manifest/{name}"
    return Unreadable(path, f"{path}: expected manifests of {rows} rows as its root counts, found none", missing=False)


def _has_state(root: Root) -> bool:
    """Tell whether a root has base and delta lists.

    A changelog with its own list has none: they were deleted when its snapshot became a changelog.
    """
    return root.ref.kind != "changelog" or root.snapshot.changelog_manifest_list is None


def _implied_deltas(
    roots: Iterable[Root], bases: Mapping[str, ListContent], going: frozenset[str]
) -> dict[str, tuple[ManifestMeta, ...]]:
    snapshots = {(root.ref.branch, root.snapshot.id): root for root in roots if root.ref.kind == "snapshot"}
    found = {}
    for (branch, snapshot_id), root in snapshots.items():
        successor = snapshots.get((branch, snapshot_id + 1))
        if root.ref.path in going and successor is not None:
            delta = _implied_delta(root, successor, bases)
            if delta is not None:
                found[root.ref.path] = delta
    return found


def _implied_delta(root: Root, successor: Root, bases: Mapping[str, ListContent]) -> tuple[ManifestMeta, ...] | None:
    """Return the delta of `root` if its successor's base list shows it.

    Besides the lists, the row counts must show that the successor was built on this snapshot. If a snapshot has no size
    fields, its lists are read, since the report needs their size.
    """
    ours, theirs = root.snapshot, successor.snapshot
    base, longer = bases[ours.base_manifest_list], bases[theirs.base_manifest_list]
    if isinstance(base, Unreadable) or isinstance(longer, Unreadable) or len(longer) <= len(base) or not base:
        return None  # every list begins like an empty one, also one whose manifests were merged
    if (
        longer[: len(base)] != base
        or ours.delta_manifest_list_size is None
        or ours.total_record_count is None
        or theirs.total_record_count is None
        or theirs.delta_record_count is None
        or theirs.total_record_count - theirs.delta_record_count != ours.total_record_count
    ):
        return None
    return longer[len(base) :]


def _known(content: ListContent) -> tuple[ManifestMeta, ...]:
    return () if isinstance(content, Unreadable) else content
