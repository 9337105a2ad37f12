"""A run in which everything goes wrong that can, and its verdict.

A seed gives what is written, and the list of troubles: what goes wrong, where, and at the how many-th request,
invocation or message. The same seed gives the same list. How processes and threads fall in with each other is not part
of it, so what a trouble meets may differ from run to run, and a seed that failed may need some repetitions.
"""

import random
import time
from dataclasses import dataclass

from lakesweep.aws.messages import Work, to_body
from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.scans import TRIGGER, ask_for_scan
from tests.support.system.scene import Scene
from tests.support.system.troubles import Trouble, draw
from tests.support.system.written_table import PLAIN, WrittenTable

TROUBLES = 22
ROUNDS = 3
CHANGELOGS = {"changelog.num-retained.min": "2", "changelog.num-retained.max": "2", "changelog.time-retained": "2 h"}


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """How a run ended."""

    seed: int
    drawn: tuple[Trouble, ...]
    happened: tuple[Trouble, ...]
    problems: tuple[str, ...]
    commits: int
    requests: int
    invocations: int
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {'FAILED' if self.problems else 'ok'}, "
            f"{len(self.happened)} of {len(self.drawn)} troubles, {self.commits} commits, "
            f"{self.invocations} invocations, {self.requests} requests, {self.seconds:.1f} s"
        ]
        if self.problems:
            lines += [f"  problem: {problem}" for problem in self.problems]
            lines += [f"  trouble: {trouble}" for trouble in self.happened]
        return "\n".join(lines)


def run_chaos(build: Build, seed: int, troubles: int = TROUBLES) -> ChaosRun:
    """Run once.

    Args:
        build: Best one with small limits, so that small tables meet all of them.
        seed: Of what is written and of what goes wrong.
        troubles: How many.
    """
    began_s = time.monotonic()
    drawn = draw(seed, troubles)
    chance = random.Random(f"tables {seed}")
    with Scene(build, drawn, seed=seed, parameters={"ScanConcurrency": "2"}) as scene:
        tables = [
            scene.table("sales.db/orders"),
            scene.table("sales.db/returns", {**PLAIN, **CHANGELOGS}, primary_keys=("id",)),
            scene.table("sales.db/read", {**PLAIN, "snapshot.num-retained.max": "4"}),
            scene.table("raw.db/many", {**PLAIN, "snapshot.expire.limit": "3"}),
        ]
        try:
            for number in range(ROUNDS):
                _write(chance, tables, number)
                _go_on(chance, scene.system, tables)
            problems = scene.end()
        except TimeoutError as error:
            problems = [str(error)]
        return ChaosRun(
            seed,
            drawn,
            tuple(scene.waiting.happened),
            tuple(problems),
            sum(table.commits for table in tables),
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
