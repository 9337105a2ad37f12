"""The runs that committed: which of them can be undone, and what their report says.

Readers and writers may have gone on from a commit, so no snapshot is withdrawn. Only the deletion of rows is undone: by
another commit, on top.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.reports import load_report, undone_by
from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.codec import is_count
from lakesweep.model.roots import MAIN
from lakesweep.operations.branches.names import check_known_name

_DELETE_ROWS = "delete-rows"


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """A run that deleted rows by one commit."""

    table: str
    run_id: str
    branch: str
    snapshot_id: int
    uuid: str
    """Of that snapshot."""
    base_uuid: str | None
    """Of the snapshot before; `None`: its writer gave none."""
    catalog: str | None
    """The type of the catalog that was declared for the run."""
    undone_by: str | None

    def refusal(self, code: str, what: str) -> RefusedError:
        """Return the error for a run that cannot be undone."""
        return RefusedError(
            f"table {self.table}, branch {self.branch}: run {self.run_id} cannot be undone: {what}", code=code
        )


def committed_by(area: ControlArea, run_id: str) -> DeletedRows | None:
    """Return what a run committed; `None`: nothing.

    Raises:
        RefusedError: It committed, and not the deletion of rows (`not_undoable`), or has no report (`no_such_run`).
        FormatError: Its report is damaged.
    """
    report = load_report(area, run_id).get("report")
    commits = report.get("commits") if isinstance(report, dict) else None
    made = commits.get("made") if isinstance(commits, dict) else None
    if not isinstance(report, dict) or not isinstance(commits, dict) or not isinstance(made, list) or not made:
        return None
    first = made[0] if isinstance(made[0], dict) else {}
    snapshot_id = first.get("snapshot_id")
    if not isinstance(snapshot_id, int):
        return None
    if report.get("operation") == _DELETE_ROWS:
        return _deleted_rows(area, run_id, report, commits, made[-1])
    raise RefusedError(
        f"table {area.table}: run {run_id} cannot be undone: it committed snapshot {snapshot_id}, and deleted nothing; "
        f"lakesweep rollback TABLE --as-latest --snapshot {snapshot_id - 1} commits the version before it again, and "
        "without --as-latest withdraws every later commit",
        code="not_undoable",
    )


def _deleted_rows(
    area: ControlArea, run_id: str, report: Mapping[str, object], commits: Mapping[str, object], made: object
) -> DeletedRows:
    made = made if isinstance(made, dict) else {}
    branch, snapshot_id, uuid = report.get("branch"), made.get("snapshot_id"), made.get("uuid")
    base_uuid, catalog = commits.get("base_uuid"), commits.get("catalog")
    if (
        not isinstance(branch, str)
        or not is_count(snapshot_id)
        or not isinstance(uuid, str)
        or not isinstance(base_uuid, str | None)
        or not isinstance(catalog, str | None)
    ):
        raise FormatError(
            f"{area.path(f'reports/{run_id}.json')}: expected a branch, and a commit with snapshot_id and uuid"
        )
    if commits.get("rewritten") is not None:
        raise RefusedError(
            f"table {area.table}: run {run_id} cannot be undone. It rewrote data files, and only the former ones have "
            "the rows, which Paimon's expiry deletes. To go back, run lakesweep rollback TABLE --as-latest --snapshot "
            f"{snapshot_id - 1}; it also takes back what was committed since",
            code="files_rewritten",
        )
    try:
        if branch != MAIN:
            check_known_name(branch)
    except UsageError as error:
        raise FormatError(f"{area.path(f'reports/{run_id}.json')}: {error}") from error
    return DeletedRows(area.table, run_id, branch, snapshot_id, uuid, base_uuid, catalog, undone_by(area, run_id))
