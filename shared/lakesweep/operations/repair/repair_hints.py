"""`repair-hints`: correct `LATEST` and `EARLIEST` of a branch where they say something wrong.

Each hint is replaced only while it is the document that the plan saw. The execution lists the branch again under the
lease, and waits while `LATEST` may be the beginning of a rollback. So a commit or a rollback meanwhile ends the plan.

A `LATEST` above the newest snapshot may be the only trace of lost ones. So a person has to confirm that plan by its id.
"""

from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError
from lakesweep.format.documents import parse_hint
from lakesweep.model.damage import lost_history
from lakesweep.model.plan import Plan, Put
from lakesweep.model.roots import branch_dir
from lakesweep.operations.repair.existence import Existence, unknown
from lakesweep.operations.repair.hints import WHY, Hint, WrongHint, follows_gap, wrong_hints
from lakesweep.operations.repair.lists import NOT_REPAIRABLE
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

OPERATION = "repair-hints"


def plan_repair_hints(table: Table) -> Plan:
    """Plan the correction of a branch's hints. A plan without actions means that there is nothing to do.

    Args:
        table: One branch of a table.

    Raises:
        RefusedError: This is no table, all snapshots are lost, or the listing lacks one that exists.
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
    ahead = [each for each in wrong if each.is_ahead]
    for each in ahead:
        _refuse_unlisted(table, view, each)
    kept = [hint for hint in hints if hint.path == "snapshot/EARLIEST" and follows_gap(hint.value, ids["snapshot"])]
    return view.plan(
        [
            Put("hints", "hint", _path(view, each), str(each.right), f"it says {_says(each.hint)}", etag=each.hint.etag)
            for each in wrong
        ],
        inputs_of(view.own, {}),
        needs_confirmation=bool(ahead),
        warnings=[
            *(
                f"{_path(view, each)} names {each.hint.value}, but the newest is {each.right}. Either later ones are "
                f"lost, and can only be restored, or the hint is wrong; confirm the plan to write {each.right}"
                for each in ahead
            ),
            *(
                f"{branch_dir(view.own.name)}{hint.path} names {hint.value}, the first snapshot after a gap; Paimon's "
                "repair_earliest_snapshot writes such a hint, so it stays. lakesweep expire-snapshots closes the gap"
                for hint in kept
            ),
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


def _refuse_unlisted(table: Table, view: TableView, each: WrongHint) -> None:
    """Make sure that the snapshot which a hint names does not exist: a listing may lack it.

    Raises:
        RefusedError: It exists, or the store does not say.
    """
    kind = each.hint.path.partition("/")[0]
    path = f"{branch_dir(view.own.name)}{kind}/{kind}-{each.hint.value}"
    if path not in Existence(table).absent([path]):
        raise unknown(table, f"{path} exists, and the listing did not show it")


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
