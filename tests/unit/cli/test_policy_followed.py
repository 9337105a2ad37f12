"""`show`, `explain` and `check` say what a pass would do under the fleet policy, and which rule decided it."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.main import COMMANDS, GROUPS
from tests.unit.cli.command_line import Answer, call, contents, write_table

STATED = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}
READERS = ("show", "explain", "check")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a table of six snapshots, made ten minutes apart in 1970."""
    write_table(tmp_path / "lake" / "orders", options=STATED)
    return tmp_path / "lake"


def rules(lake: Path, *found: dict[str, object]) -> Path:
    """Write a policy; `tables` is relative to the folder of tables."""
    policy = lake.parent / "policy.json"
    entries = [{**each, "tables": f"{lake}/{each.get('tables', '')}"} for each in found]
    policy.write_text(json.dumps({"version": 1, "rules": entries}))
    return policy


def ask(command: str, lake: Path, policy: Path, *argv: object) -> Answer:
    return call(command, lake / "orders", *argv, "--policy", policy)


def document(command: str, lake: Path, policy: Path) -> dict[str, Any]:
    return ask(command, lake, policy, "--json").document


def test_every_reader_says_who_decided(lake: Path) -> None:
    """The treatment and each field name the folder of the rule, in the document and as text."""
    policy = rules(lake, {"mode": "delete", "min_snapshots": 4}, {"tables": "orders", "time_zone": "UTC"})
    fields = [
        {"field": "mode", "value": "delete", "rule": str(lake)},
        {"field": "min_snapshots", "value": 4, "rule": str(lake)},
        {"field": "time_zone", "value": "UTC", "rule": f"{lake}/orders"},
    ]
    says = f"policy {policy} says of {lake} to delete"
    expected = {"location": str(policy), "treatment": "delete", "says": says, "fields": fields}
    for command in READERS:
        assert document(command, lake, policy)["policy"] == expected
        assert f"{policy} says of {lake} to delete" in ask(command, lake, policy).printed
    assert f"min_snapshots 4 (rule for {lake})" in ask("show", lake, policy).printed
    assert call("show", lake / "orders", "--json").document["policy"] is None


@pytest.mark.parametrize(
    ("rule", "treatment", "says"),
    [
        ({"mode": "observe"}, "observe", "says of {lake} to observe"),
        ({}, "observe", "states no mode for {lake}, so the table is observed"),
        ({"tables": "other"}, "observe", "has no rule for this table, so it is observed"),
        ({"mode": "delete", "pause": True}, "paused", "says of {lake} to pause"),
    ],
)
def test_a_table_that_no_pass_deletes_from(lake: Path, rule: dict[str, object], treatment: str, says: str) -> None:
    """`explain` does not promise the next expiry, and `check` sends nobody to a pass that deletes nothing."""
    policy = rules(lake, rule)
    why = says.format(lake=lake)
    for command in READERS:
        found = document(command, lake, policy)["policy"]
        assert (found["treatment"], found["says"]) == (treatment, f"policy {policy} {why}")
    assert "due, but no pass deletes them, as the policy says" in ask("explain", lake, policy).printed
    kept = ask("explain", lake, policy, "snapshot/snapshot-1").printed
    assert f"until an expiry deletes it: it is due, but policy {policy} {why}" in kept
    checked = ask("check", lake, policy)
    assert checked.exit_code == 0
    assert f"{why}, so no snapshot counts as overdue" in checked.messages
    assert call("check", lake / "orders").exit_code == 6


def test_the_retention_is_that_of_a_pass(lake: Path) -> None:
    """A schema without retention follows the policy's, and a schema with one follows its own."""
    stated = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, "snapshot.time-retained": "30 d"}
    policy = rules(lake, {"mode": "delete", "retention": stated})
    own = document("show", lake, policy)
    assert (own["retention"]["retain_max"], own["retention_from"]) == (2_147_483_647, "schema")
    write_table(lake / "orders", options={})
    ruled = document("show", lake, policy)
    assert (ruled["retention"]["retain_max"], ruled["retention_from"]) == (2, "policy")
    assert ruled["warnings"] == []
    assert f"at most 2, for 30 d, 50 a run (stated by the policy for {lake})" in ask("show", lake, policy).printed
    assert document("explain", lake, policy)["warnings"] == []
    expired = [kept_until(lake, policy, number) for number in range(1, 7)]
    assert ["next expiry" in text for text in expired] == [True] * 5 + [False]
    bare = rules(lake, {"mode": "delete"})
    (warning,) = document("show", lake, bare)["warnings"]
    assert warning.startswith(f"neither the schema nor policy {bare} states a retention")
    assert document("show", lake, bare)["retention_from"] == "defaults"


def kept_until(lake: Path, policy: Path, snapshot_id: int) -> str:
    found = ask("explain", lake, policy, f"snapshot/snapshot-{snapshot_id}", "--json").document["until"]
    assert isinstance(found, str)
    return found


def test_a_floor_and_a_protected_user_keep_snapshots(lake: Path) -> None:
    """What `explain` calls due is exactly what the pass plans, and the rest names what keeps it."""
    table = write_table(lake / "orders", commits=3, options=STATED)
    table.commit("+S", user="flink", identifier=1)
    for _ in range(4):
        table.commit()
    for rule, left, says in (
        ({"min_snapshots": 5}, 3, "the newest 5 snapshots are kept by the fleet policy's rule for {lake}"),
        ({"protect_commit_users": ["flink"]}, 3, "commit user flink commits again, since its last snapshot is kept by"),
        ({"min_time_retained": "36500 d"}, 0, "when it is old enough by the fleet policy's rule for {lake}"),
    ):
        policy = rules(lake, {"mode": "delete", **rule})
        planned = ask("maintain", lake, policy, "--json").document["snapshots"]["expired"]
        assert planned == list(range(1, left + 1))
        assert not left or "next expiry" in kept_until(lake, policy, left)
        assert says.format(lake=lake) in kept_until(lake, policy, left + 1)
    assert "flink" not in "".join(document("show", lake, rules(lake, {"protect_commit_users": ["flink"]}))["warnings"])
    assert "flink" in "".join(document("show", lake, rules(lake, {"min_snapshots": 1}))["warnings"])


def test_overdue_follows_the_floor(lake: Path) -> None:
    """Snapshots that the policy keeps are not overdue. A protected user holds them only until its next commit."""
    for rule, exit_code in (
        ({"min_snapshots": 5}, 6),
        ({"min_snapshots": 6}, 0),
        ({"min_time_retained": "36500 d"}, 0),
        ({"protect_commit_users": ["builder"]}, 6),
        ({"protect_commit_users": ["nobody"]}, 6),
    ):
        assert ask("check", lake, rules(lake, {"mode": "delete", **rule})).exit_code == exit_code


def test_an_invalid_policy_is_never_no_policy(lake: Path) -> None:
    """`show` and `explain` end with `bad_policy`; `check` has it as a finding, and calls nothing overdue."""
    policy = lake.parent / "policy.json"
    policy.write_text('{"version": 1, "rules": [{"tables": "/lake", "min_time_retained": "3"}]}')
    for command in ("show", "explain"):
        answer = ask(command, lake, policy, "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (2, "bad_policy")
        assert "rules[0].min_time_retained: expected a duration with its unit such as 3 d, found '3'" in answer.messages
    checked = ask("check", lake, policy, "--json")
    assert [each["check"] for each in checked.document["findings"]] == ["policy"]
    assert "no pass runs with an invalid fleet policy, so no snapshot counts as overdue" in checked.messages


WITHOUT_POLICY = {
    "files": "lists one version",
    "read": "reads one version; a tag that protects it ends by itself",
    "branches": "lists documents",
    "runs": "lists what is stored",
    "report": "prints what is stored",
    "audit verify": "checks what is stored",
    "audit ledger": "the same",
    "enable-events": "changes a bucket",
    "completion": "prints a script",
    "demo": "has a table of its own",
}
"""The commands that no policy can contradict, and why. Each other command does, says or prepares what a pass does."""


def test_every_command_that_can_meet_a_policy_takes_one() -> None:
    """And no other command does."""
    names = [(each.name,) for each in COMMANDS]
    names += [(group, each.name) for group, (_, commands) in GROUPS.items() for each in commands]
    takes = {" ".join(words) for words in names if "--policy" in call(*words, "--help").printed}
    assert takes == {" ".join(words) for words in names} - WITHOUT_POLICY.keys()


def test_the_environment_reaches_every_reader(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$LAKESWEEP_POLICY counts wherever `--policy` does, and reading changes nothing."""
    monkeypatch.setenv("LAKESWEEP_POLICY", str(rules(lake, {"pause": True})))
    before = contents(lake)
    for command in READERS:
        assert call(command, lake / "orders", "--json").document["policy"]["treatment"] == "paused"
    assert contents(lake) == before
