"""What `execute` and `plans TABLE PLAN_ID` print of a stored plan."""

from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.local.store import LocalStore
from tests.unit.cli.command_line import call


def planned(folder: Path) -> dict[str, Any]:
    return call("expire-snapshots", folder, "--json").document


def test_execute_prints_the_plan_before_it_deletes(
    folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text is complete before the first deletion; the result follows, without the plan again."""
    plan = call("expire-snapshots", folder).printed.splitlines()
    plan_id = plan[-1].split()[4]
    printed: list[str] = []
    works = LocalStore.delete

    def delete(self: LocalStore, *args: Any) -> Any:
        printed.append(capsys.readouterr().out)
        return works(self, *args)

    monkeypatch.setattr(LocalStore, "delete", delete)
    from lakesweep.cli.main import main

    assert main(["execute", str(folder), plan_id]) == 0
    assert printed[0].splitlines() == plan[:-1]
    after = "".join([*printed[1:], capsys.readouterr().out]).splitlines()
    assert [line.split()[0] for line in after[1:]] == ["deleted", "run"]
    assert after[0].endswith("branch main: done")


def test_execute_prints_one_json_document(folder: Path, control: Path) -> None:
    assert call("execute", folder, planned(folder)["plan_id"], "--json").document["status"] == "done"


def test_a_finished_plan_says_that_its_objects_were_gone(folder: Path, control: Path) -> None:
    """It does not say once more what it would delete. JSON counts them."""
    plan = planned(folder)
    plan_id, count = plan["plan_id"], plan["delete"]["count"]
    run_id = call("execute", folder, plan_id, "--json").document["run_id"]
    again = call("execute", folder, plan_id)
    assert again.exit_code == 0
    assert again.printed.splitlines()[1:] == [f"gone       {count} objects were gone already"]
    assert again.printed.splitlines()[0].endswith("branch main: nothing to do")
    assert again.sentences == [f"lakesweep: warning: plan {plan_id} was executed before, by run {run_id}"]
    document = call("execute", folder, plan_id, "--json").document
    assert document["status"] == "nothing_to_do"
    assert (document["outcome"]["deleted"], document["outcome"]["already_gone"]) == (0, count)
    assert document["delete"] == plan["delete"]


def test_a_plan_whose_snapshots_another_run_deleted_says_so(folder: Path, control: Path) -> None:
    """The run deletes nothing: the files are left to the run that deleted the snapshots."""
    first, second = planned(folder), planned(folder)
    call("execute", folder, first["plan_id"])
    late = call("execute", folder, second["plan_id"])
    assert late.exit_code == 0
    assert "gone       4 objects were gone already" in late.printed.splitlines()
    assert "deleted  " not in late.printed
    assert "another maintainer has deleted the 4 documents of the plan" in late.messages
    assert call("runs", folder, "--json").document["runs"][0]["deleted"] == 0


def test_objects_that_a_recheck_kept_are_not_gone(table: Any, folder: Path, control: Path) -> None:
    """A finished plan counts only what it deleted or found gone."""
    plan = planned(folder)
    table.tag("late", snapshot=2)
    kept = call("execute", folder, plan["plan_id"], "--json").document["outcome"]["kept_by_recheck"]
    again = call("execute", folder, plan["plan_id"], "--json").document["outcome"]
    assert kept > 0
    assert again["already_gone"] == plan["delete"]["count"] - kept


def test_a_tag_that_a_finished_plan_wrote_is_not_written_again(folder: Path, control: Path) -> None:
    plan_id = call("create-tag", folder, "t", "--json").document["plan_id"]
    first = call("execute", folder, plan_id)
    assert [line.split()[0] for line in first.printed.splitlines()].count("write") == 1
    again = call("execute", folder, plan_id)
    assert [line.rpartition(": ")[2] for line in again.printed.splitlines()] == ["nothing to do"]
    assert f"plan {plan_id} was executed before" in again.messages
