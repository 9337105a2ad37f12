"""What a step of a pass that commits goes by: one branch, the call, the fleet policy, and what the last pass left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakesweep.control.state import BranchState
from lakesweep.model.report import RunReport
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.fleet import Ruling
from lakesweep.runs.view import TableView


@dataclass(slots=True)
class BranchPass:
    """One pass over one branch; each step that commits adds its own."""

    view: TableView
    """The branch before the steps."""
    options: Mapping[str, str]
    """Table options for this call."""
    catalog: Catalog
    """What the call declares."""
    ruling: Ruling | None
    is_pass: bool
    """The call is a pass by the table's own options, so the state of the last pass counts."""
    state: Callable[[], BranchState | None]
    """Returns the state of the last pass over this branch."""


def left_undone(report: RunReport, says: str) -> RunReport:
    """Return the report of a step that was refused, as a warning: the pass counts it as nothing to do."""
    why = report.refusal.message if report.refusal else ""
    return replace(report, status="nothing_to_do", refusal=None, warnings=(*report.warnings, f"{why}; {says}"))
