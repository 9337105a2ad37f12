"""Which documents of a table may go, and in which order.

A document is as old as the newest one of its group, and no older than the time in its group's name. So a scan that
still writes, or a plan that was executed, undone or continued lately, counts as young as a whole.

Plan, report and ledger of a run have one id and depend on each other:

- The report says how the plan ended, so it stays while the plan does.
- The newest report stays, since it names the table. So does the lease: a table that is made again goes on from it.
- The report names the last part of the ledger, so the ledger stays while the report does.

Other runs may have begun or ended a plan. Its undo needs their ledgers, so these stay while the plan does. Only its
`end.json` names them. The record of an erasure names the expiries that deleted its files. `to_ask` says which of these
documents are read.

The order of deletion is such that no death leaves anything half readable: a plan without a header does not exist. A
ledger whose last parts are gone looks like that of a run that died. A scan that has a result has ended, whatever else
is missing.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.housekeeping import Document, Going, Kind, Staying
from lakesweep.model.safety import KEEP_PLANS_MS
from lakesweep.operations.housekeeping.rules.kinds import END, HEADER, LEASE, RESULT, SCAN, has_ended, order_in_ledger

MOST = 10_000
"""Documents of one table that one call deletes: their deletion takes some minutes, in which the lease is held."""
_DAY_MS = 86_400_000
_OWN_RUN: tuple[Kind, ...] = ("plan", "report", "ledger")
"""Kinds whose groups are runs, in the order in which they go."""
_OF_PLANS: tuple[Kind, ...] = ("report", "ledger")
"""Kinds whose groups are runs that a plan may need."""
_PART_RANK = 3
"""Rank of the last parts of ledgers, after plans and reports."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What else is known about a table."""

    named: frozenset[str] = frozenset()
    """Runs and plans that the lease names."""
    open_jobs: frozenset[str] = frozenset()
    """Scans and jobs on Spark that have not ended."""
    unfit: Mapping[tuple[Kind, str], str] = field(default_factory=dict)
    """Kind and id of plans and reports that stay for what was read in them -> the reason."""
    runs: frozenset[str] = frozenset()
    """Runs of plans that stay."""
    proofs: frozenset[str] = frozenset()
    """Runs that the records of erasures name."""
    unclear_since: str = ""
    """The oldest plan or erasure that stays and does not tell its runs; empty: there is none."""
    is_gone: bool = False
    """The table certainly does not exist, and somebody asked to remove what is left of it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of the documents of one table."""

    going: tuple[Going, ...]
    """In the order of deletion."""
    staying: tuple[Staying, ...]


def judge(
    documents: Sequence[Document],
    retention: ControlRetention,
    now_ms: int,
    times: Mapping[str, int],
    needs: Needs,
) -> Judged:
    """Decide about all documents of a table.

    Args:
        documents: All of them.
        retention: How long they are kept.
        now_ms: The time.
        times: Group -> the time in its name, where it has one.
        needs: What else keeps documents.
    """
    return _Judging(documents, retention, now_ms, times, needs).judged()


def to_ask(judged: Judged, times: Mapping[str, int]) -> frozenset[tuple[Kind, str]]:
    """Return kind and id of the plans and erasures that stay and may name a run whose report or ledger goes.

    A plan names only runs that began after it was made, an erasure only those that ended before its last document was
    written. But clocks may have jumped by a day.

    Args:
        judged: As of `judge`.
        times: As of `judge`.
    """
    going = [each.document for each in judged.going if each.document.kind in _OF_PLANS]
    begun = sorted(times.get(each.group, each.modified_ms) for each in going)
    newest_ms = begun[-1] + _DAY_MS if begun else -1
    found: set[tuple[Kind, str]] = set()
    for each in (staying.document for staying in judged.staying):
        since_ms = times.get(each.group, 0)
        if since_ms > newest_ms:
            continue
        if each.kind == "plan" and each.name.endswith(f"/{END}"):
            found.add(("plan", each.group))
        elif each.kind == "erasure":
            first = bisect_left(begun, since_ms - _DAY_MS)
            if first < len(begun) and begun[first] <= each.modified_ms + _DAY_MS:
                found.add(("erasure", each.group))
    return frozenset(found)


class _Judging:
    """The decision about one table."""

    def __init__(
        self,
        documents: Sequence[Document],
        retention: ControlRetention,
        now_ms: int,
        times: Mapping[str, int],
        needs: Needs,
    ) -> None:
        self._retention, self._now_ms, self._times, self._needs = retention, now_ms, times, needs
        self._groups: dict[tuple[Kind, str], list[Document]] = defaultdict(list)
        for each in documents:
            self._groups[each.kind, each.group].append(each)
        reports = sorted(group for kind, group in self._groups if kind == "report")
        self._erasures = {group for kind, group in self._groups if kind == "erasure"}
        self._newest_report = reports[-1] if reports else ""
        self._ages = {key: self._age(key, found) for key, found in self._groups.items()}
        self._youngest = min(self._ages.values(), default=0)

    def _age(self, key: tuple[Kind, str], found: Sequence[Document]) -> int:
        written_ms = max(each.modified_ms for each in found)
        return self._now_ms - max(written_ms, self._times.get(key[1], 0))

    def judged(self) -> Judged:
        why = {key: self._why_kept(key) for key in self._groups}
        self._bind(why)
        self._limit(why)
        staying = [Staying(each, why[key]) for key, found in self._groups.items() for each in found if why[key]]
        going = [each for key in self._groups if not why[key] for each in self._going(key)]
        going.sort(key=lambda each: (each.rank, each.document.place, each.document.name))
        return Judged(tuple(going), tuple(sorted(staying, key=lambda each: (each.document.place, each.document.name))))

    def _why_kept(self, key: tuple[Kind, str]) -> str:
        """Return why a group stays for reasons of its own; empty if it may go."""
        kind, group = key
        if kind in ("foreign", "erasure"):
            return "foreign" if kind == "foreign" else "proof"
        if kind == "state":
            is_left = self._needs.is_gone and group != LEASE and self._youngest > KEEP_PLANS_MS
            return "" if is_left else "needed"
        if key in self._needs.unfit:
            return self._needs.unfit[key]
        if group in self._needs.named:
            return "named_by_lease"
        if self._is_of_erasure(kind, group):
            return "proof"
        if group in self._needs.open_jobs:
            return "open_job"
        if kind == "report" and group == self._newest_report:
            return "newest"
        if kind in _OF_PLANS and group in self._needs.proofs:
            return "proof"
        if kind in _OF_PLANS and (group in self._needs.runs or "" < self._needs.unclear_since <= group):
            return "of_plan"
        limit_ms = self._limit_ms(key)
        if limit_ms is None:
            return "kept_for_good"
        return "" if self._ages[key] > limit_ms else "young"

    def _is_of_erasure(self, kind: Kind, run_id: str) -> bool:
        """Tell whether a run is a step of an erasure: its id is that of the erasure, and a number."""
        erasure, _, number = run_id.rpartition("-")
        return kind in _OWN_RUN and (run_id in self._erasures or (erasure in self._erasures and number.isdigit()))

    def _limit_ms(self, key: tuple[Kind, str]) -> int | None:
        kind, retention = key[0], self._retention
        stated = {
            "plan": retention.plans_ms,
            "report": retention.reports_ms,
            "ledger": retention.ledger_ms,
            "job": retention.scans_ms,
            "scan": retention.scans_ms,
            "segment": retention.caches_ms,
            "cache": retention.caches_ms,
            "quarantine": retention.quarantine_ms,
        }[kind]
        if self._needs.is_gone and kind not in ("report", "ledger"):
            return KEEP_PLANS_MS
        if kind == "job" or (kind == "scan" and not self._has_ended(key)):
            return None if stated is None else max(stated, KEEP_PLANS_MS)
        return stated

    def _has_ended(self, key: tuple[Kind, str]) -> bool:
        return has_ended(key[1], {each.name for each in self._groups[key]})

    def _bind(self, why: dict[tuple[Kind, str], str]) -> None:
        """Let a report stay while its plan does, and a ledger while either does: a run that died has no report."""
        pairs: tuple[tuple[Kind, Kind], ...] = (("plan", "report"), ("report", "ledger"), ("plan", "ledger"))
        for first, second in pairs:
            for kind, group in self._groups:
                if kind == second and not why[kind, group] and why.get((first, group)):
                    why[kind, group] = f"of_{first}"

    def _limit(self, why: dict[tuple[Kind, str], str]) -> None:
        """Leave the newest groups for the next call if there are too many. The documents of one run go together."""
        found: dict[str, list[tuple[Kind, str]]] = defaultdict(list)
        for kind, group in self._groups:
            if not why[kind, group]:
                found[group if kind in _OWN_RUN else f"{kind} {group}"].append((kind, group))
        left = MOST
        for keys in sorted(found.values(), key=lambda keys: (-max(self._ages[key] for key in keys), keys)):
            count = sum(len(self._groups[key]) for key in keys)
            if count > left and left < MOST:  # one group alone may be larger
                why.update(dict.fromkeys(keys, "later_call"))
            else:
                left -= count

    def _going(self, key: tuple[Kind, str]) -> Iterator[Going]:
        kind, _ = key
        reason = self._reason(key)
        ranks = {each.name: rank for rank, each in self._ranked(kind, self._groups[key])}
        for each in self._groups[key]:
            yield Going(each, reason, ranks[each.name])

    @staticmethod
    def _ranked(kind: Kind, found: Iterable[Document]) -> Iterator[tuple[int, Document]]:
        if kind == "ledger":
            backwards = sorted(found, key=lambda each: order_in_ledger(each.name), reverse=True)
            yield from ((_PART_RANK + number, each) for number, each in enumerate(backwards))
            return
        for each in found:
            last = each.name.rpartition("/")[2]
            if kind == "plan":
                yield (0 if last == HEADER else 1), each
            elif kind == "scan":
                yield {SCAN: 1, RESULT: 2}.get(each.name.partition("/")[2], 0), each
            else:
                yield (2 if kind == "report" else 0), each

    def _reason(self, key: tuple[Kind, str]) -> str:
        kind = key[0]
        if self._needs.is_gone and kind not in ("report", "ledger"):
            return f"the table does not exist any more, and older than {KEEP_PLANS_MS // _DAY_MS} d"
        return f"older than {(self._limit_ms(key) or 0) // _DAY_MS} d"
