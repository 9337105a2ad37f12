"""The steps of a pass that commit snapshots: partitions expire, then manifests are compacted, and at last data files.

The state of the branch says when each of them has to look at the table again, so most passes have neither.
"""

from collections.abc import Iterator, Mapping, Sequence

from lakesweep.control.state import BranchState
from lakesweep.model.identity import identity_of
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance import files_step, manifest_step, partition_step
from lakesweep.operations.maintenance.files_step import FilesStep
from lakesweep.operations.maintenance.manifest_step import ManifestStep
from lakesweep.operations.maintenance.partition_step import PartitionStep
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.fleet import Ruling
from lakesweep.runs.pass_notes import CommitNote
from lakesweep.runs.pass_state import known_state
from lakesweep.runs.session import Table
from lakesweep.runs.steps import Step
from lakesweep.runs.view import TableView

COMMIT_STEPS = frozenset({partition_step.OPERATION, manifest_step.OPERATION, files_step.OPERATION})


def commit_for_pass(table: Table, operation: str, ruling: Ruling | None) -> RunReport:
    """Make the commit that a pass in another process has planned.

    Args:
        table: One branch of a table, as it is now.
        operation: The step.
        ruling: What the fleet policy says about the table.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    if operation == manifest_step.OPERATION:
        return manifest_step.compact(table, ruling)
    return partition_step.expire(table, ruling)


class CommitSteps:
    """The steps of one branch that commit, and their results."""

    def __init__(
        self,
        view: TableView,
        options: Mapping[str, str],
        catalog: Catalog,
        ruling: Ruling | None,
        known: BranchState | None,
        *,
        is_pass: bool,
    ) -> None:
        """Prepare the steps.

        Args:
            view: The branch before these steps.
            options: Table options for this call.
            catalog: What the call declares.
            ruling: What the fleet policy says about the table.
            known: The state of the last pass over this branch, if it was just read.
            is_pass: The call is a pass by the table's own options, so the state of the last pass counts.
        """
        self._view, self._is_pass = view, is_pass
        self._known, self._is_read = known, known is not None
        self._partitions = PartitionStep(view, options, catalog, ruling, is_pass, self._state)
        self._manifests = ManifestStep(view, options, catalog, ruling, is_pass, self._state)
        self._files = FilesStep(view, options, catalog, ruling, is_pass, self._state)

    def steps(self) -> Iterator[Step]:
        """Yield the first steps that are due. The caller must take the report of each step before the next."""
        yield from self._partitions.steps()
        yield from self._manifests.steps()

    def last_steps(self) -> Iterator[Step]:
        """Yield the step that comes after all others, if it is due."""
        yield from self._files.steps()

    def take(self, name: str, report: RunReport) -> RunReport | None:
        """Take the report of a step, and return the report to show; a pass shows it only if it says something."""
        is_silent = report.status == "nothing_to_do" and not report.all_warnings()
        if name == files_step.OPERATION:
            self._files.take(report)
            return None if is_silent else report
        step = self._partitions if name == partition_step.OPERATION else self._manifests
        report = step.take(report)
        is_silent = report.status == "nothing_to_do" and not report.all_warnings()
        return None if is_silent and self._is_pass else report

    def notes(self) -> Sequence[CommitNote]:
        """Return the facts about these steps for the next pass."""
        steps = (self._partitions, self._manifests, self._files)
        return [note for step in steps if (note := step.note()) is not None]

    def _state(self) -> BranchState | None:
        """Return the state of the last pass over this branch, which is read once."""
        if not self._is_read:
            self._known, self._is_read = known_state(self._view.table), True
        known = self._known
        if not self._is_pass or known is None or known.identity not in (0, identity_of(self._view.own).number):
            return None  # of a former table, or a former branch
        return known
