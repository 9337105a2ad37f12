"""What Lakesweep has stored about a table: plans, and the reports of runs."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakesweep.api.arguments import Past, past_ms, required
from lakesweep.api.calling import Caller, Settings, read_document
from lakesweep.api.results import Document

if TYPE_CHECKING:
    from lakesweep.runs.session import Table as OpenedTable


class RecordedTable:
    """A table of which only the history is asked."""

    __slots__ = ("_caller", "_place")

    def __init__(self, place: Settings, caller: Caller) -> None:
        """Name a table; see `Table`."""
        self._place, self._caller = place, caller

    def plans(self, *, limit: int = 50) -> Document:
        """List the newest stored plans below `plans`, newest first."""
        most = required("limit", limit, int)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.api.stored import list_plans

            return list_plans(table, most)

        return self._read(read)

    def stored_plan(self, plan_id: str, *, files: bool = False) -> Document:
        """Show a stored plan, who made it, and below `recheck` whether it still holds.

        Args:
            plan_id: Its id.
            files: Also list below `files` every object that it deletes or writes.
        """
        known = required("plan_id", plan_id, str)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.api.shown import load_shown

            found = load_shown(table, known)
            return found.document() | ({"files": list(found.files())} if files else {})

        return self._read(read)

    def runs(self, *, since: Past | None = None, limit: int = 20) -> Document:
        """List the newest runs that changed the table below `runs`, newest first.

        Args:
            since: Only runs that began since then.
            limit: At most this many.
        """
        most = required("limit", limit, int)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.api.audited import runs_of_table

            return runs_of_table(table, most, past_ms("since", since, table.store.now_ms))

        return self._read(read)

    def report(self, run_id: str) -> Document:
        """Return the report of a run, as it is stored.

        Raises:
            RefusedError: There is no such run, or it has not ended.
        """
        known = required("run_id", run_id, str)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.api.stored import stored_report

            return stored_report(table, known)

        return self._read(read)

    def _read(self, read: Callable[["OpenedTable"], Mapping[str, Any]]) -> Document:
        return read_document(self._caller, self._place, read)
