"""A table that takes a commit every second, for five minutes of the system's time.

Its time passes ten times as fast as the work. So the functions look ten times as slow as they are: a hard case for the
queues, and a generous one for the intervals.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from benchmarks import cost
from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import Request
from tests.support.system.exactness import assert_exact
from tests.support.system.maintainers import Maintainers
from tests.support.table_builder import TableBuilder

SPEED = 10.0
SECONDS = 300
INTERVAL_S = 60
"""MinInterval, as the template has it by itself."""
RETAINED = 20
OPTIONS = {
    "snapshot.num-retained.min": "10",
    "snapshot.num-retained.max": str(RETAINED),
    "snapshot.time-retained": "1 h",
    "snapshot.expire.limit": "200",
}
MERGED_EVERY = 30
KINDS = {
    "GetObject": "get",
    "HeadObject": "get",
    "ListObjectsV2": "list",
    "PutObject": "put",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}


@dataclass
class Passes:
    """When a pass was made, as the state says that it leaves for the next one."""

    times_ms: list[int] = field(default_factory=list)

    def note(self, request: Request) -> None:
        """Look at a request that was carried out."""
        if request.operation == "PutObject" and request.key.endswith("/state.json"):
            self.times_ms.append(json.loads(request.body)["branches"]["main"]["checked_ms"])

    def gaps_s(self) -> list[float]:
        """Return the seconds from each pass to the next."""
        times = sorted(set(self.times_ms))
        return [(later - earlier) / 1000 for earlier, later in pairwise(times)]


def commit_every_second(system: System, table: TableBuilder) -> dict[str, int]:
    """Write, and return how many messages each queue had at most."""
    began_s = system.clock.now()
    most: Counter[str] = Counter()
    for number in range(1, SECONDS + 1):
        system.clock.sleep(began_s + number - system.clock.now())
        table.commit(
            f"+F{number}",
            *([f"-F{number - 1}"] if number > 1 else []),
            merge_base=number % MERGED_EVERY == 0,
            time_ms=int(system.clock.now() * 1000),
        )
        most |= Counter({name: len(queue.messages()) for name, queue in system.queues.items()})
    late_s = system.clock.now() - began_s - SECONDS
    assert late_s < SECONDS / 10, f"the writer was {late_s:.0f} s late in the end"
    return dict(most)


def events_of(system: System, written: int) -> int:
    """Return how many objects of the tables came or went; EventBridge counts each."""
    asked = [it for it in system.aws.log if it.bucket == system.bucket]
    single = sum(it.operation in ("PutObject", "DeleteObject") for it in asked)
    return written + single + sum(len(it.asked["Delete"]["Objects"]) for it in asked if "Delete" in it.asked)


def priced(system: System, requests: Mapping[str, int], control_bytes: int, events: int) -> cost.Usage:
    """Return what was used, as far as anybody pays for it. Seconds of functions are those of this machine."""
    sizes = {name: int(it.environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]) for name, it in system.functions.items()}
    sent = Counter(it.asked["QueueUrl"].endswith(".fifo") for it in system.aws.log if it.operation == "SendMessage")
    usage = cost.requests(requests) + cost.events(events) + cost.Usage({"s3_storage": control_bytes / 1e9})
    for done in system.invocations:
        usage += cost.invocation(sizes[done.function] / 1024, done.seconds, len(json.dumps(done.lines)) / 1000)
    delivered = sum(rule.delivered for rule in system.rules.values())
    return usage + cost.Usage({"sqs_standard": 3 * (sent[False] + delivered), "sqs_fifo": 3 * sent[True]})


def price(usage: cost.Usage, name: str) -> float:
    """Return what one part of a usage costs."""
    return usage.units[name] * cost.price_of(name)


@pytest.mark.slow
@pytest.mark.long
def test_a_table_with_a_commit_a_second(build: Build, record_property: Callable[[str, object], None]) -> None:
    passes = Passes()
    with System(build, speed=SPEED) as system:
        system.aws.after.append(passes.note)
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        store = system.backdoor("hot.db/t")
        table = TableBuilder(store, options=OPTIONS)
        most = commit_every_second(system, table)
        at_end_ms = int(system.clock.now() * 1000)
        log = [it for it in system.aws.log if it.function in system.functions]
        requests = Counter(KINDS[it.operation] for it in log if it.operation in KINDS)
        written = Counter(it.key for it in log if it.operation == "PutObject" and it.bucket == system.control_bucket)
        left = {it.key: it.size_bytes for it in system.control().list("")}
        usage = priced(system, requests, sum(left.values()), events_of(system, store.put_count))
        invocations = Counter(it.function for it in system.invocations)
        during = sum(each <= at_end_ms for each in set(passes.times_ms))

        system.settle(within_s=180)
        assert_exact(table, range(SECONDS - RETAINED + 1, SECONDS + 1))
        assert not system.backlog()
        assert not [it for it in system.invocations if it.error], system.invocations
        assert not maintainers.problems
        assert maintainers.most_at_once == 1
        window_s = system.mappings["OnSnapshotWritten"].window_s
        slowest_s = max(it.seconds for it in system.invocations) * SPEED
    gaps = passes.gaps_s()
    hours = SECONDS / 3600
    record_property(
        "system",
        f"hot table, {SECONDS} s: {during} passes, {min(gaps):.0f} to {max(gaps):.0f} s apart; at most {most} "
        f"messages; invocations {dict(invocations)}, the slowest {slowest_s:.0f} s of the system's\n"
        f"  an hour: {sum(requests.values()) / hours:.0f} requests to S3 "
        f"({', '.join(f'{kind} {count / hours:.0f}' for kind, count in sorted(requests.items()))}), "
        f"{len(left) / hours:.0f} control documents that stay, {(sum(written.values()) - len(left)) / hours:.0f} that "
        f"are replaced; {cost.dollars(usage) / hours:.3f} USD, {price(usage, 'eventbridge_opt_in') / hours:.3f} of it "
        f"for the bucket's events, {cost.dollars(cost.requests(requests)) / hours:.3f} for requests to S3",
    )
    # No sooner than configured (S3's clock has whole seconds), and no later than a hint comes back that was told to
    # wait: it may miss one window and wait through the next, and then the functions take their time.
    assert min(gaps) >= INTERVAL_S - 1, gaps
    longest_s = INTERVAL_S + 2 * window_s + 2 * slowest_s
    assert max(gaps) <= longest_s, (gaps, longest_s)
    assert SECONDS / longest_s - 1 <= during <= SECONDS / INTERVAL_S + 1
    # Commits: those of the window that is open and those that a function has. Hints: one of each window while it waits.
    bound = 2 * (window_s + slowest_s) + longest_s / window_s + 1
    assert most["CommitsQueue"] <= bound, (most, bound)
    assert most["ExpireQueue"] <= 1 + longest_s / window_s, most
    assert not {name for name, count in most.items() if count and name not in ("CommitsQueue", "ExpireQueue")}
