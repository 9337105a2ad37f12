"""Is everything there that the documents of a move need?

Asked before a run writes them, unless the call has just made the plan and asked then; and when they are in their place.
Of those that are to return asks `hollow.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.ground import Ground
from lakesweep.execute.planned_roots import ROOT_KINDS, roots_to_write
from lakesweep.execute.schema_needs import schema_id
from lakesweep.execute.spine import Environment
from lakesweep.execute.standing import bytes_of
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.model.plan import Put, branch_of
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.table.completeness import lost_files
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.outside_files import OutsideFiles


def lost_ahead(env: Environment, ground: Ground, check: Callable[[], None] = lambda: None) -> tuple[str, ...]:
    """Return what is missing of the roots that a plan has still to write, and of those on which it is to end.

    All that comes is asked for, old snapshots as well: what is not there yet, no expiry has a reason to take files of.
    But whoever looks for orphans while no run is under way finds that nothing refers to them.

    Args:
        env: Of the execution.
        ground: As it was just looked at.
        check: Called now and then, since all objects of the table are listed; raises when the lease is lost.

    Returns:
        Paths and sentences. Nothing when all is there, and without a request when the plan is through with all roots.

    Raises:
        StorageError: A request failed, so nobody knows.
    """
    left = [ground.plan.actions[number] for number in ground.pending]
    if not any(action.kind in ROOT_KINDS for action in left):
        return ()
    changing = {action.path for action in left}
    whole = {*_whole(ground)} - changing
    there = [ref for ref in ground.own.roots() if ref.path in whole]
    try:
        coming = tuple(roots_to_write(ground.own.name, left))
        schemas = _schemas_in_the_end(env, ground)
        roots = (*coming, *read_roots(env.stores.table, there).roots)
    except (FormatError, RefusedError) as error:
        return (str(error),)
    return _lost_of(env, ground.own.name, roots, schemas, _outside(env), check) if roots else ()


def lost_of(env: Environment, ground: Ground, check: Callable[[], None] = lambda: None) -> tuple[str, ...]:
    """Return what is missing of the roots that a plan names as `whole`: paths and sentences, nothing when all is there.

    Args:
        env: Of the execution.
        ground: As it was just looked at.
        check: Called now and then, since all objects of the table are listed; raises when the lease is lost.

    Raises:
        StorageError: A request failed, so nobody knows.
    """
    wanted = _whole(ground)
    refs = {ref.path: ref for ref in ground.listing.roots()}
    missing = tuple(path for path in wanted if path not in refs)
    if missing:
        return missing
    by_branch: dict[str, list[RootRef]] = {}
    for path in wanted:
        by_branch.setdefault(branch_of(path), []).append(refs[path])
    outside = _outside(env)
    return tuple(each for name, group in by_branch.items() for each in _lost(env, ground, name, group, outside, check))


def _whole(ground: Ground) -> tuple[str, ...]:
    """Return the paths of the roots that must be whole in the end."""
    whole = ground.plan.header.findings.get("whole")
    return tuple(map(str, whole)) if isinstance(whole, list) else ()


@dataclass(frozen=True, slots=True)
class _Schemas:
    """Those of a branch."""

    ids: frozenset[int]
    latest: TableSchema | None
    """`None`: there are none."""


def _schemas_in_the_end(env: Environment, ground: Ground) -> _Schemas:
    """Return the schemas that the branch is to have when the plan is carried out.

    Raises:
        FormatError: One that the plan writes is none.
        RefusedError: One that is there is none.
    """
    own = ground.own
    last = {action.path: action for action in ground.plan.actions if action.kind == "schema"}
    coming = {schema_id(path): action for path, action in last.items() if isinstance(action, Put)}
    kept = tuple(document for document in own.schemas if document.path not in last)
    ids = frozenset(coming) | {schema_id(document.path) for document in kept}
    newest = coming.get(max(ids, default=-1))
    if newest is not None:
        return _Schemas(ids, parse_schema(bytes_of(newest) or b"", newest.path))
    return _Schemas(ids, read_schema(env.stores.table, replace(own, schemas=kept)) if ids else None)


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
        ids = frozenset(schema_id(document.path) for document in branch.schemas)
        schemas = _Schemas(ids, read_schema(env.stores.table, branch))
        lost = _lost_of(env, name, found.roots, schemas, outside, check)
    except RefusedError as error:
        return (str(error),)
    return (*(ref.path for ref in found.vanished), *lost)


def _lost_of(
    env: Environment,
    name: str,
    roots: Sequence[Root],
    schemas: _Schemas,
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
