"""A run in which everything goes wrong that can, and its verdict.

A seed gives what is written, and the list of troubles: what goes wrong, where, and at the how many-th request,
invocation or message. The same seed gives the same list. How processes and threads fall in with each other is not part
of it, so what a trouble meets may differ from run to run, and a seed that failed may need some repetitions.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from lakesweep.aws.messages import Work, to_body
from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import Request
from tests.support.system.scans import TRIGGER, ask_for_scan
from tests.support.system.scene import DAYS_TO_COME, Scene
from tests.support.system.troubles import COMMITTER, Trouble, draw
from tests.support.system.visits import Visits, put_policy
from tests.support.system.written_table import PLAIN, WrittenTable

TROUBLES = 22
ROUNDS = 3
VISITS = {"snapshot.num-retained.max": "2", "partition.expiration-check-interval": "5 min"}
CHANGELOGS = {"changelog.num-retained.min": "2", "changelog.num-retained.max": "2", "changelog.time-retained": "2 h"}


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """How a run ended."""

    seed: int
    drawn: tuple[Trouble, ...]
    happened: tuple[Trouble, ...]
    problems: tuple[str, ...]
    commits: int
    drops: int
    """Snapshots that Lakesweep committed."""
    requests: int
    invocations: int
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {'FAILED' if self.problems else 'ok'}, "
            f"{len(self.happened)} of {len(self.drawn)} troubles, {self.commits} commits, "
            f"{self.drops} of Lakesweep, {self.invocations} invocations, {self.requests} requests, {self.seconds:.1f} s"
        ]
        if self.problems:
            lines += [f"  problem: {problem}" for problem in self.problems]
            lines += [f"  trouble: {trouble}" for trouble in self.happened]
        return "\n".join(lines)


def run_chaos(build: Build, seed: int, troubles: int = TROUBLES, java: Path | None = None) -> ChaosRun:
    """Run once.

    Args:
        build: Best one with small limits, so that small tables meet all of them.
        seed: Of what is written and of what goes wrong.
        troubles: How many.
        java: For what the Java engine keeps, which then reads what pypaimon reads; `None`: it does not.
    """
    began_s = time.monotonic()
    drawn = draw(seed, troubles)
    chance = random.Random(f"tables {seed}")
    place = f"policies-{seed}/policy.json"
    parameters = {"ScanConcurrency": "2", "PolicyLocation": f"s3://{place}"}
    with Scene(build, drawn, seed=seed, parameters=parameters) as scene:
        put_policy(scene.system, place)
        tables = [
            scene.table("sales.db/orders"),
            scene.table("sales.db/returns", {**PLAIN, **CHANGELOGS}, primary_keys=("id",)),
            scene.table("sales.db/read", {**PLAIN, "snapshot.num-retained.max": "4"}),
            scene.table("raw.db/many", {**PLAIN, "snapshot.expire.limit": "3"}),
        ]
        visits = scene.visited("visits", **VISITS)
        try:
            for number in range(ROUNDS):
                _write(chance, tables, number)
                _visit(chance, visits, number)
                _go_on(chance, scene.system, tables)
            problems = scene.end()
            if java is not None and not problems:
                problems = visits.differences_to_java(java)
        except TimeoutError as error:
            problems = [str(error)]
        return ChaosRun(
            seed,
            drawn,
            tuple(scene.waiting.happened),
            tuple(problems),
            sum(table.commits for table in tables) + visits.commits,
            sum(_is_new_snapshot(request) for request in scene.system.aws.log),
            len(scene.system.aws.log),
            len(scene.system.invocations),
            time.monotonic() - began_s,
        )


def _write(chance: random.Random, tables: list[WrittenTable], number: int) -> None:
    """Write one round."""
    for table in chance.sample(tables, len(tables)):
        table.commit(chance.randint(2, 5))
        if chance.random() < 0.4:
            table.plant(f"round {number}")
        if chance.random() < 0.5:
            table.tag(f"t{number}")
            if len(table.branches) == 1:
                table.branch("rt", f"t{number}")
        if len(table.branches) > 1:
            table.commit(chance.randint(1, 3), "rt")
    if number == 0:
        tables[2].consumer("slow", 2)


def _visit(chance: random.Random, visits: Visits, number: int) -> None:
    """Write days that stay, one that is over and one that is soon dropped; and let an earlier one be dropped."""
    stays, over, drops = visits.day(-DAYS_TO_COME), visits.day(30 + number), visits.day(-20 - number)
    visits.write(stays, over, drops)
    for _ in range(chance.randint(0, 2)):
        visits.write(stays, *([over] if chance.random() < 0.5 else []))
    if chance.random() < 0.4:
        visits.tag(f"v{number}")
    if chance.random() < 0.8:
        visits.drop(drops)
    if chance.random() < 0.5:
        visits.write(stays)


def _is_new_snapshot(request: Request) -> bool:
    is_put = (request.function, request.operation, request.status) == (COMMITTER, "PutObject", 200)
    return is_put and "/snapshot/snapshot-" in request.key


def _go_on(chance: random.Random, system: System, tables: list[WrittenTable]) -> None:
    """Let the system work for a while: until it is at rest, or in the middle of it."""
    if chance.random() < 0.4:
        table = chance.choice(tables)
        system.queues["ExecuteQueue"].send(to_body(Work(table.location, chance.choice(table.branches))))
    for table in tables:
        if table.has_orphans and chance.random() < 0.5:
            ask_for_scan(system, table.location, execute=chance.random() < 0.8)
    if chance.random() < 0.5:
        system.tick()
    if chance.random() < 0.3:
        system.tick(TRIGGER)
    if chance.random() < 0.7:
        system.settle()
    else:
        system.pass_time(chance.uniform(1, 900))
