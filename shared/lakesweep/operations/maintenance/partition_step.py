"""The step of a pass that expires partitions, and what the pass notes about it for the next one.

Only a table whose schema, or the fleet policy for it, states `partition.expiration-time` has this step. Between two
checks lies the table's `partition.expiration-check-interval`, since a check reads every manifest of the newest
snapshot. Paimon's writers begin the interval anew when they start. A pass keeps it in its state.

Source: Paimon `PartitionExpire`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.control.state import NEVER_MS, BranchState
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.options import parse_duration_ms
from lakesweep.model.commits.partitions import PartitionsReport
from lakesweep.model.identity import number_of
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.branch_pass import BranchPass, left_undone
from lakesweep.operations.partitions.arguments import ExpirePartitionsArguments
from lakesweep.operations.tags.options import is_write_only
from lakesweep.runs.committing.catalog import Catalog, declared_catalog
from lakesweep.runs.fleet import Ruling, rule_of
from lakesweep.runs.parameters.commits import COMMIT_OPTIONS
from lakesweep.runs.parameters.partitions import (
    CHECK_INTERVAL,
    EXPIRE_PARTITIONS,
    PARTITION_OPTIONS,
)
from lakesweep.runs.pass_notes import CommitNote
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.session import COMMITS_ELSEWHERE, Table
from lakesweep.runs.steps import CommitStep, Step
from lakesweep.runs.view import TableView

OPERATION = EXPIRE_PARTITIONS.name
_TIME = "partition.expiration-time"
_HOUR_MS = 3_600_000
_BY_WRITERS = frozenset(
    {
        *("catalog_not_declared", "rest_catalog", "metastore_partitions", "needs_engine_callbacks", "strict_mode"),
        *("zone_not_declared", "custom_partition_expiration", "sequence_property", "unknown_commit_option"),
        *("manifest_format", "unknown_expiration_option"),
    }
)
"""Codes about how a table is set up. If it is not `write-only`, its own writers expire partitions all the same by what
its schema states."""
_CHECKED = frozenset({"done", "nothing_to_do", "planned"})


@dataclass(slots=True)
class PartitionStep(BranchPass):
    """The expiry of one branch's partitions, and its result."""

    stated: Mapping[str, str] = field(init=False)
    """The rules in force: of the schema or the fleet policy, and of the call."""
    _known: BranchState | None = None
    _report: RunReport | None = None
    """Of this pass; `None`: no check was due."""
    _checked_ms: int = 0

    def __post_init__(self) -> None:
        own = self.view.schema.options
        otherwise = {} if _TIME in own else rule_of(self.ruling).partitions
        self.stated = {**own, **otherwise, **self.options}

    @property
    def has_rules(self) -> bool:
        """Tell whether partitions of this branch expire."""
        return _TIME in self.stated and bool(self.view.schema.partition_keys)

    def steps(self) -> Iterator[Step]:
        """Yield the step, if it is due. The caller must take its report."""
        if not self.has_rules:
            return
        self._known = self.state()
        self._checked_ms = clock_ms(self.view.table)
        if self._is_due():
            yield OPERATION, CommitStep(self._run)

    def take(self, report: RunReport) -> RunReport:
        """Take the report of the step, and return the report to show."""
        if self._is_left_to_writers(report):
            report = left_undone(report, "Lakesweep expires no partition, and leaves that to the table's writers")
        self._report = report
        return report

    def note(self) -> CommitNote | None:
        """Return the facts about partitions for the next pass, `None` if none expires."""
        if not self.has_rules:
            return None
        report, known = self._report, self._known
        if report is None:
            return None if known is None else CommitNote(_facts_of(known), is_new=False)
        if report.status not in _CHECKED or report.operation != OPERATION:
            return self._noted(0, 0, 0)  # check in the next pass
        commits = report.commits if isinstance(report.commits, PartitionsReport) else None
        is_open = report.status == "planned" or (commits is not None and commits.due_later > 0)
        next_ms = None if commits is None else commits.next_due_ms
        newest = [ref.id for ref in self.view.own.snapshots[-1:]]
        newest += [] if commits is None else [made.snapshot_id for made in commits.made]
        return self._noted(
            self._checked_ms + self._interval_ms(),
            max(newest, default=0),
            0 if is_open else NEVER_MS if next_ms is None else next_ms,
        )

    def _noted(self, from_ms: int, snapshot_id: int, next_ms: int) -> CommitNote:
        facts = {
            "partition_rules": self._rules,
            "partition_from_ms": from_ms,
            "partition_snapshot": snapshot_id,
            "partition_next_ms": next_ms,
        }
        return CommitNote(facts, is_new=self._known is None or _facts_of(self._known) != facts)

    def _run(self, table: Table, view: TableView | None, execute: bool) -> RunReport:
        # Most tables do not need what writes a commit, and a function starts sooner without it.
        from lakesweep.operations.partitions.expire_partitions import expire_partitions

        arguments = replace(
            _arguments_of(self.ruling, self.catalog),
            options={key: value for key, value in self.options.items() if key in PARTITION_OPTIONS | COMMIT_OPTIONS},
            unattended=execute or self.is_pass,
        )
        report = expire_partitions(table, arguments, execute=execute and table.may_commit, view=view)
        if execute and not table.may_commit and report.status == "planned":
            sentence = f"table {table.ref}: {COMMITS_ELSEWHERE}"
            report = replace(report, warnings=(*report.warnings, sentence))
        return report

    def _is_due(self) -> bool:
        known = self._known
        if known is None or known.partition_rules != self._rules:
            return True
        if known.partition_from_ms - self._checked_ms > self._interval_ms():
            return True  # the clock of the last check was wrong
        newest = self.view.own.snapshots[-1].id if self.view.own.snapshots else 0
        return newest < known.partition_snapshot or known.are_partitions_due(newest, self._checked_ms)

    def _interval_ms(self) -> int:
        try:
            return parse_duration_ms(self.stated[CHECK_INTERVAL], CHECK_INTERVAL)
        except KeyError:
            return _HOUR_MS
        except FormatError:
            return 0  # the step itself refuses the option

    @property
    def _rules(self) -> int:
        """Return a number that changes with the rules."""
        rules = {key: value for key, value in self.stated.items() if key.startswith("partition.")}
        zone = rule_of(self.ruling).time_zone
        return number_of(repr((sorted(rules.items()), zone))) or 1

    def _is_left_to_writers(self, report: RunReport) -> bool:
        """Tell whether the table's own writers expire the partitions that could not be expired here."""
        if not self.is_pass or report.refusal is None or report.refusal.code not in _BY_WRITERS:
            return False
        if _TIME not in self.view.schema.options:
            return False  # they do not know the fleet policy
        try:
            return not is_write_only(self.stated)
        except RefusedError:
            return False


def expire(table: Table, ruling: Ruling | None) -> RunReport:
    """Expire the partitions that a pass in another process has found due."""
    from lakesweep.operations.partitions.expire_partitions import expire_partitions

    return expire_partitions(table, _arguments_of(ruling, Catalog()), execute=True)


def _arguments_of(ruling: Ruling | None, catalog: Catalog) -> ExpirePartitionsArguments:
    """Return the arguments of an expiry that a pass decided on.

    Args:
        ruling: What the fleet policy says about the table.
        catalog: What the call declares.
    """
    rule = rule_of(ruling)
    return ExpirePartitionsArguments(
        catalog=declared_catalog(catalog, ruling),
        time_zone=rule.time_zone,
        force_check=True,  # the pass has looked whether a check is due
        unattended=True,
        otherwise=rule.partitions,
    )


def _facts_of(state: BranchState) -> Mapping[str, int]:
    names = ("partition_rules", "partition_from_ms", "partition_snapshot", "partition_next_ms")
    return {name: getattr(state, name) for name in names}
