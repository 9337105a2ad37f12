"""The fleet policy, protected commit users and pins, from the command line."""

import json
from pathlib import Path

import pytest

from lakesweep.storage.open import open_store
from tests.support.s3_server import fresh_bucket, moto_settings
from tests.unit.cli.command_line import Answer, call, contents, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "lake" / "orders", options=RULES)
    return tmp_path / "lake" / "orders"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy.json"


def write_rule(policy: Path, **words: object) -> None:
    rule = {"tables": f"{policy.parent}/lake/", **words}
    policy.write_text(json.dumps({"version": 1, "rules": [rule]}))


def maintain(folder: Path, *argv: object) -> Answer:
    return call("maintain", folder, "--control", folder.parent.parent / "control", "--json", *argv)


def test_a_policy_observes_or_deletes(folder: Path, policy: Path) -> None:
    """By option and by environment; what is observed says so on standard error."""
    write_rule(policy)
    before = contents(folder)
    answer = maintain(folder, "--policy", policy, "--execute")
    assert (answer.exit_code, answer.document["status"], answer.document["executed"]) == (0, "planned", False)
    assert contents(folder) == before
    assert f"policy {policy} states no mode for {folder.parent}, so the table is observed: planned" in answer.messages
    write_rule(policy, mode="delete")
    answer = maintain(folder, "--policy", policy, "--execute")
    assert (answer.exit_code, answer.document["status"], answer.messages) == (0, "done", "")


def test_the_environment_names_the_policy(folder: Path, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command that executes knows it; the option goes before it."""
    write_rule(policy, pause=True)
    monkeypatch.setenv("LAKESWEEP_POLICY", str(policy))
    control = folder.parent.parent / "control"
    planned = call("expire-snapshots", folder, "--control", control, "--json")
    assert (planned.exit_code, planned.document["status"]) == (0, "planned")
    for answer in (
        maintain(folder, "--execute"),
        call("expire-snapshots", folder, "--control", control, "--json", "--execute"),
        call("execute", folder, planned.document["plan_id"], "--control", control, "--json"),
    ):
        assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "paused")
    other = policy.with_name("other.json")
    write_rule(other, mode="delete")
    assert maintain(folder, "--policy", other, "--execute").document["status"] == "done"


@pytest.mark.parametrize("blanks", [" {}", "{}\n", "\u200b{}", "lake/s3:/{}"])
def test_a_pause_is_not_lost_by_a_slip_in_its_location(folder: Path, policy: Path, blanks: str) -> None:
    """A policy whose rule covers no table stops the run: exit code 2, nothing deleted."""
    rules = [{"tables": str(folder.parent), "mode": "delete"}, {"tables": blanks.format(folder), "pause": True}]
    policy.write_text(json.dumps({"version": 1, "rules": rules}))
    before = contents(folder)
    answer = maintain(folder, "--policy", policy, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (2, "bad_policy")
    assert f"policy {policy}: rules[1].tables: expected an absolute location" in answer.messages
    assert contents(folder) == before


@pytest.mark.parametrize("text", ["{", '{"version": 1, "rules": [{"table": "/"}]}', None])
def test_a_bad_policy_is_a_usage_error(folder: Path, policy: Path, text: str | None) -> None:
    """Damaged, misspelt or absent: one sentence, exit code 2, nothing deleted."""
    if text is not None:
        policy.write_text(text)
    before = contents(folder)
    answer = maintain(folder, "--policy", policy, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (2, "bad_policy")
    (sentence,) = answer.sentences
    assert str(policy) in sentence
    assert contents(folder) == before


def test_protected_commit_users(tmp_path: Path) -> None:
    """The option keeps the last snapshot of a streaming writer, and without it there is a warning."""
    table = write_table(tmp_path / "orders", commits=2, options=RULES)
    table.commit("+S", user="flink", identifier=1)
    for _ in range(4):
        table.commit()
    argv = ("--control", tmp_path / "control", "--json")
    warned = call("expire-snapshots", tmp_path / "orders", *argv)
    assert warned.document["snapshots"]["expired"] == [1, 2, 3, 4, 5]
    assert "snapshot 3, the last one of the streaming commit user flink, expires" in warned.messages
    for command in ("expire-snapshots", "maintain"):
        users = ("--protect-commit-user", "flink", "--protect-commit-user", "builder")
        answer = call(command, tmp_path / "orders", *argv, *users)
        assert answer.document["snapshots"]["expired"] == [1, 2]
        assert answer.document["kept"]["commit_user"] == 3
        assert answer.messages == ""
    assert "3 snapshots (commit user)" in call(
        "maintain", tmp_path / "orders", "--control", tmp_path / "control", "--protect-commit-user", "flink"
    ).printed  # fmt: skip
    assert call("maintain", tmp_path / "orders", *argv, "--protect-commit-user", " ").exit_code == 2
    for extra in ((), ("--execute",)):
        maintained = call("maintain", tmp_path / "orders", *argv, *extra)
        (sentence,) = maintained.sentences
        assert sentence.startswith("lakesweep: warning: snapshot 3, the last one of the streaming commit user flink, ")
    stored = call("report", tmp_path / "orders", maintained.document["run_id"], *argv)
    assert stored.sentences == maintained.sentences
    assert stored.document["warnings"] == [sentence.removeprefix("lakesweep: warning: ")]


def test_show_names_pins_and_measures_them_on_request(tmp_path: Path) -> None:
    """In the document and as text."""
    table = write_table(tmp_path / "orders", options=RULES)
    table.tag("first", snapshot=1)
    table.consumer("search", 2)
    shown = call("show", tmp_path / "orders", "--json").document["pins"]
    assert [(pin["kind"], pin["name"], pin["snapshot_id"], pin["files"], pin["bytes"]) for pin in shown] == [
        ("consumer", "search", 2, None, None),
        ("tag", "first", 1, None, None),
    ]
    measured = call("show", tmp_path / "orders", "--pinned", "--json").document["pins"]
    assert [pin["files"] for pin in measured] == [3, 1]
    assert all(pin["bytes"] > 0 for pin in measured)
    text = call("show", tmp_path / "orders", "--pinned").printed
    assert "consumer search from snapshot 2 on, 3 files, " in text
    assert "tag first at snapshot 1, 1 file, " in text


def test_a_policy_on_s3(folder: Path) -> None:
    """The document may lie at the top of a bucket or below."""
    settings = moto_settings()
    bucket = fresh_bucket()
    for key in ("policy.json", "fleet/eu/policy.json"):
        location = f"s3://{bucket}/{key}"
        argv = ("--policy", location, "--endpoint-url", settings.endpoint_url, "--region", "us-east-1")
        missing = maintain(folder, *argv)
        assert (missing.exit_code, missing.document["refusal"]["code"]) == (2, "bad_policy")
        rule = {"tables": str(folder.parent), "pause": True}
        store = open_store(f"s3://{bucket}", settings=settings)
        store.put(key, json.dumps({"version": 1, "rules": [rule]}).encode())
        paused = maintain(folder, *argv)
        assert (paused.exit_code, paused.document["refusal"]["code"]) == (3, "paused")
        assert f"policy {location} says so" in paused.messages


def test_undo_is_stopped_by_a_pause(folder: Path, policy: Path) -> None:
    """With --execute it is refused before anything is looked at; what it would bring back may be asked."""
    write_rule(policy, pause=True)
    argv = ("undo", folder, "20260131T120003Z-5a6b7c8d", "--control", folder.parent.parent / "control", "--json")
    answer = call(*argv, "--policy", policy, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "paused")
    (sentence,) = answer.sentences
    assert f"is paused: policy {policy} says so of {folder.parent}; run 20260131T120003Z-5a6b7c8d can be" in sentence
    assert sentence.endswith("undone when the pause is over")
    assert call(*argv, "--policy", policy).document["refusal"]["code"] == "no_such_run"
    assert call(*argv, "--execute").document["refusal"]["code"] == "no_such_run"
