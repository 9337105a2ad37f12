"""Read in which versions of a branch the files live that a rollback as latest takes back or gives up."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.model.roots import BranchListing, Root
from lakesweep.operations.branches.rules.lives import Lives
from lakesweep.operations.tags.rules.rollback import staying
from lakesweep.storage.store import Store
from lakesweep.table.contents.difference import FileKey, key_of
from lakesweep.table.documents import read_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.root_files import RootList, lists_of, state_lists


@dataclass(frozen=True, slots=True)
class FileLives:
    """The lives of files, with the index files and other metadata among them that only one version has."""

    lives: Lives[FileKey | str]
    coming: frozenset[str]
    """Index files, index manifests and statistics that the target has and the newest version has not."""
    going: frozenset[str]


def file_lives(
    store: Store,
    own: BranchListing,
    target: Root,
    files: Collection[FileKey],
    *,
    by_delta: bool,
    promised: frozenset[int],
) -> FileLives:
    """Read all snapshots and tags of a branch: each manifest once, and with deletions twice.

    Args:
        store: The table's store.
        own: The branch as it was just listed.
        target: The version that comes back.
        files: The data files in question.
        by_delta: Expiring changelog documents delete what their deltas deleted.
        promised: Snapshots of which an execution first makes tags.

    Raises:
        RefusedError: A snapshot or tag cannot be read, so nobody knows what it has. Or two of one id differ.
        StorageError: A request failed.
    """
    roots = read_roots(store, [*own.snapshots, *own.tags]).roots
    target_id, newest_id = target.snapshot.id, own.snapshots[-1].id
    _refuse_reused_ids(store, [target, *roots])
    wanted = frozenset(files)
    holders, masks, others = _held(store, own.name, roots, wanted)
    ids = tuple(sorted({root.snapshot.id for root in roots if root.snapshot.id <= newest_id}))
    known: dict[int, frozenset[int]] = {}
    for mask in {*masks.values(), *others.values()}:
        known[mask] = frozenset(root.snapshot.id for root in holders.roots_in(mask))
    held: dict[FileKey | str, frozenset[int]] = {key: known[mask] for key, mask in masks.items()}
    held.update((name, known[mask]) for name, mask in others.items())
    tagged = staying(roots) | promised | {target_id}
    asked = {root.snapshot.id for root in roots if root.ref.kind == "tag"} | {target_id}
    deleted = _deleted_before(store, own, target_id, wanted, by_delta=by_delta)
    return FileLives(
        Lives(ids, tagged, held, deleted, frozenset(asked)),
        frozenset(name for name in others if target_id in held[name] and newest_id not in held[name]),
        frozenset(name for name in others if newest_id in held[name] and target_id not in held[name]),
    )


def first_ids(store: Store, branch: BranchListing, files: Collection[FileKey | str]) -> dict[FileKey | str, int]:
    """Return the first snapshot of another branch that has each of some files.

    Raises:
        RefusedError: A snapshot cannot be read.
        StorageError: A request failed.
    """
    roots = read_roots(store, branch.snapshots).roots
    wanted = frozenset(file for file in files if not isinstance(file, str))
    holders, masks, others = _held(store, branch.name, roots, wanted)
    named = ((name, mask) for name, mask in others.items() if name in files)
    found: list[tuple[FileKey | str, int]] = [*masks.items(), *named]
    return {file: min(root.snapshot.id for root in holders.roots_in(mask)) for file, mask in found if mask}


def _held(
    store: Store, branch: str, roots: Sequence[Root], wanted: frozenset[FileKey]
) -> tuple[Holders, dict[FileKey, int], dict[str, int]]:
    """Return which of some roots of a branch have each data file that is wanted, and each other file."""

    def refuse(content: Unreadable) -> RefusedError:
        return RefusedError(
            f"table {store.location}: {content.problem}; expected to read every snapshot and tag of branch {branch} "
            "before deleted files come back, since Paimon's expiry goes by them",
            code="unreadable_root",
        )

    holders = Holders(MetadataReader(store, again=True), roots, state_lists, refuse)
    masks: dict[FileKey, int] = {}
    for mention in holders.mentions(lambda entry: key_of(entry) in wanted):
        if mention.needed_by:
            key = key_of(mention.entry)
            masks[key] = masks.get(key, 0) | mention.needed_by
    others: dict[str, int] = {}
    for index in holders.indexes():
        others[index.entry.file_name] = others.get(index.entry.file_name, 0) | index.needed_by
    for named in holders.named():
        if named.kind in ("index_manifest", "statistics"):
            others[named.name] = named.needed_by
    return holders, masks, others


def _refuse_reused_ids(store: Store, roots: Collection[Root]) -> None:
    """Refuse two versions of one id that differ, as after a rollback: ids say nothing about their order then."""
    known: dict[int, Root] = {}
    for root in roots:
        other = known.setdefault(root.snapshot.id, root)
        if _lists(other) != _lists(root):
            raise RefusedError(
                f"table {store.location}: {root.ref} and {other.ref} are different versions of snapshot "
                f"{root.snapshot.id}; expected one version of each id",
                code="id_reused",
            )


def _lists(root: Root) -> tuple[str, str]:
    return root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list


def _deleted_before(
    store: Store, own: BranchListing, target_id: int, files: frozenset[FileKey], *, by_delta: bool
) -> frozenset[FileKey]:
    """Return the files that a changelog document of the target or from before it deletes when it expires."""
    refs = [ref for ref in own.changelogs if ref.id <= target_id] if by_delta else []
    roots = [root for root in read_roots(store, refs).roots if root.snapshot.changelog_manifest_list is None]
    if not roots:
        return frozenset()
    holders = Holders(MetadataReader(store), roots, _deltas)

    def taken_out(entries: Iterator[ManifestEntry]) -> set[FileKey]:
        """Return what leaves the table; a file that only changes its level is added again."""
        found: dict[bool, set[FileKey]] = {True: set(), False: set()}
        for entry in entries:
            if (key := key_of(entry)) in files:
                found[entry.is_add].add(key)
        return found[False] - found[True]

    found = frozenset(name for _, taken in holders.scan(taken_out) for name in taken)
    for content in holders.unreadable:
        if not content.missing:
            raise RefusedError(
                f"table {store.location}: {content.problem}; expected to read every changelog before deleted files "
                "come back, since its expiry may delete them",
                code="unreadable_root",
            )
    return found


def _deltas(root: Root) -> Iterator[RootList]:
    return (each for each in lists_of(root) if each.field == "delta")
