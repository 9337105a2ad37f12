"""The roots that come back when a branch rewrite is undone, and whether each of them is complete.

Orphan scans delete files that no root names once they are old enough, so some files may be lost for good.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.branch_rewrites.schema_needs import schema_id
from lakesweep.execute.planned_roots import roots_to_write
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.model.plan import Action, Put, to_bytes
from lakesweep.model.roots import BranchListing, Root
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.branches.target_files import COUNTED, describe_lost
from lakesweep.operations.undo.undone_run import UndoneRun
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_schema
from lakesweep.table.outside_files import OutsideFiles
from lakesweep.table.reach.completeness import lost_files

_ABSENT = "would_stay_absent"


def returning_roots(run: UndoneRun, table: Table, own: BranchListing, way_back: Sequence[Action]) -> tuple[Root, ...]:
    """Return the roots that come back. All of them have the files that they need.

    Args:
        run: The run to undo.
        table: With a store without a cache, since cached files may be gone.
        own: The branch that the run rewrote, as it is now.
        way_back: The actions that undo the run.

    Raises:
        RefusedError: A root lacks a file: `would_stay_absent`.
        StorageError: A request failed.
    """
    try:
        coming = tuple(roots_to_write(run.branch, way_back))
    except FormatError as error:
        raise _damaged(run, error) from error
    schemas, latest = _schemas(run, table, own, way_back)
    folder = f"{branch_dir(run.branch)}schema/schema-"
    wanted = {root.snapshot.schema_id for root in coming}
    lost = [f"{folder}{number}" for number in sorted(wanted - schemas)]
    if latest is not None and not lost:
        outside = OutsideFiles(table.store, table.open_store)
        lost += lost_files(table.store, latest, coming, COUNTED, outside)
    if lost:
        raise run.refusal(
            _ABSENT,
            f"the returning roots have lost {describe_lost(lost)}; undo the run of remove_orphan_files that deleted "
            "them first, if the bucket keeps versions",
        )
    return coming


def _schemas(
    run: UndoneRun, table: Table, own: BranchListing, way_back: Iterable[Action]
) -> tuple[frozenset[int], TableSchema | None]:
    """Return the schemas that the branch will have, and the latest of them; `None` if it will have no schema."""
    there = {schema_id(document.path) for document in own.schemas}
    bodies: dict[int, Put] = {}
    for action in way_back:
        if action.kind == "schema" and isinstance(action, Put):
            bodies[schema_id(action.path)] = action
        elif action.kind == "schema":
            there.discard(schema_id(action.path))
    there |= bodies.keys()
    if not there:
        return frozenset(), None
    put = bodies.get(max(there))
    if put is not None:
        try:
            return frozenset(there), parse_schema(to_bytes(put.body), put.path)
        except FormatError as error:
            raise _damaged(run, error) from error
    kept = tuple(each for each in own.schemas if schema_id(each.path) in there)
    return frozenset(there), read_schema(table.store, replace(own, schemas=kept))


def _damaged(run: UndoneRun, error: FormatError) -> RefusedError:
    return run.refusal(_ABSENT, f"{error}; expected every returning document to be intact")
