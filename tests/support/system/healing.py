"""The end of a run with troubles: let the system heal, and say what is wrong then."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from lakesweep.errors import MaintenanceError
from lakesweep.storage.store import Store
from tests.support.reader import UnreadableRootError, read_all
from tests.support.system.deployed import System
from tests.support.system.hand import Hand
from tests.support.system.maintainers import Maintainers
from tests.support.system.scans import ask_for_scan

SWEEPS = 8
"""After so many sweeps nothing may be left to do."""
BETWEEN_SWEEPS_S = 420.0
"""Longer than a FIFO queue remembers what it was sent."""


SCANS = 4
"""After so many scans of each table nothing that was planted may be left that should go."""


class Judged(Protocol):
    """A table that says itself what is wrong with it."""

    name: str
    location: str
    store: Store

    @property
    def has_orphans(self) -> bool: ...

    def differences(self) -> list[str]: ...


def heal(system: System, maintainers: Maintainers, tables: Iterable[Judged] = ()) -> bool:
    """Let everything be done that waits, and sweep until a sweep changes nothing. Tell whether that came.

    Args:
        system: Nothing goes wrong in it any more.
        maintainers: Count the changes.
        tables: Those in which orphans may be left of scans that were lost are scanned again.
    """
    system.settle()
    for _ in range(SCANS):
        left = [table for table in tables if table.has_orphans]
        for table in left:
            ask_for_scan(system, table.location, execute=True)
        if left:
            system.settle()
    for _ in range(SWEEPS):
        changes = maintainers.changes
        system.pass_time(BETWEEN_SWEEPS_S)
        system.tick()
        system.settle()
        if maintainers.changes == changes:
            return True
    return False


def problems_of(
    system: System, tables: Iterable[Judged], maintainers: Maintainers, poison: Sequence[str] = ()
) -> list[str]:
    """Return what is wrong with a system that had its time to heal, and with the way it went there.

    Args:
        system: At rest.
        tables: All that it has.
        maintainers: What was seen of them.
        poison: Bodies that belong into the queues of dead letters, and nothing else does.
    """
    problems = [*maintainers.problems]
    if maintainers.most_at_once > 1:
        problems.append(f"{maintainers.most_at_once} held one lease at once")
    problems += [f"a role denied request {it.number}: {it.caller} {it.operation} {it.key}" for it in system.aws.denied]
    for name, rule in system.rules.items():
        problems += [f"{name}: {error!r}" for error in rule.errors]
    problems += _of_queues(system, poison)
    problems += _of_invocations(system)
    for number, table in enumerate(tables):
        problems += _of_table(system, table, number)
    return problems


def _of_queues(system: System, poison: Sequence[str]) -> Iterator[str]:
    dead = system.dead_letters()
    for name, count in system.backlog().items():
        if name not in dead:
            yield f"{name} has {count} messages still"
    bodies = sorted(message.body for name in dead for message in system.queues[name].messages())
    if bodies != sorted(poison):
        yield f"dead letters: expected {sorted(poison)}, found {bodies}"


def _of_invocations(system: System) -> Iterator[str]:
    for done in system.invocations:
        if done.error not in ("", "Crash", "Timeout"):
            yield f"{done.caller}: {done.error} {done.value}"
        for line in done.lines:
            if "an unexpected error" in str(line.get("message")):
                yield f"{done.caller}: {json.dumps(line)}"


def _of_table(system: System, table: Judged, number: int) -> Iterator[str]:
    try:
        read_all(table.store)
    except UnreadableRootError as error:
        yield f"{table.name}: {error}"
    yield from table.differences()
    hand = Hand(system, 1000 + number)
    area = hand.table(table.location).area
    assert area is not None
    try:
        lease = json.loads(area.read("lease.json").data)
        report = hand.run(table.location, execute=False, all_branches=True)
    except MaintenanceError as error:
        yield f"{table.name}: {error}"
        return
    if lease["intent"] is not None:
        yield f"{table.name}: {lease['intent']} was begun and never finished"
    if report.status != "nothing_to_do":
        yield f"{table.name}: another pass has something to do: {report.status}"
