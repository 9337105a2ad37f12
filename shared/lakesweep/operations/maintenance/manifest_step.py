"""The step of a pass that compacts manifests, and what the pass notes about it for the next one.

Only a table whose catalog is declared has this step, since nothing could be committed to another. A look costs three
reads: the newest snapshot and its lists. So a pass looks only if there were enough commits since the last look that the
list may be too long. Between two looks lies an hour, so a branch gets at most one such snapshot an hour: a streaming
job that restarts walks back over each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.errors import RefusedError
from lakesweep.model.commits.manifests import ManifestsReport
from lakesweep.model.identity import number_of
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.branch_pass import BranchPass, left_undone
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.rules.due import Thresholds, first_look, is_compacted, stated_for, thresholds_of
from lakesweep.runs.committing.catalog import Catalog, declared_catalog
from lakesweep.runs.fleet import Ruling, rule_of
from lakesweep.runs.parameters.manifests import COMPACT_MANIFEST, OF_A_PASS
from lakesweep.runs.pass_notes import CommitNote
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import COMMITS_ELSEWHERE, Table
from lakesweep.runs.steps import CommitStep, Step
from lakesweep.runs.view import TableView

OPERATION = COMPACT_MANIFEST.name
_HOUR_MS = 3_600_000
_SET_UP = frozenset(
    {
        *("manifest_format", "manifest_sort", "strict_mode", "unknown_commit_option", "unknown_snapshot_field"),
        *("not_a_paimon_table", "too_large_for_function"),
    }
)
"""Codes about how a table is set up, or how large it is. Its manifests are left as they are."""


@dataclass(slots=True)
class ManifestStep(BranchPass):
    """The compaction of one branch's manifests, and its result."""

    thresholds: Thresholds = field(init=False)
    _report: RunReport | None = None
    """Of this pass; `None`: the list was not looked at."""
    _looked_ms: int = 0

    def __post_init__(self) -> None:
        self.catalog = declared_catalog(self.catalog, self.ruling)  # else what the policy declares
        try:
            self.thresholds = thresholds_of(self._stated)
        except RefusedError:
            self.thresholds = Thresholds()  # the step itself refuses the option

    @property
    def has_rules(self) -> bool:
        """Tell whether manifests of this branch are compacted."""
        return is_compacted(self.catalog.type, rule_of(self.ruling).manifests) and bool(self.view.own.snapshots)

    def steps(self) -> Iterator[Step]:
        """Yield the step, if it is due. The caller must take its report."""
        if self.has_rules and self._is_due():
            self._looked_ms = clock_ms(self.view.table)
            yield OPERATION, CommitStep(self._run)

    def take(self, report: RunReport) -> RunReport:
        """Take the report of the step, and return the report to show."""
        if self.is_pass and report.refusal is not None and report.refusal.code in _SET_UP:
            report = left_undone(report, "Lakesweep compacts no manifests here")
        self._report = report
        return report

    def note(self) -> CommitNote | None:
        """Return the facts about manifests for the next pass, `None` if none are compacted."""
        if not self.has_rules:
            return None
        if self._report is not None:
            return self._noted(self._looked_ms + _HOUR_MS, self._next_snapshot(self._report), is_new=True)
        known = None if self._is_young else self.state()
        if known is not None and known.manifest_rules == self._rules:
            return self._noted(known.manifest_from_ms, known.manifest_snapshot, is_new=False)
        return self._noted(0, first_look(self.thresholds), is_new=False)

    def _noted(self, from_ms: int, snapshot_id: int, *, is_new: bool) -> CommitNote:
        facts = {"manifest_rules": self._rules, "manifest_from_ms": from_ms, "manifest_snapshot": snapshot_id}
        return CommitNote(facts, is_new=is_new)

    def _next_snapshot(self, report: RunReport) -> int:
        """Return the first snapshot whose list may be too long, after this look."""
        commits, most = report.commits, self.thresholds.max_count
        if commits is not None and commits.made:
            return commits.made[-1].snapshot_id + most + 1  # its delta list is empty, its base list has one small one
        if report.status == "nothing_to_do":
            # A list that no compaction makes shorter, or may, is not looked at again at once.
            return self._newest + ((commits.commits_left if isinstance(commits, ManifestsReport) else None) or most)
        # Another process commits; or something went wrong, and another attempt waits for another commit.
        return self._newest + 2

    @property
    def _newest(self) -> int:
        return self.view.own.snapshots[-1].id

    def _run(self, table: Table, view: TableView | None, execute: bool) -> RunReport:
        # Most passes do not need what writes a commit, and a function starts sooner without it.
        from lakesweep.operations.manifests.compact_manifest import compact_manifest

        options = {key: value for key, value in self.options.items() if key in OF_A_PASS}
        unattended = execute or self.is_pass
        arguments = replace(_arguments_of(self.ruling, self.catalog), options=options, unattended=unattended)
        report = compact_manifest(table, arguments, execute=False, view=view)
        if not execute or report.status != "planned":
            return report
        if not table.may_commit:
            return replace(report, warnings=(*report.warnings, f"table {table.ref}: {COMMITS_ELSEWHERE}"))
        return compact_manifest(table, arguments, execute=True, view=view)

    @property
    def _is_young(self) -> bool:
        """Tell whether so few commits were made that the list cannot be too long."""
        return self._newest < first_look(self.thresholds)

    def _is_due(self) -> bool:
        if self._is_young:
            return False
        newest, known = self._newest, self.state()
        if known is None or known.manifest_rules != self._rules:
            return True
        if known.manifest_from_ms - clock_ms(self.view.table) > _HOUR_MS:
            return True  # the clock of the last look was wrong
        if newest + first_look(self.thresholds) < known.manifest_snapshot:
            return True  # after a rollback
        return known.are_manifests_due(newest, clock_ms(self.view.table))

    @property
    def _stated(self) -> Mapping[str, str]:
        """Return the table options in force: of the call, else of the schema, else of the fleet policy."""
        return stated_for(self.view.schema.options, rule_of(self.ruling).manifests, self.options)

    @property
    def _rules(self) -> int:
        """Return a number that changes with what decides about a compaction."""
        decisive = {
            key: value for key, value in self._stated.items() if key.startswith(("manifest", "commit.", "type"))
        }
        return number_of(repr((sorted(decisive.items()), self.catalog.type))) or 1


def compact(table: Table, ruling: Ruling | None) -> RunReport:
    """Compact the manifests that a pass in another process has found to be too many."""
    from lakesweep.operations.manifests.compact_manifest import compact_manifest

    if rule_of(ruling).manifests is False:
        return report_of(table, OPERATION, "nothing_to_do", None)
    return compact_manifest(table, _arguments_of(ruling, Catalog()), execute=True)


def _arguments_of(ruling: Ruling | None, catalog: Catalog) -> CompactManifestArguments:
    """Return the arguments of a compaction that a pass decides on.

    Args:
        ruling: What the fleet policy says about the table.
        catalog: What the call declares.
    """
    return CompactManifestArguments(
        catalog=declared_catalog(catalog, ruling),
        unattended=True,
        only_due=True,
        otherwise=rule_of(ruling).manifests or {},
    )
