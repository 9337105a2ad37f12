"""The fleet policy at work: what `maintain` does under which rule, and that a policy only ever keeps more."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import AccessDeniedError, StorageError, UsageError
from lakesweep.model.policy import INT_MAX, FleetRule, SnapshotRetention
from lakesweep.model.roots import TableRef
from lakesweep.operations.retention.rules.snapshot_cap import cap_by_floor
from lakesweep.operations.retention.rules.snapshot_range import select_range
from lakesweep.runs.fleet import Ruling, limited, ruling_of
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.location import spell
from lakesweep.storage.store import Body
from tests.support.maintenance import assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.ruled_world import POLICY, TABLE, RuledWorld
from tests.support.sampling import examples

ALL = list(range(1, 11))


def test_without_a_policy_the_table_decides() -> None:
    """No policy: as ever."""
    world = RuledWorld()
    report = world.maintainer(policy=None).maintain()
    assert (report.status, report.all_warnings()) == ("done", ())
    assert world.ids() == [8, 9, 10]


def test_a_rule_that_says_delete() -> None:
    """The table's own retention is carried out, without a word about the policy."""
    world = RuledWorld().rule(mode="delete")
    report = world.maintain()
    assert (report.status, report.executed, report.all_warnings()) == ("done", True, ())
    assert world.ids() == [8, 9, 10]
    assert_roots_readable(world.table)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (({"tables": "memory://lake/"},), "states no mode for memory://lake, so the table is observed"),
        (({"tables": "memory://lake/", "mode": "observe"},), "says of memory://lake to observe"),
        (({"tables": "memory://other/", "mode": "delete"},), "has no rule for this table"),
        ((), "has no rule for this table"),
        (
            ({"tables": "memory://lake/", "mode": "delete"}, {"tables": TABLE, "mode": "observe"}),
            "says of memory://lake/sales.db/orders to observe",
        ),
        (
            ({"tables": "memory://lake/", "mode": "observe"}, {"tables": TABLE, "min_snapshots": 1}),
            "says of memory://lake to observe",
        ),
    ],
)
def test_observed_tables_lose_nothing(rules: tuple[Mapping[str, object], ...], words: str) -> None:
    """Planned, not executed, and a sentence says why."""
    world = RuledWorld().rules(*rules)
    report = world.maintain()
    assert (report.status, report.executed, report.run_id) == ("planned", False, None)
    (sentence,) = report.all_warnings()
    assert POLICY in sentence
    assert words in sentence
    assert world.ids() == ALL
    assert report.plan is not None
    assert report.plan.header.snapshots["expired"] == [1, 2, 3, 4, 5, 6, 7]


def test_the_longest_folder_allows() -> None:
    """One table of an observed folder is maintained."""
    world = RuledWorld().rules({"tables": "memory://lake/"}, {"tables": TABLE, "mode": "delete"})
    assert world.maintain().status == "done"


def test_a_rule_of_one_table_drops_nothing_of_its_folder() -> None:
    """Mode, minimum and retention of the folder hold for a table whose own rule only protects a commit user."""
    rules = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2}
    world = RuledWorld({}).rules(
        {"tables": "memory://lake/", "mode": "delete", "min_snapshots": 4, "retention": rules},
        {"tables": TABLE, "protect_commit_users": ["nobody"]},
    )
    assert world.maintain().status == "done"
    assert world.ids() == [7, 8, 9, 10]


def test_the_pause_of_a_folder_stops_tables_with_a_rule_of_their_own() -> None:
    """The refusal names the folder that pauses, and only `"pause": false` lifts the pause."""
    folder, table = {"tables": "memory://lake/", "mode": "delete", "pause": True}, {"tables": TABLE, "mode": "delete"}
    world = RuledWorld().rules(folder, table)
    report = world.maintain()
    assert report.refusal is not None
    assert report.refusal.message.endswith("is paused: policy memory://ops/fleet/policy.json says so of memory://lake")
    assert world.rules(folder, {**table, "pause": False}).maintain().status == "done"


def test_a_paused_table_is_refused() -> None:
    """By the pass after a commit always, by hand when something would be deleted, also from a stored plan."""
    world = RuledWorld().rule(mode="delete")
    planned = world.maintain(execute=False)
    assert planned.plan is not None
    world.rule(mode="delete", pause=True)
    manual = {"retain_max": 1, "retain_min": 1}
    reports = [
        world.maintain(),
        world.maintain(execute=False),
        world.run("expire-snapshots", **manual),
        world.maintainer().execute(planned.plan.header.plan_id),
    ]
    for report in reports:
        assert (report.status, report.executed) == ("refused", False)
        assert report.refusal is not None
        assert report.refusal.code == "paused"
        assert "is paused: policy memory://ops/fleet/policy.json says so of memory://lake" in report.refusal.message
    assert world.run("expire-snapshots", execute=False, **manual).status == "planned"
    assert world.ids() == ALL


def test_by_hand_only_pause_counts() -> None:
    """A person's call is not observed, and no floor holds."""
    world = RuledWorld().rule(min_snapshots=8)
    world.expire()
    assert world.ids() == [10]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ({"min_snapshots": 5}, [6, 7, 8, 9, 10]),
        ({"min_snapshots": 2}, [8, 9, 10]),
        ({"min_snapshots": 100}, ALL),
        # A successor from an hour ago is old enough by the rule "strictly older".
        ({"min_time_retained": "40 min"}, [5, 6, 7, 8, 9, 10]),
        ({"min_time_retained": "2400001 ms"}, [5, 6, 7, 8, 9, 10]),
        ({"min_time_retained": "2399999 ms"}, [6, 7, 8, 9, 10]),
        ({"min_time_retained": "1 min"}, [8, 9, 10]),
        ({"min_time_retained": "1 d"}, ALL),
        ({"min_time_retained": "40 min", "min_snapshots": 7}, [4, 5, 6, 7, 8, 9, 10]),
        ({"protect_commit_users": ["builder"]}, [10]),
    ],
)
def test_a_floor_keeps_more(words: Mapping[str, object], left: list[int]) -> None:
    """More snapshots, or a longer time, than the table's own options; a maximum count does not cut into it."""
    world = RuledWorld().rule(mode="delete", **words)
    if left == [10]:
        left = [8, 9, 10]  # the protected user's newest snapshot stays anyway
    report = world.maintain()
    assert world.ids() == left
    assert report.plan is not None
    spared = len([i for i in left if i < 8])
    assert report.plan.header.kept.get("fleet_policy", 0) == spared
    assert world.maintain().status == "nothing_to_do"
    assert_roots_readable(world.table)


def test_floors_hold_against_options_of_the_call() -> None:
    """What a call overrides, the policy still keeps."""
    world = RuledWorld().rule(mode="delete", min_snapshots=6)
    world.maintain(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    assert world.ids() == [5, 6, 7, 8, 9, 10]


def test_retention_of_the_policy() -> None:
    """It holds where the schema states none, and says so; where the schema states one, it plays no part."""
    rules = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 4}
    world = RuledWorld({}).rule(mode="delete", retention=rules)
    report = world.maintain()
    assert report.status == "done"
    assert world.ids() == [7, 8, 9, 10]
    (sentence,) = report.all_warnings()
    says = "the schema states no retention, so the fleet policy's for memory://lake holds: retain_min 1, retain_max 4"
    assert says in sentence
    assert report.plan is not None
    assert not report.plan.header.needs_confirmation
    assert report.plan.header.arguments["fleet_policy"]

    stated = RuledWorld().rule(mode="delete", retention=rules)
    assert stated.maintain().all_warnings() == ()
    assert stated.ids() == [8, 9, 10]

    called = RuledWorld({}).rule(mode="delete", retention=rules)
    called.maintain(options={"snapshot.num-retained.min": "9", "snapshot.time-retained": "1 min"})
    assert called.ids() == [2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_policy_without_retention_does_not_state_one() -> None:
    """Floors are no retention."""
    world = RuledWorld({}).rule(mode="delete", min_snapshots=1)
    report = world.maintain()
    assert report.refusal is not None
    assert report.refusal.code == "retention_not_stated"
    assert world.ids() == ALL


def test_changelogs_stay_readable_by_the_tables_own_options() -> None:
    """A policy's longer retention of snapshots does not end the separate life of changelogs."""
    options = {"changelog.time-retained": "1 d", "changelog-producer": "input"}
    world = RuledWorld(options).rule(
        mode="delete",
        retention={"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 9, "snapshot.time-retained": "30 d"},
    )
    report = world.maintain()
    assert report.plan is not None
    assert any(action.kind == "changelog_document" for action in report.plan.actions)


def test_a_shorter_retention_is_noticed() -> None:
    """What a policy says is not remembered between passes, since it can change at any time."""
    rules = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 9}
    world = RuledWorld({}).rule(mode="delete", retention=rules)
    world.maintain()
    world.rule(mode="delete", retention={**rules, "snapshot.num-retained.max": 2})
    world.maintain()
    assert world.ids() == [9, 10]


class Denied(MemoryStore):
    def read(self, key: str, max_bytes: int | None = None) -> Body:
        raise AccessDeniedError("no permission")


def test_a_policy_that_cannot_be_read_is_not_no_policy() -> None:
    """Absent, denied, damaged: nothing is deleted."""
    world = RuledWorld()
    with pytest.raises(UsageError, match="found nothing there") as absent:
        world.maintain()
    assert absent.value.code == "bad_policy"
    world.policies.put("policy.json", b"{}")
    with pytest.raises(UsageError, match="version") as damaged:
        world.maintain()
    assert damaged.value.code == "bad_policy"
    world.policies = Denied("memory://ops/fleet")
    with pytest.raises(StorageError, match="cannot be read: no permission") as denied:
        world.maintain()
    assert denied.value.code == "access_denied"
    for operation in ("maintain", "expire-snapshots"):
        with pytest.raises(StorageError):
            world.run(operation)
    assert world.ids() == ALL


@pytest.mark.parametrize("location", ["memory://ops", "/", "s3://bucket"])
def test_a_policy_is_a_document(location: str) -> None:
    """A bucket or a root is none."""
    table = RuledWorld().maintainer(policy=location).table
    with pytest.raises(UsageError) as raised:
        ruling_of(table)
    assert raised.value.code == "bad_policy"


def test_local_tables_have_one_name_however_links_spell_it(tmp_path: Path) -> None:
    """A link to a paused table is paused, and a link to a policy is followed."""
    (tmp_path / "lake" / "orders").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    document = {"version": 1, "rules": [{"tables": f"{tmp_path}/lake/", "mode": "delete"}]}
    (tmp_path / "real.json").write_text(json.dumps(document))
    (tmp_path / "policy.json").symlink_to(tmp_path / "real.json")
    for folder in ("lake", "link"):
        place = str(tmp_path / folder / "orders")
        table = Table(TableRef(place), LocalStore(place), None, LocalStore, policy=str(tmp_path / "policy.json"))
        ruling = ruling_of(table)
        assert ruling is not None
        assert ruling.rule is not None
        assert ruling.rule.mode == "delete"
    assert spell(f"{tmp_path}/link/orders/") == f"{tmp_path}/lake/orders"


def test_users_of_the_call_and_of_the_rule_add_up() -> None:
    """Each once, and everything else of the call stays as it is."""
    rule = FleetRule("/", protect_commit_users=("b", "c"))
    arguments = ExpireArguments(retain_min=4, protect_commit_users=("a", "b"))
    assert limited(arguments, Ruling("p", rule)) == ExpireArguments(retain_min=4, protect_commit_users=("a", "b", "c"))
    assert limited(arguments, Ruling("p", None)) == limited(arguments, None) == arguments


@settings(max_examples=examples(300))
@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=12),
    missing=st.sets(st.integers(1, 12)),
    retain_min=st.integers(1, 6),
    more=st.integers(0, 6),
    retained=st.integers(0, 100),
    floor_min=st.integers(1, 12),
    floor_ms=st.integers(0, 120),
    now_ms=st.integers(100, 200),
)
def test_a_floor_is_never_cut_into(
    times: list[int],
    missing: set[int],
    retain_min: int,
    more: int,
    retained: int,
    floor_min: int,
    floor_ms: int,
    now_ms: int,
) -> None:
    """What goes is a part of what went before, is beyond the newest few, and was old, as was its successor."""
    time_ms = {i: t for i, t in enumerate(times, 1) if i not in missing or i == len(times)}
    ids = sorted(time_ms)
    policy = SnapshotRetention(retain_min, retain_min + more, retained, INT_MAX)
    before = select_range(ids, time_ms, policy, None, now_ms)
    after = cap_by_floor(before, ids, time_ms, SnapshotRetention(floor_min, INT_MAX, floor_ms, INT_MAX), now_ms)
    assert after.expired == before.expired[: len(after.expired)]
    assert len(after.expired) + sum(after.kept.values()) == len(ids)
    for snapshot_id in after.expired:
        successor = ids[ids.index(snapshot_id) + 1]
        assert snapshot_id <= ids[-1] - floor_min
        assert max(time_ms[snapshot_id], time_ms[successor]) < now_ms - floor_ms
