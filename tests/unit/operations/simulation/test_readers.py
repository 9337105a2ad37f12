"""Who would lose a snapshot, and who holds snapshots back."""

from typing import Any

import pytest

from lakesweep.model.policy import INT_MAX
from lakesweep.model.simulation import Reader
from lakesweep.operations.simulation.policies import Policy
from lakesweep.runs.parameters.retention_options import ExpireArguments
from tests.support.simulated_tables import SimulatedWorld
from tests.support.world import HOUR_MS

PRESENT = Policy("present policy")
TWO = Policy("two", retain_max=2, retain_min=2)
USERS = ("batch", "a", "a", "b", "batch", "a", "batch", "batch")
"""Who made snapshots 1 to 8; all but batch are streaming."""


@pytest.fixture
def world() -> SimulatedWorld:
    """Snapshot n holds F<n> of 100 + n bytes."""
    world = SimulatedWorld()
    for number, user in enumerate(USERS, 1):
        world.now_ms += HOUR_MS
        identifier: dict[str, Any] = {} if user == "batch" else {"identifier": number}
        gone = [f"-F{number - 1}"] if number > 1 else []
        size = {f"F{number}": 100 + number}
        world.table.commit(f"+F{number}", *gone, user=user, time_ms=world.now_ms, size=size, **identifier)
    return world


def readers(world: SimulatedWorld, policy: Policy) -> dict[str, Reader]:
    return {each.name: each for each in world.simulate(policy).cases[0].readers}


def test_streaming_users_lose_their_last_snapshot(world: SimulatedWorld) -> None:
    """These are the users that an expiry warns of."""
    found = readers(world, TWO)
    assert {name: (each.snapshot_id, each.outcome) for name, each in found.items()} == {
        "a": (6, "lost"),
        "b": (4, "lost"),
    }
    plan = world.maintainer().plan(retain_max=2, retain_min=2).plan
    assert plan is not None
    assert [f"commit user {name}," in " ".join(plan.header.warnings) for name in ("a", "b", "batch")] == [1, 1, 0]


def test_a_protected_user_holds_back(world: SimulatedWorld) -> None:
    """Snapshots 4 to 6 stay for b, whose last is 4; what they keep is what an expiry would delete else."""
    found = readers(world, Policy("b", retain_max=2, retain_min=2, protect_commit_users=("b",)))
    assert found.keys() == {"b"}
    kept = world.simulate(TWO, Policy("b", retain_max=2, retain_min=2, protect_commit_users=("b",))).cases
    assert (found["b"].outcome, found["b"].snapshots) == ("protected", 3)
    assert found["b"].bytes == kept[1].kept.bytes - kept[0].kept.bytes
    assert [case.oldest_snapshot_id for case in kept] == [7, 4]


def test_each_consumer_holds_back_what_it_alone_keeps(world: SimulatedWorld) -> None:
    """Without any consumer, six would expire."""
    free = world.simulate(TWO).cases[0].kept.bytes
    world.table.consumer("slow", 3)
    world.table.consumer("slower", 5)
    world.table.consumer("quick", 9)
    found = readers(world, TWO)
    assert {name: (each.outcome, each.snapshots) for name, each in found.items() if each.kind == "consumer"} == {
        "slow": ("holds_back", 4),
        "slower": ("holds_back", 2),
        "quick": ("kept", 0),
    }
    assert found["slow"].bytes == world.simulate(TWO).cases[0].kept.bytes - free
    world.store.delete([])
    assert world.simulate(TWO).cases[0].oldest_snapshot_id == 3


def test_a_consumer_whose_snapshot_is_gone_has_lost_it(world: SimulatedWorld) -> None:
    """It keeps everything all the same, as in an expiry."""
    world.expire(4)
    world.table.consumer("lost", 2)
    (case,) = world.simulate(TWO).cases
    assert case.kept.snapshots == 4
    (reader,) = (each for each in case.readers if each.kind == "consumer")
    assert (reader.outcome, reader.snapshots) == ("lost", 2)


def test_a_consumer_in_a_gap_has_lost_its_snapshot() -> None:
    """No snapshot has its id. A reader waits there, and fails once the snapshots before are gone."""
    world = SimulatedWorld()
    for snapshot_id in (1, 2, 6, 7, 8, 9):
        world.now_ms += HOUR_MS
        world.table.commit(f"+F{snapshot_id}", snapshot_id=snapshot_id, time_ms=world.now_ms)
    for name, next_id in (("gap", 4), ("there", 6), ("next", 10)):
        world.table.consumer(name, next_id)
    found = readers(world, TWO)
    assert {name: found[name].outcome for name in ("gap", "there", "next")} == {
        "gap": "lost",
        "there": "holds_back",
        "next": "kept",
    }


def test_a_consumer_of_changelogs_alone_loses_its_snapshot(world: SimulatedWorld) -> None:
    """With `consumer.changelog-only`, snapshots expire beside it."""
    world.table.alter(options={"consumer.changelog-only": "true", "changelog.num-retained.max": str(INT_MAX)})
    world.table.alter(options={"changelog.num-retained.min": "100"})
    world.table.consumer("c", 3)
    (case,) = world.simulate(TWO).cases
    assert case.oldest_snapshot_id == 7
    assert [(each.outcome, each.snapshots) for each in case.readers if each.kind == "consumer"] == [("lost", 0)]


def test_the_fleet_policy_limits_every_case(world: SimulatedWorld) -> None:
    """Its minimums and its users hold whatever a case says; the plan under them is the same."""
    rule = {"tables": "memory://bucket", "min_snapshots": 4, "protect_commit_users": ["b"]}
    location = world.fleet_policy(rule)
    maintainer = world.maintainer(policy=location, open_store=world.open_store)
    from lakesweep.operations.simulation.scene import read_scene
    from lakesweep.operations.simulation.simulate import simulated

    found = simulated(read_scene(maintainer.table), [PRESENT, TWO], None)
    case = found.cases[1]
    assert case.oldest_snapshot_id == 4 and case.rules.min_snapshots == 4 and case.rules.retain_max == 2
    floor = maintainer.plan(retain_max=2, retain_min=2, protect_commit_users=("b",)).plan
    assert floor is not None and floor.header.snapshots["expired"] == [1, 2, 3]
    assert any("so no pass deletes" in warning for warning in found.warnings), "no rule says to delete"
    assert ExpireArguments().floor is None
