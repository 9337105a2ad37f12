"""Policies as people type them."""

import pytest

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.policy import INT_MAX, KeepRules
from lakesweep.operations.simulation.policies import Policy, policies_of
from lakesweep.runs.parameters.age import Age
from tests.support.simulated_tables import SimulatedWorld

DAY_MS = 86_400_000


def test_what_is_typed() -> None:
    """The plain options are one policy, each case is another, and the present one is the first."""
    found = policies_of(
        ["time-retained=3 d, retain-max=100", "Retain_Min=2,keep-daily=7 , pattern=20*, keep-tag=a*, keep-tag=b"],
        {"retain_max": "5", "retain_min": None, "older_than": "2026-01-31T00:00:00Z", "protect_commit_user": []},
        "daily=7, weekly=4",
    )
    assert found == (
        Policy("present policy"),
        Policy(
            "retain-max=5, older-than=2026-01-31T00:00:00Z, tags daily=7, weekly=4",
            retain_max=5,
            older_than=1_769_817_600_000,
            keep=(KeepRules("*", daily=7, weekly=4),),
        ),
        Policy("time-retained=3 d, retain-max=100", retain_max=100, older_than=Age(3 * DAY_MS)),
        Policy(
            "Retain_Min=2,keep-daily=7 , pattern=20*, keep-tag=a*, keep-tag=b",
            retain_min=2,
            keep=(KeepRules("20*", daily=7, tags=("a*", "b")),),
        ),
    )


def test_nothing_typed() -> None:
    """Some ages, without a maximum count."""
    found = policies_of([], {}, None)
    assert [each.name for each in found] == ["present policy", "1 h", "1 d", "3 d", "7 d", "30 d"]
    assert all(each.retain_max == INT_MAX and each.is_default for each in found[1:])


@pytest.mark.parametrize(
    ("cases", "tag_rules", "says"),
    [
        (["retain-max"], None, "--policy-case: expected pairs"),
        (["retain-max="], None, "--policy-case: expected pairs"),
        (["=3"], None, "--policy-case: expected pairs"),
        (["max-deletes=3"], None, "keys of keep-daily"),
        (["retain-max=x"], None, "retain_max: expected a whole number"),
        (["retain-max=1, retain-max=2"], None, "retain-max: expected one value, found 1, 2"),
        (["time-retained=3"], None, "time_retained: 3 has no unit"),
        (["time-retained=3 d, older-than=2 d"], None, "state the same"),
        (["keep-daily=0"], None, "keep_daily: expected a whole number, at least 1"),
        (["pattern=20*"], None, "expected with it one of keep_last"),
        ([" , "], None, "--policy-case: expected rules"),
        (["", "retain-max=1"], None, "--policy-case: expected rules"),
        ([], "", "--tag-rules: expected rules"),
        ([], "hourly=3", "keys of daily, last, monthly, pattern, tag, weekly, within, yearly"),
        ([f"retain-max={number}" for number in range(21)], None, "expected at most 20, found 21"),
    ],
)
def test_what_cannot_be_read(cases: list[str], tag_rules: str | None, says: str) -> None:
    """One sentence says what is wrong."""
    with pytest.raises(UsageError) as found:
        policies_of(cases, {}, tag_rules)
    assert says in str(found.value) and "\n" not in str(found.value)


def test_rules_that_contradict_each_other_are_refused() -> None:
    """By the planner, with its own sentence."""
    world = SimulatedWorld()
    world.table.commit("+A", time_ms=world.now_ms)
    for policy, code in (
        (Policy("p", retain_max=1, retain_min=2), "retain_max_below_min"),
        (Policy("p", retain_min=0), "retain_min_below_one"),
        (Policy("p", older_than=world.now_ms + DAY_MS), "cutoff_in_future"),
    ):
        with pytest.raises(RefusedError) as found:
            world.simulate(Policy("present policy"), policy)
        assert found.value.code == code
