"""Is everything there that the documents of a move need? Asked when they are in their place, or are to return."""

from collections.abc import Callable, Iterable

from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.batches import id_of
from lakesweep.execute.ground import Ground
from lakesweep.execute.spine import Environment
from lakesweep.execute.standing import Documents
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.plan import branch_of
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.table.completeness import lost_files
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.outside_files import OutsideFiles


def lost_of(env: Environment, ground: Ground, check: Callable[[], None] = lambda: None) -> tuple[str, ...]:
    """Return what is missing of the roots that a plan names as `whole`: paths and sentences, nothing when all is there.

    Args:
        env: Of the execution.
        ground: As it was just looked at.
        check: Called now and then, since all objects of the table are listed; raises when the lease is lost.

    Raises:
        StorageError: A request failed, so nobody knows.
    """
    whole = ground.plan.header.findings.get("whole")
    wanted = [str(path) for path in whole] if isinstance(whole, list) else []
    refs = {ref.path: ref for ref in ground.listing.roots()}
    missing = tuple(path for path in wanted if path not in refs)
    if missing:
        return missing
    by_branch: dict[str, list[RootRef]] = {}
    for path in wanted:
        by_branch.setdefault(branch_of(path), []).append(refs[path])
    outside = _outside(env)
    return tuple(each for name, group in by_branch.items() for each in _lost(env, ground, name, group, outside, check))


def hollow_snapshots(
    env: Environment, ground: Ground, documents: Documents, check: Callable[[], None] = lambda: None
) -> frozenset[str]:
    """Return the paths of the oldest snapshots that a plan took and that lack files by now, unless none is whole.

    An expiry of the engine takes files before documents, from the oldest snapshot on. What it has begun with is not
    wanted back; but where all of them lack something they are what the table had.

    Where others have expired snapshots meanwhile, tags may keep some of the expired ones whole. So there all of them
    stay away up to the newest one that lacks files.

    Raises:
        StorageError: A request failed, so nobody knows.
    """
    former = _former_snapshots(ground, documents)
    outside = _outside(env)

    def is_whole(path: str, body: bytes) -> bool:
        ref = RootRef(ground.own.name, "snapshot", path.rpartition("-")[2], path, "", len(body))
        try:
            root = Root(ref, parse_snapshot(body, path), body)
            schema = read_schema(env.stores.table, ground.own)
            return not lost_files(env.stores.table, schema, [root], 1, outside, check)
        except (FormatError, RefusedError):
            return False  # it could not be read before, either

    if former and ground.is_expired():
        newest = next((n for n in reversed(range(len(former))) if not is_whole(*former[n])), -1)
        is_below = newest + 1 < len(former) or any(ref.id > id_of(former[-1][0]) for ref in ground.own.snapshots)
        if newest < 0 or is_below:
            return frozenset(path for path, _ in former[: newest + 1])
    oldest = next((n for n, each in enumerate(former) if is_whole(*each)), 0)
    return frozenset(path for path, _ in former[:oldest])


def _former_snapshots(ground: Ground, documents: Documents) -> list[tuple[str, bytes]]:
    """Return the snapshots that a plan has taken or replaced, by path and content, ascending by id."""
    found: dict[str, bytes] = {}
    for number, action in enumerate(ground.plan.actions):
        before = documents.before(number)
        if number in ground.standing.done and action.kind == "snapshot" and before is not None:
            found.setdefault(action.path, before)
    return sorted(found.items(), key=lambda item: id_of(item[0]))


def _lost(
    env: Environment,
    ground: Ground,
    name: str,
    refs: Iterable[RootRef],
    outside: OutsideFiles,
    check: Callable[[], None],
) -> tuple[str, ...]:
    branch = ground.listing.branches.get(name) or BranchListing(name)
    try:
        found = read_roots(env.stores.table, refs)
        known = {document.name for document in branch.schemas}
        schemas = {root.snapshot.schema_id for root in found.roots if str(root.snapshot.schema_id) not in known}
        schema = read_schema(env.stores.table, branch)
        lost = lost_files(env.stores.table, schema, found.roots, outside=outside, check=check)
    except RefusedError as error:
        return (str(error),)
    unknown = tuple(f"schema {schema_id} of branch {name}" for schema_id in sorted(schemas))
    return (*(ref.path for ref in found.vanished), *unknown, *lost)


def _outside(env: Environment) -> OutsideFiles:
    return OutsideFiles(env.stores.table, env.stores.open_store)
