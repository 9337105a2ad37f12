"""What a simulation foretells is there after the expiry, on random tables."""

from typing import Any

import pytest

from lakesweep.model.policy import INT_MAX, KeepRules
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.simulate import simulate_table
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.retention_options import ExpireArguments
from tests.support.simulated_tables import SimulatedWorld, random_table
from tests.support.world import HOUR_MS

PRESENT = Policy("present policy")
POLICIES = (
    PRESENT,
    Policy("the newest", retain_max=1, retain_min=1),
    Policy("three", retain_max=3, retain_min=2),
    Policy("5 h", retain_max=INT_MAX, retain_min=1, older_than=Age(5 * HOUR_MS)),
    Policy("a user", retain_max=1, retain_min=1, protect_commit_users=("u1",)),
    Policy("one tag", retain_max=2, retain_min=1, keep=(KeepRules("*", last=1),)),
)


def expire(world: SimulatedWorld, policy: Policy) -> None:
    """Apply a policy by the commands that a person would call."""
    limits = policy.limits(world.now_ms)
    world.run("expire-tags", **({"pattern": "*", "keep_last": 1} if policy.keep else {}))
    arguments: dict[str, Any] = {"retain_max": limits.retain_max, "retain_min": limits.retain_min}
    if limits.older_than_ms is not None:
        arguments["older_than"] = str(limits.older_than_ms)
    if limits.protect_commit_users:
        arguments["protect_commit_user"] = list(limits.protect_commit_users)
    world.run("expire-snapshots", max_deletes=INT_MAX, **arguments)


@pytest.mark.parametrize("seed", range(60))
def test_the_bytes_are_there_after_the_expiry(seed: int) -> None:
    """Of each of several policies, on a copy of the table."""
    world = random_table(seed)
    found = world.simulate(*POLICIES)
    assert simulate_table(world.maintainer().table, POLICIES) == found, "a metadata cache changes nothing"
    there = world.counted()
    assert (found.now.bytes, found.now.data_files + found.now.metadata_files) == (sum(there.values()), len(there))
    for policy, case in zip(POLICIES, found.cases, strict=True):
        copy = world.copy()
        expire(copy, policy)
        left = copy.counted()
        assert case.kept.bytes == sum(left.values()), policy.name
        assert case.kept.data_files + case.kept.metadata_files == len(left), policy.name
        assert case.kept.snapshots == len(copy.ids()), policy.name
        assert case.kept.tags == len(copy.keys("tag/")), policy.name
        assert case.oldest_snapshot_id == copy.ids()[0], policy.name
        assert case.kept.bytes + case.deleted.bytes == found.now.bytes


@pytest.mark.parametrize("seed", range(60))
def test_the_present_policy_deletes_what_an_expiry_plans_now(seed: int) -> None:
    """Without the limit of one run, and without the expiry of tags."""
    world = random_table(seed)
    maintainer = world.maintainer()
    maintainer.run("expire-tags")
    world.forget_what_is_gone()
    (case,) = world.simulate(PRESENT).cases
    plan = plan_expire_snapshots(maintainer.table, ExpireArguments(max_deletes=INT_MAX))
    there = world.counted()
    deleted = [delete.path for delete in plan.deletes]
    puts = sum(action.kind == "changelog_document" for action in plan.actions if action not in plan.deletes)
    assert case.deleted.snapshots == len(plan.header.snapshots["expired"])  # type: ignore[arg-type]
    assert case.deleted.data_files + case.deleted.metadata_files == len(deleted) - puts
    documents = [path for path in deleted if path.startswith("snapshot/")] if puts else []
    assert case.deleted.bytes == sum(there[path] for path in deleted if path not in documents)
    assert not case.deleted.tags


@pytest.mark.parametrize("seed", range(6))
def test_a_branch(seed: int) -> None:
    """Its expiry deletes what main and its tags do not need, and the simulation of the branch foretells that."""
    world = random_table(seed)
    world.table.tag("source")
    branch = world.table.branch("work", from_tag="source")
    for number in range(1, 9):
        world.now_ms += HOUR_MS
        gone = [f"-W{number - 2}"] if number > 2 else []
        branch.commit(f"+W{number}", *gone, time_ms=world.now_ms, merge_base=number == 5)
        if number == 3:
            branch.tag("three")
    for policy in (Policy("the newest", retain_max=1, retain_min=1), Policy("four", retain_max=4, retain_min=4)):
        found = simulate_table(world.maintainer(branch="work", control=world.new_control()).table, [PRESENT, policy])
        there = world.counted()
        assert found.branch == "work" and found.now.bytes == sum(there.values())
        copy = world.copy()
        limits = policy.limits(world.now_ms)
        more = {"retain_max": limits.retain_max, "retain_min": limits.retain_min, "max_deletes": INT_MAX}
        copy.run("expire-snapshots", on="work", **more)
        assert found.cases[1].kept.bytes == sum(copy.counted().values())
        assert found.cases[1].kept.snapshots == len(copy.ids("branch/branch-work/snapshot")) < found.now.snapshots


def test_snapshots_that_a_fast_forward_brought_back() -> None:
    """Their changelogs are there already, so their documents become nothing else when they expire again."""
    options = {"snapshot.num-retained.min": "1", "changelog.num-retained.max": "30"}
    world = SimulatedWorld(options={**options, "changelog.time-retained": "1000 d"})
    for number in range(1, 4):
        world.table.commit(f"+F{number}", time_ms=world.now_ms)
        if number == 1:
            world.table.tag("begin")
    world.table.branch("work", from_tag="begin").commit("+W", time_ms=world.now_ms)
    world.expire(1)
    world.forget_what_is_gone()
    world.table.fast_forward("work")
    assert world.ids() == [1, 2] and {"changelog/changelog-1", "changelog/changelog-2"} <= world.keys("changelog/")
    policy = Policy("the newest", retain_max=1, retain_min=1)
    (case,) = world.simulate(policy).cases
    there = world.counted()
    world.expire(1)
    left = world.counted()
    assert (case.deleted.metadata_files, case.deleted.bytes) == (
        len(there) - len(left),
        sum(there.values()) - sum(left.values()),
    )
