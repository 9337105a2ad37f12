"""The step of a pass about data files: it says when a compaction is worth it, or compacts if the fleet policy says so.

It is the last step, so what it needs is never missing to others: neither time nor space nor the table's peace. Of
append tables, only partitions are compacted into which nobody wrote for the policy's time. A compaction writes new
files into a partition, so it is not idle for that time. This is why a pass after a compaction finds nothing to do.

Tables with a primary key are compacted once a file of level 0 is older than the policy's time, all buckets together.
Then level 0 is empty, and what commits add is not older before that time is over.

A look reads the manifests of the newest snapshot. Where a pass only says what is worth it, it looks once a day, and no
commit or sweep makes a pass look earlier. Where it compacts, it looks when the next partition is idle, or the next file
is old enough.

Functions rewrite no data files: they ask for a job on Spark.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lakesweep.control.state import NEVER_MS
from lakesweep.errors import FormatError, MaintenanceError, RefusedError
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.identity import number_of
from lakesweep.model.policy import OWNED_BY_FILES, CompactionRules
from lakesweep.model.reading.visible import skips_level_0
from lakesweep.model.report import Refusal, RunReport
from lakesweep.operations.compaction.rules.break_even import beside_spark
from lakesweep.operations.maintenance.branch_pass import BranchPass, left_undone
from lakesweep.operations.maintenance.suggestion import suggested
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.committing.catalog import Catalog, declared_catalog
from lakesweep.runs.fleet import rule_of
from lakesweep.runs.parameters.compaction import COMPACT
from lakesweep.runs.pass_notes import CommitNote
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import COMMITS_ELSEWHERE, Table
from lakesweep.runs.steps import CommitStep, Step
from lakesweep.runs.view import TableView

OPERATION = COMPACT.name
FIRST_LOOK = 5
"""The first snapshot after which a pass looks: so many small files are worth a rewriting, by default."""
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_DECISIVE = (
    *("bucket", "changelog-producer", "compaction.", "data-file.", "deletion-vectors.", "file.", "force-lookup"),
    *("ignore-delete", "merge-engine", "num-levels", "num-sorted-run.", "sequence.", "target-file-size", "write-only"),
)


@dataclass(slots=True)
class FilesStep(BranchPass):
    """The data files of one branch, and what a look at them found."""

    rules: CompactionRules | None = field(init=False)
    """When passes compact; `None`: they only say when it is worth it."""
    has_step: bool = field(init=False)
    """A compaction may be possible, and worth a word."""
    _report: RunReport | None = None
    """Of this pass; `None`: nobody looked."""
    _looked_ms: int = 0

    def __post_init__(self) -> None:
        self.catalog = declared_catalog(self.catalog, self.ruling)
        stated, schema = rule_of(self.ruling).compaction, self.view.schema
        is_declared = self.catalog.type in OWNED_BY_FILES
        has_key = bool(schema.primary_keys)
        has_rules = isinstance(stated, CompactionRules) and stated.states(has_key=has_key)
        self.rules = stated if isinstance(stated, CompactionRules) and has_rules and is_declared else None
        is_possible = has_key or schema.options.get("bucket", "-1").strip() == "-1"
        # A pass looks where somebody could compact. A person who asks what a pass would do declares nothing.
        is_asked = is_declared or (not self.is_pass and self.catalog.type is None)
        self.has_step = stated is not False and is_possible and is_asked and bool(self.view.own.snapshots)

    def steps(self) -> Iterator[Step]:
        """Yield the step, if it is due. The caller must take its report."""
        if self.has_step and self._is_due():
            self._looked_ms = clock_ms(self.view.table)
            yield OPERATION, CommitStep(self._run)

    def take(self, report: RunReport) -> RunReport:
        """Take the report of the step, and return the report to show."""
        self._report = report
        return report

    def note(self) -> CommitNote | None:
        """Return the facts about data files for the next pass, `None` without this step."""
        if not self.has_step:
            return None
        if self._report is not None:
            return CommitNote(self._facts(self._report), is_new=True)
        known = None if self._is_young else self.state()
        if known is None or known.files_rules != self._rules_number:
            return CommitNote(self._noted(0, self._first_look, NEVER_MS), is_new=False)
        facts = self._noted(known.files_from_ms, known.files_snapshot, known.files_next_ms)
        return CommitNote(facts, is_new=False)

    def _facts(self, report: RunReport) -> dict[str, int]:
        """Return when to look again after a look."""
        looked_ms, commits = self._looked_ms, report.commits
        if self.rules is None:
            return self._noted(looked_ms + _DAY_MS, 0, NEVER_MS)
        soon_ms, next_ms = looked_ms + self._pause_ms, [NEVER_MS]
        if not isinstance(commits, CompactionReport):
            return self._noted(soon_ms, self._newest + 1, NEVER_MS)  # refused, or it failed
        if report.status == "planned":
            # Another process compacts, or nobody may. If that process fails, rows of level 0 wait for the next look.
            waits = self._has_key and any(COMMITS_ELSEWHERE in warning for warning in report.warnings)
            next_ms.append(looked_ms + (max(_HOUR_MS, self._time_ms) if waits else _DAY_MS))
        elif commits.waiting_files or report.status not in ("done", "nothing_to_do"):
            next_ms.append(soon_ms)
        if commits.idle_from_ms is not None:
            is_waiting = self._has_key and not commits.files
            next_ms.append(max(looked_ms + _MINUTE_MS if is_waiting else soon_ms, commits.idle_from_ms))
        # What a commit adds from now on is not idle, or old, before that time is over.
        from_ms = looked_ms + max(self._pause_ms, self._time_ms)
        newest = max([self._newest, *(made.snapshot_id for made in commits.made)])
        return self._noted(from_ms, newest + 1, min(next_ms))

    def _noted(self, from_ms: int, snapshot_id: int, next_ms: int) -> dict[str, int]:
        if self.rules is None:
            snapshot_id, next_ms = NEVER_MS, NEVER_MS  # nobody has to look
        return {
            "files_rules": self._rules_number,
            "files_from_ms": from_ms,
            "files_snapshot": snapshot_id,
            "files_next_ms": next_ms,
        }

    def _is_due(self) -> bool:
        if not self.is_pass:
            return True
        if self._is_young:
            return False
        known, now_ms = self.state(), clock_ms(self.view.table)
        if known is None or known.files_rules != self._rules_number:
            return True
        most_ms = _DAY_MS if self.rules is None else max(self._pause_ms, self._time_ms)
        if known.files_from_ms - now_ms > most_ms:
            return True  # the clock of the last look was wrong
        if self.rules is None:
            return now_ms > known.files_from_ms
        is_rolled_back = self._newest + 1 < known.files_snapshot
        return is_rolled_back or known.are_files_due(self._newest, now_ms)

    def _run(self, table: Table, view: TableView | None, execute: bool) -> RunReport:
        # Most passes do not need what rewrites data files, and a function starts sooner without it.
        from lakesweep.operations.compaction.compact import compact
        from lakesweep.operations.compaction.look import look
        from lakesweep.operations.compaction.policy import arguments_of

        # Without a declared catalog, say what is worth it where files alone decide about a commit.
        catalog = self.catalog if self.catalog.type is not None else Catalog("filesystem")
        given = {key: value for key, value in self.options.items() if key in COMPACT.options}
        is_alone = rule_of(self.ruling).has_sole_compactor
        arguments = replace(arguments_of(self.rules, catalog, has_key=self._has_key), sole_compactor=is_alone)
        arguments = replace(arguments, options=given)
        try:
            report = look(table, arguments, declared_zone(table, None, self.ruling), view)
        except MaintenanceError as error:
            return left_undone(_failed(table, error), "nobody looked whether a compaction is worth it")
        if self.rules is None:
            return suggested(table, report, hides=self._hides)
        if report.refusal is not None:
            return left_undone(report, "Lakesweep compacts no data files here")
        if not execute or report.status != "planned":
            return report
        if not table.may_commit:
            said = [COMMITS_ELSEWHERE, *beside_spark(report.commits)]
            return replace(report, warnings=(*report.warnings, *(f"table {table.ref}: {each}" for each in said)))
        try:
            return compact(table, arguments, execute=True, engine=table.compaction_engine)
        except MaintenanceError as error:
            return _failed(table, error)  # the other steps are done, and have their reports

    @property
    def _has_key(self) -> bool:
        return bool(self.view.schema.primary_keys)

    @property
    def _hides(self) -> bool:
        """Tell whether readers leave out level 0."""
        try:
            return self._has_key and skips_level_0(self.view.schema.options)
        except FormatError:
            return False  # the look refuses the table

    @property
    def _time_ms(self) -> int:
        """Return the time of the policy that counts for the table."""
        rules = self.rules or CompactionRules()
        return (rules.level_0_ms if self._has_key else rules.idle_ms) or 0

    @property
    def _pause_ms(self) -> int:
        """Return how long a pass does not look again, whatever it found."""
        return min(_HOUR_MS, max(_MINUTE_MS, self._time_ms)) if self._has_key else _HOUR_MS

    @property
    def _first_look(self) -> int:
        return 1 if self._has_key and self.rules is not None else FIRST_LOOK

    @property
    def _is_young(self) -> bool:
        return self._newest < self._first_look

    @property
    def _newest(self) -> int:
        return self.view.own.snapshots[-1].id

    @property
    def _rules_number(self) -> int:
        """Return a number that changes with what decides about a compaction."""
        rule = rule_of(self.ruling)
        decisive = {key: text for key, text in self.view.schema.options.items() if key.startswith(_DECISIVE)}
        return number_of(repr((sorted(decisive.items()), rule.compaction, self.catalog.type, rule.time_zone))) or 1


def _failed(table: Table, error: MaintenanceError) -> RunReport:
    message = str(error) if isinstance(error, RefusedError) else f"table {table.ref}: {error}"
    refusal = Refusal(error.code, message, error.exit_code)
    return replace(report_of(table, OPERATION, "refused", None), refusal=refusal)
