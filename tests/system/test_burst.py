"""A thousand commits to fifty tables, as fast as they can be written."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.exactness import assert_exact
from tests.support.system.maintainers import Maintainers
from tests.support.table_builder import TableBuilder

TABLES = 50
COMMITS_A_TABLE = 20
RETAINED = 3
OPTIONS = {
    "snapshot.num-retained.min": str(RETAINED),
    "snapshot.num-retained.max": str(RETAINED + 2),
    "snapshot.time-retained": "1 h",
}


class Rehearsal(MemoryStore):
    """Notes what a writer puts, so that it can be put again in no time."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.commits: list[list[tuple[str, bytes]]] = [[]]
        """What was put until LATEST was, each time."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self.commits[-1].append((key, data))
        if key.endswith("/LATEST"):
            self.commits.append([])
        return super().put(key, data, if_absent=if_absent, if_match=if_match)


def rehearsed() -> TableBuilder:
    """Write a table that the system does not see."""
    table = TableBuilder(Rehearsal("memory://lake/t"), options=OPTIONS)
    for number in range(1, COMMITS_A_TABLE + 1):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    return table


def wait_for_deletes(system: System) -> None:
    """Wait until some pass has come so far."""
    end_s = system.clock.work.now() + 60
    while not any(request.operation == "DeleteObjects" for request in system.aws.log):
        assert system.clock.work.now() < end_s, system.backlog()
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.slow
def test_a_burst_over_many_tables(build: Build, record_property: Callable[[str, object], None]) -> None:
    with System(build) as system:
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        table = rehearsed()
        assert isinstance(table.store, Rehearsal)
        stores = [system.backdoor(f"burst.db/t{number:02}") for number in range(TABLES)]
        work = system.clock.work
        began = work.now()
        system.mappings["OnSnapshotWritten"].pause()
        for number, objects in enumerate(table.store.commits):
            if number == COMMITS_A_TABLE // 2:  # one half before anybody has looked, the other while passes are made
                half_s = work.now() - began
                system.mappings["OnSnapshotWritten"].pause(False)
                wait_for_deletes(system)
            for store in stores:
                for key, data in objects:
                    store.put(key, data)
        written_s = work.now() - began
        system.settle(within_s=240)
        rest_s = work.now() - began
        for store in stores:
            assert_exact(table, range(COMMITS_A_TABLE - RETAINED + 1, COMMITS_A_TABLE + 1), store)
        assert not maintainers.problems
        assert maintainers.most_at_once == 1
        passes = sum("run" in line for it in system.invocations for line in it.lines)
        assert not system.backlog()
        assert not [rule.errors for rule in system.rules.values() if rule.errors]
        assert not [each for each in system.invocations if each.error]
        assert not system.aws.denied
        commits = TABLES * COMMITS_A_TABLE
        assert sum(rule.delivered for rule in system.rules.values()) == commits
        counts = Counter((it.function, it.operation) for it in system.aws.log if it.function in system.functions)
        invocations = Counter(it.function for it in system.invocations)
        at_once = {name: system.mappings[name].most_at_once for name in ("OnSnapshotWritten", "Expire")}
    requests = sum(count for (_, operation), count in counts.items() if operation != "SendMessage")
    kinds = ", ".join(f"{count} {function} {operation}" for (function, operation), count in sorted(counts.items()))
    record_property(
        "system",
        f"burst: {commits} commits to {TABLES} tables in {written_s:.1f} s, half of them in {half_s:.1f} s; at rest "
        f"after {rest_s:.1f} s; {passes} passes, {requests / commits:.2f} requests to S3 a commit; invocations "
        f"{dict(invocations)}, at once {at_once}\n  {kinds}",
    )
