"""Check that every file exists that the documents of a branch rewrite need.

A run checks before it writes the documents, unless its call has just made the plan and checked then. It checks again
when the documents are in place. `incomplete.py` checks the documents that compensation restores.
"""

from collections.abc import Callable, Iterable, Sequence

from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.branch_rewrites.observation import BranchObservation
from lakesweep.execute.planned_roots import ROOT_KINDS, Schemas, roots_to_write, schema_id, schemas_after
from lakesweep.model.plan import branch_of
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.outside_files import OutsideFiles
from lakesweep.table.reach.completeness import lost_files


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
