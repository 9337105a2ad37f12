"""`repair-hints`: correct `LATEST` and `EARLIEST` of a branch where they say something wrong.

Each hint is replaced only while it is the document that the plan saw. The execution lists the branch again under the
lease, and waits while `LATEST` may be the beginning of a rollback. So a commit or a rollback meanwhile ends the plan.
"""

from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError
from lakesweep.format.documents import parse_hint
from lakesweep.model.damage import lost_history
from lakesweep.model.plan import Plan, Put
from lakesweep.model.roots import branch_dir
from lakesweep.operations.repair.hints import WHY, Hint, WrongHint, follows_gap, wrong_hints
from lakesweep.operations.repair.lists import NOT_REPAIRABLE
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

OPERATION = "repair-hints"


def plan_repair_hints(table: Table, accept_loss: bool) -> Plan:
    """Plan the correction of a branch's hints. A plan without actions means that there is nothing to do.

    Args:
        table: One branch of a table.
        accept_loss: A LATEST above the newest snapshot may be corrected, though it may be the trace of lost snapshots.

    Raises:
        RefusedError: This is no table, or snapshots may be lost.
        StalePlanError: A hint changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION)
    why = lost_history(view.own)
    if why is not None:
        raise RefusedError(f"table {table.ref}: {why}; a hint cannot help (lakesweep check TABLE)", code=NOT_REPAIRABLE)
    ids = {
        "snapshot": [ref.id for ref in view.own.snapshots],
        "changelog": [ref.id for ref in view.own.changelogs],
    }
    hints = [_read(view, path) for path in sorted(view.own.hints)]
    wrong = tuple(wrong_hints(hints, ids))
    for each in wrong:
        if each.is_ahead and not accept_loss:
            raise RefusedError(
                f"table {table.ref}: {_path(view, each)} names {each.hint.value}, but the newest is {each.right}. "
                "Either later ones are lost, and can only be restored, or the hint is wrong; state accept_loss to "
                f"write {each.right}",
                code="lost_snapshots",
            )
    kept = [hint for hint in hints if hint.path == "snapshot/EARLIEST" and follows_gap(hint.value, ids["snapshot"])]
    return view.plan(
        [
            Put("hints", "hint", _path(view, each), str(each.right), f"it says {_says(each.hint)}", etag=each.hint.etag)
            for each in wrong
        ],
        inputs_of(view.own, stated(accept_loss=accept_loss)),
        warnings=[
            f"{branch_dir(view.own.name)}{hint.path} names {hint.value}, the first snapshot after a gap; Paimon's "
            "repair_earliest_snapshot writes such a hint, so it stays. lakesweep expire-snapshots closes the gap"
            for hint in kept
        ],
        findings={
            "hints": [
                {
                    "path": _path(view, each),
                    "says": each.hint.value,
                    "right": each.right,
                    "harm": each.harm,
                    "why": WHY[each.harm],
                }
                for each in wrong
            ]
        },
    )


def _path(view: TableView, each: WrongHint) -> str:
    return f"{branch_dir(view.own.name)}{each.hint.path}"


def _says(hint: Hint) -> str:
    return "no id" if hint.value is None else str(hint.value)


def _read(view: TableView, path: str) -> Hint:
    """Read a hint as it was listed.

    Raises:
        StalePlanError: It changed since.
    """
    document, store = view.own.hints[path], view.table.store
    try:
        found = store.read(document.path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError as error:
        raise StalePlanError(f"table {store.location}: {document.path} vanished while the plan was made") from error
    if found.etag != document.etag:
        raise StalePlanError(f"table {store.location}: {document.path} was written while the plan was made")
    return Hint(path, parse_hint(found.data), found.etag)
