"""Random tables for simulations: with tags, branches, changelogs, consumers, deletion vectors and keys."""

import json
from datetime import timedelta
from random import Random
from typing import Any

from lakesweep.model.simulation import TableSimulation
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.simulate import simulate_table
from tests.support.memory_store import MemoryStore
from tests.support.world import HOUR_MS, START_MS, World

_NOT_COUNTED = ("schema/", "consumer/")


class SimulatedWorld(World):
    """A table without orphan files, so that its objects are what a simulation counts."""

    def counted(self) -> dict[str, int]:
        """Return path -> bytes of each object that a simulation counts. No document states sizes of extra files."""
        found = {}
        for entry in self.store.list(""):
            below = entry.key.partition("/branch-")[2].partition("/")[2] or entry.key
            if not below.startswith(_NOT_COUNTED) and not below.endswith(("/EARLIEST", "/LATEST")):
                found[entry.key] = 0 if entry.key.endswith(".index") else entry.size_bytes
        return found

    def fleet_policy(self, *rules: dict[str, Any]) -> str:
        """Write a fleet policy, and return its location."""
        self.control.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())
        return f"{self.control.location}/policy.json"

    def open_store(self, location: str) -> MemoryStore:
        """Open the store of the fleet policy."""
        assert location == self.control.location
        return self.control

    def simulate(self, *policies: Policy, days: int | None = None) -> TableSimulation:
        """Simulate policies, the present one first, by a process that has no metadata cache."""
        return simulate_table(self.maintainer(control=self.new_control()).table, policies, days)


def random_table(seed: int) -> SimulatedWorld:
    """Return a table after some commits, an expiry and more commits."""
    random = Random(seed)
    decoupled, producer, keyed = random.random() < 0.3, random.random() < 0.5, random.random() < 0.5
    options = {"snapshot.num-retained.min": str(random.choice((1, 2, 4))), "snapshot.num-retained.max": "9"}
    options |= {"snapshot.time-retained": random.choice(("1 h", "5 h", "1 d"))}
    if decoupled:
        options |= {"changelog.num-retained.max": "30", "changelog.time-retained": "1000 d"}
    if producer:
        options["changelog-producer"] = "input"
    table: dict[str, Any] = {"primary_keys": ("k",)} if keyed else {}
    world = SimulatedWorld(options=options, now_ms=START_MS, **table)
    story = _Story(world, random, producer)
    for _ in range(random.randrange(2, 10)):
        story.step()
    if random.random() < 0.7:
        count = random.randrange(1, 4)
        world.run("expire-snapshots", retain_max=count, retain_min=1, max_deletes=1000)
        world.forget_what_is_gone()
    for _ in range(random.randrange(4, 20)):
        story.step()
    world.now_ms += random.choice((0, HOUR_MS, 10 * HOUR_MS))
    ids = world.ids()
    for number in range(random.choice((0, 0, 1, 2))):
        world.table.consumer(f"c{number}", random.choice(ids) + random.choice((0, 1)))
    return world


class _Story:
    def __init__(self, world: SimulatedWorld, random: Random, producer: bool) -> None:
        self.world, self.random, self.producer = world, random, producer
        self.number = 0
        self.branch: Any = None

    def step(self) -> None:
        world, random, table = self.world, self.random, self.world.table
        self.number += 1
        number = self.number
        world.now_ms += random.choice((1, 60_000, HOUR_MS, 7 * HOUR_MS))
        time_ms = world.now_ms - (random.randrange(3 * HOUR_MS) if random.random() < 0.1 else 0)
        ids = world.ids()
        if len(ids) > 3 and random.random() < 0.08:
            table.rollback_as_latest(random.choice(ids[:-1]), time_ms=time_ms)
        elif random.random() < 0.1 and ids:
            table.merge_manifests(time_ms=time_ms)
        else:
            self._commit(number, time_ms)
        if random.random() < 0.3:
            ttl = timedelta(hours=random.choice((1, 50, 1000))) if random.random() < 0.3 else None
            table.tag(f"t{number}", ttl=ttl)
            if self.branch is None and random.random() < 0.2:
                self.branch = table.branch(f"b{number}", from_tag=f"t{number}")
                self.branch.commit(f"+B{number}", time_ms=time_ms)

    def _commit(self, number: int, time_ms: int) -> None:
        random, table = self.random, self.world.table
        live = self._live()
        gone = random.sample(live, min(len(live), random.choice((0, 1, 1, 2, 4))))
        entries = [f"-{symbol}@{level}" for symbol, level in gone]
        staying = [each for each in live if each not in gone]
        if staying and random.random() < 0.2:
            symbol, level = random.choice(staying)
            entries += [f"-{symbol}@{level}", f"+{symbol}@{level + 1}"]
            staying = []
        added = [f"F{number}x{index}" for index in range(random.randrange(3))]
        entries += [f"+{symbol}" for symbol in added]
        more: dict[str, Any] = {}
        if added and random.random() < 0.2:
            more["extra"] = {added[0]: ["index"]}
        if staying and random.random() < 0.4:
            more["index"] = {f"i{number}": {staying[0][0]: (1, number)}}
        elif live and not staying and random.random() < 0.3:
            more["index"] = {}
        if random.random() < 0.2:
            more["statistics"] = f"s{number}"
        if random.random() < 0.5:
            more["changelog"] = [f"+L{number}"] if self.producer else ()
        if random.random() < 0.3:
            more["file_source"] = dict.fromkeys(added, 1)
        if random.random() < 0.4:
            more |= {"user": f"u{random.randrange(3)}", "identifier": number}
        table.commit(*entries, merge_base=random.random() < 0.15, time_ms=time_ms, **more)

    def _live(self) -> list[tuple[str, int]]:
        ids = self.world.table.ids("snapshot")
        if not ids:
            return []
        model = self.world.table.model(f"snapshot/snapshot-{max(ids)}")
        return sorted((file.symbol, file.level) for file in model.live)
