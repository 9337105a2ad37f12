"""Write the record of an erasure, fact by fact, and find what a run that died could not write."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.erasures import append, erasure_ids, load_erasure
from lakesweep.control.lease import read_lease
from lakesweep.control.reports import load_report
from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.erasure.record import Changed, Erasure, Fact
from lakesweep.model.report import RunReport
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_roots

COMMITS = ("delete-rows", "compact", "compact-manifest")
"""The operations that take rows out of everything that the newest snapshot names, in their order."""
_DONE = ("done", "nothing_to_do")
_NEWEST = 20
"""So many records are looked at for one that stopped."""


@dataclass(slots=True)
class Recording:
    """The record of one erasure, and its place."""

    area: ControlArea
    erasure: Erasure

    @property
    def next_id(self) -> str:
        """Return the id for the run of the next operation, so that a later run finds what it did."""
        return f"{self.erasure.run_id}-{len(self.erasure.entries) + 1}"

    def add(self, fact: Fact) -> None:
        """Write a fact; see `append`."""
        self.erasure = append(self.area, self.erasure, fact)

    def recover(self, view: TableView) -> None:
        """Write the fact about an operation whose run died after its commit.

        Args:
            view: The table as it is now.

        Raises:
            MaintenanceError: As `append`, or a document is damaged.
        """
        run_id, branch = self.next_id, self.erasure.branch
        try:
            report = load_report(self.area, run_id)["report"]
        except RefusedError:
            record = read_lease(self.area).commits.get(branch)
            if record is None or record.run_id != run_id:
                return
            refs = [ref for ref in view.own.snapshots if ref.id == record.id]
            is_there = any(root.snapshot.uuid == record.uuid for root in read_roots(view.table.store, refs).roots)
            snapshots = (record.id,) if is_there or record.state == "published" else ()
            status = "partial" if snapshots else "unknown"
            self.add(Changed(_after(self.erasure), branch, status, run_id, snapshots, 0, 0, "run_unfinished"))
            return
        self.add(_stored(report, branch, run_id))


def unfinished(area: ControlArea, condition: str) -> tuple[str, ...]:
    """Return a sentence about each earlier erasure of rows by such a condition that has not made all of its commits.

    One whose record is damaged may be such a one. It keeps no other from being made.

    Raises:
        StorageError: A request failed.
    """
    found = []
    for run_id in erasure_ids(area)[-_NEWEST:]:
        try:
            each = load_erasure(area, run_id)
        except (FormatError, RefusedError) as error:
            found.append(f"erasure {run_id} may have stopped before its last commit: {error}")
            continue
        if not is_carried_out(each) and condition in {search.condition for search in each.searches}:
            found.append(
                f"erasure {run_id} of rows by {condition} stopped before its last commit; if it was of the same rows, "
                f"continue it with --finish {run_id}, so that its record is complete"
            )
    return tuple(found)


def check_condition(erasure: Erasure, condition: str) -> None:
    """Make sure that a condition looks at what the record says.

    Raises:
        RefusedError: It does not (`other_condition`).
    """
    said = {each.condition for each in erasure.searches}
    if said and condition not in said:
        raise RefusedError(
            f"table {erasure.table}: erasure {erasure.run_id} is of rows by {', '.join(sorted(said))}, and the "
            f"condition of this call is {condition}; expected the same condition",
            code="other_condition",
        )


def is_carried_out(erasure: Erasure) -> bool:
    """Tell whether each operation that has to commit has ended well."""
    return {each.operation for each in erasure.changes if each.status in _DONE} >= set(COMMITS)


def changed(report: RunReport) -> Changed:
    """Return what the report of an operation says it did."""
    made = () if report.commits is None else report.commits.made
    outcome = report.outcome
    return Changed(
        operation=report.operation,
        branch=str(report.branch),
        status=report.told_status,
        run_id=report.run_id,
        snapshots=tuple(each.snapshot_id for each in made),
        rows=sum(each.rows for each in made),
        files=sum(each.files for each in made) + (0 if outcome is None else outcome.deleted),
        code=None if report.refusal is None else report.refusal.code,
    )


def _after(erasure: Erasure) -> str:
    """Return the operation that follows the last one that ended well."""
    last = next((each.operation for each in reversed(erasure.changes) if each.status in _DONE), None)
    return COMMITS[min(COMMITS.index(last) + 1, len(COMMITS) - 1) if last in COMMITS else 0]


def _stored(report: object, branch: str, run_id: str) -> Changed:
    found: Mapping[str, object] = report if isinstance(report, Mapping) else {}
    commits = found.get("commits")
    made = commits.get("made") if isinstance(commits, Mapping) else None
    parts = [each for each in made if isinstance(each, Mapping)] if isinstance(made, list) else []

    def numbers(name: str) -> list[int]:
        return [number for each in parts if type(number := each.get(name)) is int and number >= 0]

    return Changed(
        operation=str(found.get("operation")),
        branch=branch,
        status=str(found.get("status")),
        run_id=run_id,
        snapshots=tuple(numbers("snapshot_id")),
        rows=sum(numbers("rows")),
        files=sum(numbers("files")),
    )
