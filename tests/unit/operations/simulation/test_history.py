"""What a policy would have kept after each commit is what it keeps if it is followed from the beginning."""

from itertools import pairwise
from random import Random

import pytest

from lakesweep.format.snapshot import Snapshot
from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.operations.retention.rules.snapshot_cap import cap_range
from lakesweep.operations.retention.rules.snapshot_range import select_range
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.rules.expired import by_commit
from lakesweep.runs.parameters.age import Age
from tests.support.simulated_tables import SimulatedWorld
from tests.support.world import HOUR_MS

DAY_MS = 24 * HOUR_MS


def snapshot(number: int, time_ms: int, user: str) -> Snapshot:
    names = {"base_manifest_list": "b", "delta_manifest_list": "d", "commit_kind": "APPEND"}
    nothing = dict.fromkeys(
        ("version", "base_manifest_list_size", "delta_manifest_list_size", "changelog_manifest_list", "index_manifest",
         "changelog_manifest_list_size", "total_record_count", "delta_record_count", "changelog_record_count",
         "watermark", "statistics", "uuid", "next_row_id", "operation")
    )  # fmt: skip
    return Snapshot(id=number, schema_id=0, commit_user=user, commit_identifier=1, time_ms=time_ms, **names, **nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(300))
def test_the_planner_would_have_expired_as_many(seed: int) -> None:
    """After each commit, with clocks that go backwards, gaps in the ids, minimums and protected users."""
    random = Random(seed)
    snapshots: list[Snapshot] = []
    number, time_ms = random.randrange(1, 4), 10**12
    for _ in range(random.randrange(1, 30)):
        time_ms += random.choice((0, 1, HOUR_MS, 5 * HOUR_MS, -HOUR_MS))
        snapshots.append(snapshot(number, time_ms, random.choice("abc")))
        number += random.choice((1, 1, 1, 3))
    least = random.randrange(1, 4)
    rules = SnapshotRetention(
        least, random.choice((INT_MAX, least, least + 3)), random.choice((0, 1, 6 * HOUR_MS)), INT_MAX
    )
    floor = random.choice(
        (None, SnapshotRetention(random.randrange(1, 6), INT_MAX, random.choice((0, DAY_MS)), INT_MAX))
    )
    users = random.choice(((), ("a",), ("b", "x")))
    there: list[Snapshot] = []
    expected = []
    for each in snapshots:
        there.append(each)
        times = {one.id: one.time_ms for one in there}
        chosen = select_range(tuple(times), times, rules, None, each.time_ms)
        chosen, _ = cap_range(chosen, there, floor, users, each.time_ms)
        there = there[len(chosen.expired) :]
        expected.append(len(expected) + 1 - len(there))
    assert by_commit(snapshots, rules, floor, users) == expected


@pytest.mark.parametrize("seed", range(12))
def test_a_table_that_is_expired_after_each_commit_has_these_bytes(seed: int) -> None:
    """One table follows the policy, another is never expired; the simulation of the other foretells the first."""
    random = Random(seed)
    policy = Policy("p", retain_max=random.choice((3, INT_MAX)), retain_min=2, older_than=Age(5 * HOUR_MS))
    changelog = {"changelog-producer": "input"} if random.random() < 0.5 else {}
    worlds = [SimulatedWorld(options=changelog) for _ in range(2)]
    measured: list[tuple[int, int, int]] = []
    for number in range(1, 25):
        after_ms, gone, merge = random.choice((1, HOUR_MS, 4 * HOUR_MS)), random.random() < 0.7, random.random() < 0.2
        for world in worlds:
            world.now_ms += after_ms
            entries = [f"+F{number}"] + ([f"-F{number - 1}"] if gone and number > 1 and _has(world, number - 1) else [])
            more = {"changelog": [f"+L{number}"]} if changelog else {}
            world.table.commit(*entries, time_ms=world.now_ms, merge_base=merge and number > 2, **more)  # type: ignore[arg-type]
        expired = worlds[1]
        cutoff = str(expired.now_ms - 5 * HOUR_MS)
        arguments = {"retain_min": 2, "retain_max": policy.retain_max, "older_than": cutoff, "max_deletes": INT_MAX}
        expired.run("expire-snapshots", **arguments)
        measured.append((expired.now_ms, len(expired.ids()), sum(expired.counted().values())))
    worlds[0].now_ms += HOUR_MS
    (case,) = worlds[0].simulate(policy, days=100).cases
    assert case.history is not None
    assert [(each.time_ms, each.snapshots, each.bytes) for each in case.history.points] == measured
    times = [time_ms for time_ms, _, _ in measured] + [worlds[0].now_ms]
    spans = [later - time_ms for time_ms, later in pairwise(times)]
    assert case.history.peak_bytes == max(size for _, _, size in measured)
    whole = sum(size * span for (_, _, size), span in zip(measured, spans, strict=True))
    assert case.history.average_bytes == whole // sum(spans)
    (short,) = worlds[0].simulate(policy, days=1).cases
    assert short.history is not None
    since_ms = worlds[0].now_ms - DAY_MS
    later = [each for each in measured if each[0] > since_ms]
    earlier = [each for each in measured if each[0] <= since_ms]
    points = [(each.time_ms, each.snapshots, each.bytes) for each in short.history.points]
    assert points == [*((since_ms, *each[1:]) for each in earlier[-1:]), *later]


def _has(world: SimulatedWorld, number: int) -> bool:
    newest = max(world.table.ids("snapshot"))
    return any(file.symbol == f"F{number}" for file in world.table.model(f"snapshot/snapshot-{newest}").live)


def test_a_table_without_snapshots_has_no_history() -> None:
    """Nothing is known of it."""
    world = SimulatedWorld()
    found = world.simulate(Policy("present policy"), days=3)
    assert found.history_begins_ms is None and found.curve == () and found.now.bytes == 0
    assert found.cases[0].history is None and found.cases[0].reaches_ms is None
