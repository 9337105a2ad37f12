"""Housekeeping of one table: which of its documents in the control location go, and why the others stay."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import Lease, LeaseDocument, read_lease
from lakesweep.control.reports import store_report
from lakesweep.errors import FormatError, LeaseHeldError, MaintenanceError
from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.housekeeping import Count, Document, Going, Kind, by_kind, by_reason, counts_of
from lakesweep.model.outcome import Outcome
from lakesweep.model.report import Refusal, RunReport, Status, outcome_to_json
from lakesweep.operations.housekeeping.deleting import Deletion, delete
from lakesweep.operations.housekeeping.documents import (
    documents_of,
    named_by,
    runs_of,
    times_of,
    to_read,
    why_they_stay,
)
from lakesweep.operations.housekeeping.rules.expiry import Judged, Needs, judge, to_ask

OPERATION = "housekeeping"
_SHOWN = 20
"""At most this many foreign or damaged documents are named."""
_NAMED = ("foreign", "damaged")


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every table of one call."""

    retention: ControlRetention
    open_jobs: frozenset[str]
    now_ms: int
    """The earlier one of two clocks, the store's and the caller's: a clock that is ahead makes nothing older."""


@dataclass(frozen=True, slots=True)
class TableHouse:
    """What housekeeping does in the folders of one table."""

    table_key: str
    table: str | None
    """Location of the table; `None`: no document names it."""
    status: Status
    going: tuple[Count, ...] = ()
    kept: tuple[Count, ...] = ()
    named: tuple[tuple[str, str], ...] = ()
    """Some documents that are foreign or damaged, each with the reason."""
    oldest_ms: int | None = None
    """When the oldest document that goes was last written."""
    run_id: str | None = None
    outcome: Outcome | None = None
    refusal: Refusal | None = None
    is_gone: bool | None = None
    """The table does not exist; `None`: not known."""

    def to_json(self) -> dict[str, object]:
        """Return its part of the document described in `docs/cli_json.md`."""
        return {
            "table_key": self.table_key,
            "table": self.table,
            "is_gone": self.is_gone,
            "status": self.status,
            "delete": [asdict(each) for each in self.going],
            "kept": [asdict(each) for each in self.kept],
            "named": [{"name": name, "reason": reason} for name, reason in self.named],
            "oldest_ms": self.oldest_ms,
            "run_id": self.run_id,
            "outcome": None if self.outcome is None else outcome_to_json(self.outcome),
            "refusal": None if self.refusal is None else asdict(self.refusal),
        }


def keep_house(area: ControlArea, rules: Rules, *, is_gone: bool, execute: bool) -> TableHouse:
    """Decide about the documents of one table, and with `execute` delete what may go.

    Args:
        area: Of the table.
        rules: What holds for every table.
        is_gone: The table certainly does not exist, and somebody asked to remove what is left of it.
        execute: Delete.

    Raises:
        StorageError: A request failed.
        LeaseLostError: Another run took the lease; this one stopped.
    """
    key = area.prefix.split("/")[1]
    try:
        lease = read_lease(area)
    except FormatError as error:
        documents = documents_of(area.store, key)
        kept = counts_of((each, "lease_damaged") for each in documents)
        return TableHouse(key, area.table, "refused", kept=kept, refusal=Refusal(error.code, str(error)))
    documents = documents_of(area.store, key)
    judged = _judged(area, documents, rules, lease, is_gone=is_gone)
    house = _house(key, area.table, judged)
    if not judged.going:
        return replace(house, status="nothing_to_do")
    if not execute:
        return house
    try:
        judged, deletion = _delete(area, judged, rules, lease, is_gone=is_gone)
    except LeaseHeldError as error:
        return replace(house, status="refused", refusal=Refusal(error.code, str(error), error.exit_code))
    if not judged.going:
        return replace(_house(key, area.table, judged), status="nothing_to_do")
    house, outcome = _house(key, area.table, judged), deletion.outcome()
    house = replace(house, run_id=deletion.run_id, outcome=outcome, status="partial" if outcome.failed else "done")
    _record(area, house, deletion)
    return house


def _delete(
    area: ControlArea, judged: Judged, rules: Rules, known: LeaseDocument, *, is_gone: bool
) -> tuple[Judged, Deletion]:
    """Delete what may go, as it was listed before the lease was taken.

    If another run has held the lease since, everything is listed again under the lease. So a table that somebody
    maintains every minute has its turn, too.
    """
    try:
        return judged, delete(area, lambda lease: judged.going, known)
    except LeaseHeldError:
        found: list[Judged] = []

        def again(lease: Lease) -> tuple[Going, ...]:
            documents = documents_of(area.store, area.prefix.split("/")[1])
            found.append(_judged(area, documents, rules, lease.document(), is_gone=is_gone))
            return found[0].going

        deletion = delete(area, again)
        return found[0], deletion


def whole(
    key: str, table: str | None, documents: tuple[Document, ...], reason: str, error: MaintenanceError | None = None
) -> TableHouse:
    """Return the result for a table all of whose documents stay."""
    kept = counts_of((each, reason) for each in documents)
    refusal = None if error is None else Refusal(error.code, str(error), error.exit_code)
    return TableHouse(key, table, "nothing_to_do" if error is None else "refused", kept=kept, refusal=refusal)


def _judged(
    area: ControlArea, documents: tuple[Document, ...], rules: Rules, lease: LeaseDocument, *, is_gone: bool
) -> Judged:
    times, read = times_of(documents), dict[tuple[Kind, str], str]()
    named = dict[tuple[Kind, str], frozenset[str] | None]()
    while True:
        unfit = {each: why for each, why in read.items() if why}
        by_plans, by_erasures = (_runs_named(named, kind) for kind in ("plan", "erasure"))
        unclear_since = min((group for (_, group), runs in named.items() if runs is None), default="")
        needs = Needs(named_by(lease), rules.open_jobs, unfit, by_plans, by_erasures, unclear_since, is_gone=is_gone)
        judged = judge(documents, rules.retention, rules.now_ms, times, needs)
        # What stays after all may leave room for others within the limit of a call.
        unread = [each for each in to_read(judged.going) if each not in read]
        unasked = to_ask(judged, times) - named.keys()
        if not unread and not unasked:
            return judged
        read |= why_they_stay(area, unread, rules.now_ms)
        named |= runs_of(area, unasked)


def _runs_named(named: Mapping[tuple[Kind, str], frozenset[str] | None], of: str) -> frozenset[str]:
    return frozenset(run_id for (kind, _), runs in named.items() if kind == of for run_id in runs or ())


def _house(key: str, table: str, judged: Judged) -> TableHouse:
    named = [(f"{each.document.place}/{key}/{each.document.name}", each.reason) for each in judged.staying]
    return TableHouse(
        key,
        table,
        "planned",
        going=counts_of((each.document, each.reason) for each in judged.going),
        kept=counts_of((each.document, each.reason) for each in judged.staying),
        named=tuple(each for each in named if each[1] in _NAMED)[:_SHOWN],
        oldest_ms=min((each.document.modified_ms for each in judged.going), default=None),
    )


def _record(area: ControlArea, house: TableHouse, deletion: Deletion) -> None:
    """Store the report of a run, as every other run has one."""
    report = RunReport(OPERATION, area.table, None, house.status, run_id=deletion.run_id, executed=True)
    document: dict[str, object] = {
        **report.to_json(),
        "plan_id": deletion.run_id,
        "delete": {
            "count": sum(each.count for each in house.going),
            "bytes": sum(each.bytes for each in house.going),
            "by_kind": dict(by_kind(house.going)),
        },
        "kept": dict(by_reason(house.kept)),
        "outcome": outcome_to_json(house.outcome or Outcome()),
    }
    times_ms = (deletion.started_ms, area.store.now_ms())
    store_report(area, deletion.run_id, document, (), times_ms, ended=house.status, chain=deletion.chain)
