"""`plans`, `execute`, `runs` and `report`: what is kept about a table."""

import json
from pathlib import Path

import pytest

from lakesweep.operations.retention import release
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import KEYS, Answer, call, contents


def plan(folder: Path, *argv: object) -> str:
    return str(call("expire-snapshots", folder, "--json", *argv).document["plan_id"])


def execute(folder: Path, plan_id: str, *argv: object) -> Answer:
    return call("execute", folder, plan_id, "--json", *argv)


def test_a_stored_plan_is_executed(folder: Path, control: Path) -> None:
    """What was planned is what goes, in any later process."""
    before = contents(folder)
    planned = call("expire-snapshots", folder, "--json").document
    done = execute(folder, planned["plan_id"])
    assert done.exit_code == 0
    assert tuple(done.document) == KEYS
    assert (done.document["operation"], done.document["plan_id"]) == ("expire-snapshots", planned["plan_id"])
    assert done.document["actions"] == planned["actions"]
    assert set(before) - set(contents(folder)) == {action["path"] for action in planned["actions"]}


def test_twice_is_harmless(folder: Path, control: Path) -> None:
    """The second execution of a plan finds nothing to do."""
    plan_id = plan(folder)
    execute(folder, plan_id)
    after = contents(folder)
    again = execute(folder, plan_id)
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    assert contents(folder) == after


def test_plans_are_listed_newest_first(folder: Path, control: Path) -> None:
    """Each with what it would do, and how it ended."""
    first, second = plan(folder, "--max-deletes", 1), plan(folder, "--max-deletes", 2)
    execute(folder, first)
    document = call("plans", folder, "--json").document
    assert tuple(document) == ("table", "plans")
    assert document["table"] == str(folder)
    by_id = {row["plan_id"]: row for row in document["plans"]}
    assert list(by_id) == [second, first]
    assert tuple(by_id[first]) == (
        "plan_id", "operation", "branch", "created_ms", "expires_ms", "status", "run_id", "needs_confirmation",
        "action_count", "expired_snapshot_count", "withdrawn_snapshot_count", "written_snapshot_count", "problem",
    )  # fmt: skip
    assert (by_id[first]["status"], by_id[second]["status"]) == ("done", "waiting")
    assert by_id[first]["run_id"] is not None
    assert by_id[second]["run_id"] is None
    assert (by_id[first]["expired_snapshot_count"], by_id[second]["expired_snapshot_count"]) == (1, 2)
    assert len(call("plans", folder, "--json", "--limit", 1).document["plans"]) == 1
    text = call("plans", folder).printed
    assert first in text
    assert "waiting" in text


def test_a_limit_lists_the_newest_plans(folder: Path, control: Path) -> None:
    """In text as in JSON, also where plans are of one second, whose ids do not tell their order."""
    made = [plan(folder, "--max-deletes", 1 + number % 3) for number in range(8)]
    for limit in (1, 5, 7, 9):
        newest = made[::-1][:limit]
        found = call("plans", folder, "--limit", limit, "--json").document["plans"]
        assert [row["plan_id"] for row in found] == newest
        lines = call("plans", folder, "--limit", limit).printed.splitlines()
        assert [line.split()[0] for line in lines[1:]] == newest


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(folder: Path, control: Path, limit: int) -> None:
    plan(folder)
    answer = call("plans", folder, "--limit", limit, "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (2, "bad_argument")
    assert answer.document["error"]["message"] == f"--limit: expected at least 1, found {limit}"


def test_plans_are_listed_from_their_headers(folder: Path, control: Path) -> None:
    """The actions, which may be many, are not read."""
    plan(folder)
    for actions in control.rglob("actions-*"):
        actions.unlink()
    assert call("plans", folder, "--json").document["plans"][0]["status"] == "waiting"


def test_plans_that_move_branches_say_how_many_snapshots_go_and_come(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    """As those of expiries do. What a move replaces both goes and comes; what it leaves is not counted."""
    table.tag("two", snapshot=2)
    branch = table.branch("b", from_tag="two")
    branch.commit("+B3")
    branch.commit("+B4")
    table.branch("apart").commit("+C1")

    cases = (
        (("expire-snapshots",), "-4"),
        (("rollback", "--snapshot", 4), "-2"),
        (("fast-forward", "b"), "-4 +2"),
        (("fast-forward", "apart", "--lose-tag", "two"), "-6 +1"),
        (("create-branch", "new", "--tag", "two"), "+1"),
        (("create-branch", "empty"), "0"),
        (("delete-branch", "b"), "-3"),
    )
    plans = {call(words[0], folder, *words[1:], "--json").document["plan_id"]: found for words, found in cases}
    lines = {line.split()[0]: line for line in call("plans", folder).printed.splitlines()[1:]}
    assert {each: " ".join(line.split()[8:-1]) for each, line in lines.items()} == plans
    done = call("rollback", folder, "--snapshot", 5, "--execute", "--json").document["run_id"]
    undo = call("undo", folder, done, "--json").document["plan_id"]
    rows = {row["plan_id"]: row for row in call("plans", folder, "--json").document["plans"]}
    assert (rows[undo]["withdrawn_snapshot_count"], rows[undo]["written_snapshot_count"]) == (0, 1)


def test_a_move_of_many_documents_says_how_many_snapshots_go(folder: Path, control: Path) -> None:
    """They do not stand in the header."""
    newest = json.loads((folder / "snapshot" / "snapshot-6").read_text())
    for number in range(7, 620):
        (folder / "snapshot" / f"snapshot-{number}").write_text(json.dumps(newest | {"id": number}))
    (folder / "snapshot" / "LATEST").write_text("619")
    assert call("rollback", folder, "--snapshot", 6, "--json").exit_code == 0
    assert list(control.rglob("actions-*"))
    assert call("plans", folder, "--json").document["plans"][0]["withdrawn_snapshot_count"] == 613


def test_runs_and_reports(folder: Path, control: Path) -> None:
    """A run is listed, and its report is the document that it printed."""
    done = call("expire-snapshots", folder, "--json", "--execute").document
    document = call("runs", folder, "--json").document
    assert tuple(document) == ("table", "runs", "warnings")
    (run,) = document["runs"]
    assert tuple(run) == (
        "run_id", "operation", "branch", "plan_id", "started_ms", "finished_ms", "status", "deleted", "failed_count",
        "bytes", "usd", "committed", "finished_by", "undoable", "undoable_reason", "undoable_until_ms", "problem",
    )  # fmt: skip
    assert (run["undoable"], run["undoable_reason"]) == (False, "not_versioned")
    assert (run["run_id"], run["plan_id"], run["status"]) == (done["run_id"], done["plan_id"], "done")
    assert (run["deleted"], run["bytes"]) == (done["outcome"]["deleted"], done["outcome"]["bytes"])
    report = call("report", folder, run["run_id"], "--json")
    assert sorted(report.document) == [
        "by",
        "ended",
        "finished_ms",
        "format_version",
        "ledger",
        "plan_hash",
        "policy_etag",
        "report",
        "started_ms",
        "warnings",
    ]
    of_call = {"warnings": done["warnings"], "receipt": done["receipt"]}
    assert {**report.document["report"], **of_call} == done
    (stored,) = control.rglob("reports/*.json")
    assert report.document == json.loads(stored.read_text())
    text = call("report", folder, run["run_id"]).printed
    assert text.startswith(f"expire-snapshots of {folder}, branch main: done\n")
    assert run["run_id"] in text
    assert run["run_id"] in call("runs", folder).printed


def test_nothing_stored_is_said(folder: Path, control: Path) -> None:
    """Empty lists are no errors."""
    assert call("plans", folder, "--json").document["plans"] == []
    assert call("runs", folder, "--json").document["runs"] == []
    assert "no stored plan" in call("plans", folder).printed
    assert "no run" in call("runs", folder).printed


def test_a_table_that_moved_makes_the_plan_stale(table: TableBuilder, folder: Path, control: Path) -> None:
    """A consumer that now needs an expiring snapshot: exit code 3, nothing deleted."""
    plan_id = plan(folder)
    table.consumer("reader", 2)
    before = contents(folder)
    answer = execute(folder, plan_id)
    assert (answer.exit_code, answer.document["status"]) == (3, "stale")
    assert answer.document["refusal"]["code"] == "stale"
    assert answer.sentences == [f"lakesweep: {answer.document['refusal']['message']}"]
    assert contents(folder) == before
    assert call("plans", folder, "--json").document["plans"][0]["status"] == "stale"
    again = execute(folder, plan_id)
    assert (again.exit_code, again.document["refusal"]["code"]) == (3, "plan_stale")


def test_a_tag_that_appeared_keeps_its_files(table: TableBuilder, folder: Path, control: Path) -> None:
    """The look keeps what the new tag needs, and the answer counts it."""
    plan_id = plan(folder)
    table.tag("late", snapshot=2)
    answer = execute(folder, plan_id)
    assert answer.exit_code == 0
    assert answer.document["outcome"]["kept_by_recheck"] > 0
    assert table.exists("F2")


def test_a_plan_that_asks_for_confirmation(tmp_path: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large plan that overrides the table's rules is executed only by its name."""
    monkeypatch.setattr(release, "CONFIRM_ABOVE_FILES", 5)
    table = TableBuilder(LocalStore(str(tmp_path / "big")))
    names = [f"F{number}" for number in range(9)]
    table.commit(*[f"+{name}" for name in names])
    table.commit(*[f"-{name}" for name in names], "+last")
    before = contents(tmp_path / "big")
    refused = call("expire-snapshots", tmp_path / "big", "--json", "--retain-max", 1, "--retain-min", 1, "--execute")
    assert (refused.exit_code, refused.document["refusal"]["code"]) == (3, "confirmation_needed")
    plan_id = refused.document["plan_id"]
    assert execute(tmp_path / "big", plan_id).document["refusal"]["code"] == "confirmation_needed"
    assert execute(tmp_path / "big", plan_id, "--confirm", "yes").exit_code == 3
    assert contents(tmp_path / "big") == before
    printed = call("expire-snapshots", tmp_path / "big", "--retain-max", 1, "--retain-min", 1).printed
    assert " --confirm " in printed
    assert "--confirm" in call("plans", tmp_path / "big").printed
    assert execute(tmp_path / "big", plan_id, "--confirm", plan_id).exit_code == 0


def test_a_plan_is_executed_on_its_own_branch(table: TableBuilder, folder: Path, control: Path) -> None:
    """The plan says which branch it is of; the command need not."""
    table.tag("t", snapshot=2)
    branch = table.branch("rt", from_tag="t")
    for number in range(3):
        branch.commit(f"+B{number}")
    plan_id = plan(folder, "--branch", "rt")
    done = execute(folder, plan_id)
    assert (done.exit_code, done.document["branch"]) == (0, "rt")
    assert not (folder / "branch" / "branch-rt" / "snapshot" / "snapshot-2").exists()
    assert (folder / "snapshot" / "snapshot-2").exists()


def test_operations_of_an_earlier_version_are_shown_with_dashes(folder: Path, control: Path) -> None:
    """The stored report itself is printed as it is."""
    run_id = call("expire-snapshots", folder, "--execute", "--json").document["run_id"]
    deleted = next(path for path in contents(control) if path.endswith(f"reports/{run_id}.json"))
    for path in (control / deleted, *control.rglob("header.json")):
        path.write_text(path.read_text().replace('"expire-snapshots"', '"expire_snapshots"'))
    assert call("runs", folder, "--json").document["runs"][0]["operation"] == "expire-snapshots"
    said = [call("runs", folder), call("report", folder, run_id), call("explain", folder, "snapshot/snapshot-1")]
    for answer in said:
        assert answer.exit_code == 0
        assert "expire-snapshots" in answer.printed
        assert "expire_snapshots" not in answer.printed
    assert call("report", folder, run_id, "--json").document["report"]["operation"] == "expire_snapshots"
    (control / deleted).unlink()
    assert call("runs", folder, "--json").document["runs"][0]["operation"] == "expire-snapshots"
