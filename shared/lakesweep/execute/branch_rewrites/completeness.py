"""Check that every file exists that the documents of a branch rewrite need.

A run checks before it writes the documents, unless its call has just made the plan and checked then. It checks again
when the documents are in place. Before compensation, it looks for incomplete roots: roots that the plan deleted, that
lack files by now, and that must not return.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import cache

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.batches import ROOT_KINDS, id_of
from lakesweep.execute.branch_rewrites.observation import BranchObservation
from lakesweep.execute.branch_rewrites.progress import Documents
from lakesweep.execute.planned_roots import Schemas, root_of, roots_to_write, schema_id, schemas_after
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.plan import Put, branch_of
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots, read_schema
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.completeness import lost_files
from lakesweep.table.reach.root_files import RootFiles, read_root_files
from lakesweep.table.stores import OutsideFiles


def lost_ahead(
    env: Environment, observation: BranchObservation, check: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    """Return what is missing of the roots that a plan has yet to write, and of the roots that it must leave complete.

    All roots to write are checked, old snapshots as well. No expiry has a reason to delete files of a root that does
    not exist yet. But an orphan scan between two runs finds that nothing refers to these files.

    Args:
        env: Of the execution.
        observation: What the last recheck found.
        check: Called now and then, since all objects of the table are listed; raises when the lease is lost.

    Returns:
        Paths and sentences. Empty when nothing is missing. No request is sent when all roots are already written.

    Raises:
        StorageError: A request failed, so the answer is not known.
    """
    left = [observation.plan.actions[number] for number in observation.pending]
    if not any(action.kind in ROOT_KINDS for action in left):
        return ()
    changing = {action.path for action in left}
    whole = {*(observation.plan.header.steering.complete_roots or ())} - changing
    there = [ref for ref in observation.own.roots() if ref.path in whole]
    try:
        coming = tuple(roots_to_write(observation.own.name, left))
        schemas = schemas_after(env.stores.table, observation.own, observation.plan.actions)
        roots = (*coming, *read_roots(env.stores.table, there).roots)
    except (FormatError, RefusedError) as error:
        return (str(error),)
    return _lost_of(env, observation.own.name, roots, schemas, _outside(env), check) if roots else ()


def lost_of(
    env: Environment, observation: BranchObservation, check: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    """Return what is missing of the roots that a plan must leave complete: paths and sentences, empty when all exist.

    Args:
        env: Of the execution.
        observation: What the last recheck found.
        check: Called now and then, since all objects of the table are listed; raises when the lease is lost.

    Raises:
        StorageError: A request failed, so the answer is not known.
    """
    wanted = observation.plan.header.steering.complete_roots or ()
    refs = {ref.path: ref for ref in observation.listing.roots()}
    missing = tuple(path for path in wanted if path not in refs)
    if missing:
        return missing
    by_branch: dict[str, list[RootRef]] = {}
    for path in wanted:
        by_branch.setdefault(branch_of(path), []).append(refs[path])
    outside = _outside(env)
    return tuple(
        each for name, group in by_branch.items() for each in _lost(env, observation, name, group, outside, check)
    )


def _lost(
    env: Environment,
    observation: BranchObservation,
    name: str,
    refs: Iterable[RootRef],
    outside: OutsideFiles,
    check: Callable[[], None],
) -> tuple[str, ...]:
    branch = observation.listing.branches.get(name) or BranchListing(name)
    try:
        found = read_roots(env.stores.table, refs)
        ids = frozenset(schema_id(document.path) for document in branch.schemas)
        schemas = Schemas(ids, read_schema(env.stores.table, branch))
        lost = _lost_of(env, name, found.roots, schemas, outside, check)
    except RefusedError as error:
        return (str(error),)
    return (*(ref.path for ref in found.vanished), *lost)


def _lost_of(
    env: Environment,
    name: str,
    roots: Sequence[Root],
    schemas: Schemas,
    outside: OutsideFiles,
    check: Callable[[], None],
) -> tuple[str, ...]:
    unknown = sorted({root.snapshot.schema_id for root in roots} - schemas.ids)
    sentences = tuple(f"schema {number} of branch {name}" for number in unknown)
    if schemas.latest is None:
        return sentences
    return (*sentences, *lost_files(env.stores.table, schemas.latest, roots, outside=outside, check=check))


def _outside(env: Environment) -> OutsideFiles:
    return OutsideFiles(env.stores.table, env.stores.open_store)


def incomplete_snapshots(
    env: Environment,
    observation: BranchObservation,
    documents: Documents,
    check: Callable[[], None] = lambda: None,
    *,
    goes_on: bool = False,
) -> frozenset[str]:
    """Return the paths of snapshots that a plan deleted, that lack files by now, and that therefore must not return.

    These are the oldest snapshots, unless none is complete. Paimon's expiry deletes files before documents, from the
    oldest snapshot on. A snapshot that Paimon has begun to expire must not return. If every snapshot lacks files,
    Lakesweep restores them all: they are what the table had.

    Others may have expired snapshots in the meantime. Then tags may keep some of the expired snapshots complete, so no
    snapshot returns up to the newest one that lacks files.

    Between two runs of the plan, no root named the files of the deleted snapshots. An orphan scan may have deleted some
    of them. The plan deletes the newest snapshots first. A branch is unreadable at an incomplete newest snapshot. So
    the newest snapshots do not return if an older complete snapshot is left.

    Args:
        env: Of the execution.
        observation: What the last recheck found.
        documents: Of the plan.
        check: Called now and then; raises when the lease is lost.
        goes_on: An earlier run of the plan died before the plan ended.

    Raises:
        StorageError: A request failed, so the answer is not known.
    """
    former = sorted(_former(observation, documents, {"snapshot"}).items(), key=lambda item: id_of(item[0]))
    outside = OutsideFiles(env.stores.table, env.stores.open_store)

    @cache
    def is_whole(path: str, body: bytes) -> bool:
        ref = RootRef(observation.own.name, "snapshot", path.rpartition("-")[2], path, "", len(body))
        try:
            root = Root(ref, parse_snapshot(body, path), body)
            schema = read_schema(env.stores.table, observation.own)
            return not lost_files(env.stores.table, schema, [root], 1, outside, check)
        except (FormatError, RefusedError):
            return True  # it was unreadable before, and not because of deleted files

    newest_ones = _newest_ones(env, observation, former, is_whole) if goes_on else frozenset()
    if former and observation.is_expired():
        newest = next((n for n in reversed(range(len(former))) if not is_whole(*former[n])), -1)
        is_below = newest + 1 < len(former) or any(ref.id > id_of(former[-1][0]) for ref in observation.own.snapshots)
        if newest < 0 or is_below:
            return frozenset(path for path, _ in former[: newest + 1])
    oldest = next((n for n, each in enumerate(former) if is_whole(*each)), 0)
    return frozenset(path for path, _ in former[:oldest]) | newest_ones


def _newest_ones(
    env: Environment,
    observation: BranchObservation,
    former: Sequence[tuple[str, bytes]],
    is_whole: Callable[[str, bytes], bool],
) -> frozenset[str]:
    """Return the newest deleted snapshots that lack files, where a complete one below them exists or returns.

    Returns none where somebody has committed on top of them: that commit needs a predecessor.
    """
    if not former or any(ref.id > id_of(former[-1][0]) for ref in observation.own.snapshots):
        return frozenset()
    last = next((n for n in reversed(range(len(former))) if is_whole(*former[n])), None)
    if last is not None:
        return frozenset(path for path, _ in former[last + 1 :])

    def is_there(ref: RootRef) -> bool:
        try:
            return is_whole(ref.path, env.stores.table.read(ref.path, max_bytes=MAX_DOCUMENT_BYTES).data)
        except ObjectNotFoundError:
            return False

    written = _written(observation)
    staying = [ref for ref in observation.own.snapshots if ref.path not in written and ref.id < id_of(former[0][0])]
    return frozenset(path for path, _ in former) if any(map(is_there, staying[-1:])) else frozenset()


def bare_others(
    env: Environment, observation: BranchObservation, documents: Documents, incomplete: Container[str] = frozenset()
) -> frozenset[str]:
    """Return the paths of deleted tags and changelogs whose manifest lists are gone, so that they are unreadable.

    Called where an earlier run died before the plan ended, and where others seem to have expired snapshots. While a tag
    is away, an expiry deletes its files with its snapshot. A deletion of the tag deletes them too, and so does an
    orphan scan. Nothing tells whether the plan deleted the tag or somebody else did.

    A root that still has its lists returns, damaged or not, so that the other files it names are kept. A tag also
    returns where its snapshot exists or returns.

    Args:
        env: Of the execution.
        observation: What the last recheck found.
        documents: Of the plan.
        incomplete: Paths of snapshots that must not return.

    Raises:
        StorageError: A request failed.
    """
    end_id = min(observation.foreign_ids(), default=None)  # no snapshot returns from this id on
    former = (path for path in _former(observation, documents, {"snapshot"}) if path not in incomplete)
    returning = (path for path in former if end_id is None or id_of(path) < end_id)
    # A snapshot of the same id may be a different one: written by somebody else, or by the plan.
    others = {ref.path for ref in observation.new_roots()} | _written(observation)
    ids = {ref.id for ref in observation.own.snapshots if ref.path not in others} | set(map(id_of, returning))
    roots: list[Root] = []
    for path, body in _former(observation, documents, {"tag", "changelog_document"}).items():
        with suppress(FormatError):  # it was never readable
            root = root_of(observation.own.name, path, body)
            if root.ref.kind == "changelog" or root.snapshot.id not in ids:
                roots.append(root)
    reader = MetadataReader(env.stores.table)
    found = read_root_files(reader, roots, with_changelog=lambda root: root.ref.kind == "changelog")
    return frozenset(path for path, files in found.items() if any(map(_is_missing, _lists_of(files))))


def _written(observation: BranchObservation) -> frozenset[str]:
    """Return the paths of documents that the plan has written."""
    return frozenset(
        action.path
        for number, action in enumerate(observation.plan.actions)
        if number in observation.progress.done and isinstance(action, Put)
    )


def _lists_of(files: RootFiles) -> tuple[object, ...]:
    """Return the lists without which a root is unreadable. A changelog may lack those of its snapshot's state."""
    return (files.changelog,) if files.root.ref.kind == "changelog" else (files.base, files.delta)


def _is_missing(content: object) -> bool:
    return isinstance(content, Unreadable) and content.missing


def _former(observation: BranchObservation, documents: Documents, kinds: Container[str]) -> dict[str, bytes]:
    """Return the documents that the plan has deleted or replaced: path -> former content."""
    found: dict[str, bytes] = {}
    for number, action in enumerate(observation.plan.actions):
        before = documents.before(number)
        if number in observation.progress.done and action.kind in kinds and before is not None:
            found.setdefault(action.path, before)
    return found
