"""The sums over all tables of a simulation."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import attrgetter

from lakesweep.model.prices import PRICES_DATE, REGION, storage_usd
from lakesweep.model.simulation import MAX_POINTS, Amount, CaseTotal, CurvePoint, Simulation, TableSimulation
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.rules.thinning import thinned_steps
from lakesweep.runs.parameters.age import Age


def summed(
    place: str,
    measured_ms: int,
    days: int | None,
    policies: Sequence[Policy],
    tables: Sequence[TableSimulation],
    requests: Mapping[str, int],
) -> Simulation:
    """Return the document about some tables.

    Args:
        place: What was asked for.
        measured_ms: When the call began.
        days: The days of the history; `None`: not asked for.
        policies: The present one first. Default ones that keep every whole history are left out.
        tables: All tables. Sums are over those without a problem.
        requests: Requests by kind.
    """
    shown = [policy.name for policy in policies if not policy.is_default or _matters(policy, tables)]
    tables = [replace(each, cases=tuple(case for case in each.cases if case.name in shown)) for each in tables]
    read = [each for each in tables if each.problem is None]
    return Simulation(
        place=place,
        measured_ms=measured_ms,
        days=days,
        prices_date=PRICES_DATE,
        region=REGION,
        now=_sum(each.now for each in read),
        cases=tuple(_total(name, read) for name in shown),
        curve=thinned_steps(tuple(_curve(read)), attrgetter("bytes"), MAX_POINTS),
        failed=len(tables) - len(read),
        tables=tuple(sorted(tables, key=lambda each: (each.problem is None, -each.now.bytes, each.name))),
        requests=dict(requests),
        warnings=tuple(_warnings(tables)),
    )


def _matters(policy: Policy, tables: Iterable[TableSimulation]) -> bool:
    """Tell whether the age of a policy lies within the history of some table."""
    age_ms = policy.older_than.span_ms if isinstance(policy.older_than, Age) else 0
    return any(
        each.history_begins_ms is not None and each.measured_ms - each.history_begins_ms > age_ms for each in tables
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = reduce(_plus, amounts, Amount())
    return replace(total, usd_month=storage_usd(total.bytes))


def _plus(one: Amount, other: Amount) -> Amount:
    return Amount(
        **{
            name: getattr(one, name) + getattr(other, name)
            for name in ("snapshots", "tags", "data_files", "metadata_files", "data_bytes", "metadata_bytes", "bytes")
        }
    )


def _total(name: str, tables: Sequence[TableSimulation]) -> CaseTotal:
    cases = [case for each in tables for case in each.cases if case.name == name]
    histories = [case.history for case in cases if case.history is not None]
    return CaseTotal(
        name=name,
        kept=_sum(case.kept for case in cases),
        deleted=_sum(case.deleted for case in cases),
        lost_readers=sum(reader.outcome == "lost" for case in cases for reader in case.readers),
        peak_bytes=sum(each.peak_bytes for each in histories) if histories else None,
        average_bytes=sum(each.average_bytes for each in histories) if histories else None,
    )


def _curve(tables: Sequence[TableSimulation]) -> Iterator[CurvePoint]:
    """Yield the sum of the tables' curves: a step where one of them has a step."""
    ended = [[(point.age_ms, number, point) for point in each.curve] for number, each in enumerate(tables)]
    last: dict[int, CurvePoint] = {}
    snapshots = size = 0
    found: CurvePoint | None = None
    for age_ms, number, point in heapq.merge(*ended, key=lambda event: event[:2]):
        before = last.get(number)
        snapshots += point.snapshots - (before.snapshots if before else 0)
        size += point.bytes - (before.bytes if before else 0)
        last[number] = point
        if found is not None and found.age_ms < age_ms:
            yield found
        found = CurvePoint(age_ms, snapshots, size, storage_usd(size))
    if found is not None:
        yield found


def _warnings(tables: Sequence[TableSimulation]) -> Iterator[str]:
    for each in tables:
        prefix = f"{each.name}: " if len(tables) > 1 else ""
        if each.problem is not None:
            yield f"{prefix}{each.problem}"
        yield from (f"{prefix}{warning}" for warning in each.warnings)
