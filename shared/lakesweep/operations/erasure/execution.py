"""One execution of an erasure: its commits, the expiry of what may expire, and the look at every place."""

from collections.abc import Callable
from dataclasses import replace

from lakesweep.control.erasures import erasure_ids, load_erasure
from lakesweep.control.reports import store_report
from lakesweep.errors import MaintenanceError
from lakesweep.model.commits.erasure import NEVER_SEEN, ROWS_REMAIN, ErasureReport, remaining
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.erasure.places import ErasedFiles, Place
from lakesweep.model.erasure.record import Erasure, Looked, Searched
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.compaction.execution import BINS_LOST
from lakesweep.operations.erasure.arguments import EraseArguments
from lakesweep.operations.erasure.expiry import expire
from lakesweep.operations.erasure.facts import BACK, keys_of, looked, may_be_back, shown, union_of
from lakesweep.operations.erasure.recording import Recording, changed, check_condition, is_carried_out, unfinished
from lakesweep.operations.erasure.task import OPERATION, Task
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compact_manifest import compact_manifest
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.runs.execution import require_area
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.receipts import run_receipt
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin

_ALL = 1 << 62
"""A limit that no table reaches."""
_TIMES = 3
"""How often files are rewritten whose former attempt another writer has overtaken."""
_WELL: tuple[Status, ...] = ("done", "nothing_to_do")


class Execution:
    """One execution."""

    def __init__(
        self, table: Table, arguments: EraseArguments, view: TableView, task: Task | None, begun: Erasure | None
    ) -> None:
        self._table, self._arguments, self._view, self._task = table, arguments, view, task
        self._area = require_area(table)
        self._started_ms = table.store.now_ms()
        self._steps: list[RunReport] = []
        self._made: list[MadeCommit] = []
        self._warnings: list[str] = []
        self._stopped: Refusal | None = None
        """Why a step did not do all that it should; the steps after it are left out."""
        self._is_new = begun is None
        self._id = table.run_id or new_id(self._started_ms)
        if begun is None:
            begun = self._own() or Erasure(self._id, table.ref.location, table.ref.branch)
        self._recording = Recording(self._area, begun)

    @property
    def _is_over(self) -> bool:
        """Tell whether an earlier attempt of this very run has made all commits: rows that came since stay."""
        return self._arguments.finish is None and is_carried_out(self._recording.erasure)

    def _own(self) -> Erasure | None:
        """Return what an earlier attempt of this run has recorded.

        Raises:
            RefusedError: It was of another condition.
        """
        if self._table.run_id is None or self._id not in erasure_ids(self._area):
            return None
        self._is_new = False
        found = load_erasure(self._area, self._id)
        if self._task is not None:
            check_condition(found, str(self._task.where))
        return found

    def report(self) -> RunReport:
        """Erase, and return the report, which is stored unless nothing was found."""
        if not self._is_new:
            self._recording.recover(self._view)
        if self._task is not None and not self._is_over:
            self._warnings += [
                *self._task.allow(),
                *(unfinished(self._area, str(self._task.where)) if self._is_new else ()),
            ]
            if not self._erase(self._task):
                commits = self._shown(())
                return replace(report_of(self._table, OPERATION, "nothing_to_do", None), commits=commits)
        if self._has_failed_at_once():
            return replace(self._steps[-1], operation=OPERATION, commits=self._shown(()), steps=tuple(self._steps))
        if self._arguments.finish is not None and self._stopped is None:
            self._expire()
        return self._ended(self._look())

    def _erase(self, task: Task) -> bool:
        """Search, and make the commits. Return false if no file has such rows, and no earlier run has found any."""
        recording, rows, table = self._recording, task.rows, self._table
        found = task.searching(union_of(recording.erasure))
        found.search(self._view)
        if not (found.erased.names or found.erased.unread):
            return False
        self._note(task, found.erased)
        self._step(lambda at: delete_rows(at, rows, execute=True, engine=table.rows_engine))
        if self._stopped is None and found.search(self._now(), self._uuids()):
            self._note(task, found.erased)
        for left in reversed(range(_TIMES)):
            self._step(lambda at: self._rewrite(at, rows, found.erased))
            if self._stopped is None or self._stopped.code != BINS_LOST or not left:
                break
            self._stopped = None
        options = {key: text for key, text in rows.options.items() if key.startswith(("manifest.", "commit."))}
        merging = CompactManifestArguments(catalog=rows.catalog, options=options)
        self._step(lambda at: compact_manifest(at, merging, execute=True))
        if found.search(self._now(), self._uuids()):
            self._note(task, found.erased)
        return True

    def _rewrite(self, at: Table, rows: DeleteRowsArguments, erased: ErasedFiles) -> RunReport:
        given = CompactArguments(
            catalog=rows.catalog, only=erased.names, max_bytes=_ALL, zone=rows.zone, options=rows.options
        )
        return compact(at, given, execute=True, engine=self._table.compaction_engine)

    def _step(self, run: Callable[[Table], RunReport]) -> None:
        """Run an operation, unless one before it has failed, and record what it did.

        Raises:
            MaintenanceError: It failed, and this run has changed nothing.
        """
        if self._stopped is not None:
            return
        try:
            report = run(replace(self._table, run_id=self._recording.next_id))
        except MaintenanceError as error:
            if not self._made:
                raise
            self._recording.recover(self._now())  # it may have failed after its commit
            self._stopped = Refusal(error.code, str(error), error.exit_code)
            return
        self._steps.append(report)
        self._made += () if report.commits is None else report.commits.made
        self._recording.add(changed(report))
        if report.status not in _WELL:
            self._stopped = report.refusal or Refusal(report.status, f"{report.operation} ended as {report.status}")

    def _expire(self) -> None:
        view, erasure = self._now(), self._recording.erasure
        if may_be_back(view, erasure, union_of(erasure)):
            self._warnings.append(BACK)
            return
        for report in expire(self._table, view, execute=True):
            self._steps.append(report)
            if (made := changed(report)).files:
                self._recording.add(made)

    def _has_failed_at_once(self) -> bool:
        return bool(self._steps) and self._steps[-1].status in ("refused", "stale") and not self._made

    def _look(self) -> tuple[Place, ...]:
        erasure = self._recording.erasure
        keys = self._task.keys if self._task is not None else keys_of(erasure)
        places = looked(self._now(), erasure, union_of(erasure), keys)
        self._recording.add(Looked(places))
        return places

    def _ended(self, places: tuple[Place, ...]) -> RunReport:
        table, run_id = self._table, self._id
        status, refusal = self._status(places)
        report = replace(
            report_of(table, OPERATION, status, None),
            run_id=run_id,
            executed=True,
            refusal=refusal,
            commits=self._shown(places),
            steps=tuple(self._steps),
            warnings=tuple(dict.fromkeys(self._warnings)),
        )
        times_ms = self._started_ms, table.store.now_ms()
        report = run_receipt(table, report)
        store_report(self._area, run_id, report.to_json(), report.all_warnings(), times_ms)
        return replace(report, requests=table.counter.snapshot())

    def _status(self, places: tuple[Place, ...]) -> tuple[Status, Refusal | None]:
        if self._stopped is not None:
            return "partial", self._stopped
        code = remaining(places)
        if code is None:
            return "done", None
        state = "there" if code == ROWS_REMAIN else "unknown"
        count = sum(place.state == state and place.kind != NEVER_SEEN for place in places)
        what = f"still {'has' if count == 1 else 'have'}" if state == "there" else "may still have"
        return "partial", Refusal(
            code,
            f"table {self._table.ref}: {count} {'place' if count == 1 else 'places'} {what} the rows; when "
            f"{'it lets' if count == 1 else 'they let'} go of them, lakesweep erase TABLE --finish "
            f"{self._recording.erasure.run_id} --execute deletes what may be deleted, and looks again",
        )

    def _shown(self, places: tuple[Place, ...]) -> ErasureReport:
        erasure = self._recording.erasure
        rows = sum(each.rows for each in erasure.changes if each.operation == "delete-rows")
        catalog, erased = self._arguments.catalog, union_of(erasure)
        found = shown(erasure, self._task, catalog, rows=rows, erased=erased, places=places)
        return replace(found, made=tuple(self._made))

    def _note(self, task: Task, erased: ErasedFiles) -> None:
        zone = task.where.zone if task.where.depends_on_zone else None
        self._recording.add(Searched(str(task.where), zone, task.keys, erased))

    def _uuids(self) -> list[str]:
        return [each.uuid for each in self._made]

    def _now(self) -> TableView:
        return begin(self._table, OPERATION)
