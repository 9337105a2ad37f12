"""What `execute` and `plans TABLE PLAN_ID` print of a stored plan, and what they say of a bad one."""

import json
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakesweep.api import shown
from lakesweep.cli.history.shown import plan_lines
from lakesweep.control import plans
from lakesweep.model.scans import OrphanArguments
from lakesweep.storage.local.store import LocalStore
from tests.support.fan_out import FanOut, small_limits
from tests.support.orphan_scene import OrphanScene
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table


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
    said = call("plans", folder, second["plan_id"], "--json").document["recheck"]
    assert (said["holds"], said["code"]) == (None, "overtaken")
    assert "nothing is left to do: " in call("plans", folder, second["plan_id"]).printed
    late = call("execute", folder, second["plan_id"])
    assert late.exit_code == 0
    assert "branch main: nothing to do" in late.printed
    assert "gone       4 objects were gone already" in late.printed.splitlines()
    assert "deleted  " not in late.printed
    assert "another maintainer has deleted the 4 documents of the plan" in late.messages
    run = call("runs", folder, "--json").document["runs"][0]
    assert (run["status"], run["deleted"]) == ("nothing_to_do", 0)
    assert call("plans", folder, second["plan_id"], "--json").document["status"] == "done"


def test_objects_that_a_recheck_kept_are_not_gone(table: TableBuilder, folder: Path, control: Path) -> None:
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


FACTS = ("plan", "made", "run", "undone", "holds", "next")


def shown_lines(answer: Answer) -> tuple[list[str], dict[str, str]]:
    """Return the lines of the plan itself, and the facts below it."""
    lines = answer.printed.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("plan  "))
    return lines[:begin], {line.split()[0]: line[11:] for line in lines[begin:]}


def orphans(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / "bucket-0" / f"data-00000000-0000-4000-8000-{number:012d}-0.parquet").write_bytes(b"x" * number)
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    "words",
    [
        ("expire-snapshots",),
        ("expire-snapshots", "--retain-max", "2", "--retain-min", "1"),
        ("rollback", "--snapshot", "4"),
        ("delete-tag", "two"),
        ("create-tag", "new"),
        ("create-branch", "b", "--tag", "two"),
        ("remove-orphan-files",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_plan_is_shown_as_when_it_was_made(
    table: TableBuilder, folder: Path, control: Path, words: tuple[str, ...]
) -> None:
    """The same text, warnings and document, and nothing changes."""
    table.tag("two", snapshot=2)
    orphans(folder, 5)
    command, *rest = words
    made = call(command, folder, *rest)
    document = call(command, folder, *rest, "--json").document
    plan_id = document["plan_id"]
    before = (contents(folder), contents(control))
    answer = call("plans", folder, made.printed.splitlines()[-1].split()[4])
    lines, facts = shown_lines(answer)
    assert (answer.exit_code, answer.messages) == (0, made.messages)
    assert lines == made.printed.splitlines()[:-1]
    assert facts["next"] == made.printed.splitlines()[-1][11:]
    assert facts["holds"] == "yes, if executed now"
    assert "waiting, until 20" in facts["plan"]
    assert f"@{os.uname().nodename} (version " in facts["made"]
    found = call("plans", folder, plan_id, "--json").document
    report = found["report"]
    of_call = {"requests": None, "engine": None, "receipt": None}
    assert {**report, **of_call} == {**document, **of_call}
    assert found["recheck"] == {"holds": True, "code": None, "message": None, "kept": 0}
    assert (found["plan_id"], found["status"], found["undone_by"]) == (plan_id, "waiting", None)
    assert set(found["by"]) == {"actor", "host", "version"}
    assert (contents(folder), contents(control)) == before
    files = call("plans", folder, plan_id, "--files", "--json").document["files"]
    assert [row["path"] for row in files if row["action"] == "delete"] == [row["path"] for row in document["actions"]]
    assert sorted(row["path"] for row in files if row["action"] == "write") == sorted(
        row["path"] for row in document["created"]
    )
    text = call("plans", folder, plan_id, "--files").printed.splitlines()[-len(files) :]
    assert all(row["path"] in line and row["reason"] in line for row, line in zip(files, text, strict=True))


def test_a_large_plan_is_read_in_parts(folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, files and the recheck take one part at a time."""
    monkeypatch.setattr(plans, "PART_ROWS", 4)
    monkeypatch.setattr(plans, "_HEADER_ROWS", 0)
    orphans(folder, 11)
    made = call("remove-orphan-files", folder).printed.splitlines()
    plan_id = made[-1].split()[4]
    monkeypatch.setattr(shown, "SHOWN_ACTIONS", 10)
    monkeypatch.setattr(shown, "load_plan", None)
    answer = call("plans", folder, plan_id, "--files")
    lines = answer.printed.splitlines()
    assert lines[: len(made) - 1] == made[:-1]
    assert "holds      yes, if executed now" in lines
    assert sum(line.startswith("delete  data") for line in lines) == 11
    document = call("plans", folder, plan_id, "--files", "--json").document
    assert (len(document["files"]), document["report"]["actions"]) == (11, [])
    assert document["report"]["delete"] == {"count": 11, "bytes": 55, "by_kind": {"data": 11}}
    (part,) = control.rglob("actions-00002*")
    part.unlink()
    damaged = call("plans", folder, plan_id, "--json")
    assert (damaged.exit_code, damaged.document["error"]["code"]) == (1, "damaged")
    assert part.name in damaged.document["error"]["message"]


def test_the_recheck_counts_what_execute_would_keep(table: TableBuilder, folder: Path, control: Path) -> None:
    plan_id = planned(folder)["plan_id"]
    table.tag("late", snapshot=2)
    found = call("plans", folder, plan_id, "--json").document["recheck"]
    assert found["holds"] is True
    assert f"execute would keep {found['kept']} of its objects by now" in call("plans", folder, plan_id).printed
    assert call("execute", folder, plan_id, "--json").document["outcome"]["kept_by_recheck"] == found["kept"] > 0


def test_a_plan_that_does_not_hold_is_said_to_be_stale(table: TableBuilder, folder: Path, control: Path) -> None:
    """With the message that `execute` then has, and without any change."""
    expiry = planned(folder)["plan_id"]
    rollback = call("rollback", folder, "--snapshot", 5, "--json").document["plan_id"]
    tag = call("create-tag", folder, "t", "--json").document["plan_id"]
    table.consumer("reader", 2)
    table.commit("-F6", "+F7")
    table.tag("t", snapshot=3)
    before = (contents(folder), contents(control))
    for plan_id, code in ((expiry, "stale"), (rollback, "stale"), (tag, "tag_exists")):
        answer = call("plans", folder, plan_id, "--json")
        assert answer.exit_code == 0
        assert (answer.document["status"], answer.document["recheck"]["holds"]) == ("waiting", False)
        assert answer.document["recheck"]["code"] == code
        _, facts = shown_lines(call("plans", folder, plan_id))
        assert facts["holds"] == f"no: {answer.document['recheck']['message']}"
        assert "next" not in facts
    assert (contents(folder), contents(control)) == before
    for plan_id in (expiry, rollback, tag):
        refused = call("execute", folder, plan_id, "--json")
        assert refused.exit_code == 3


def test_what_became_of_a_plan(folder: Path, control: Path) -> None:
    """Executed, undone, overtaken and expired plans say which run, and whether they can be executed."""
    first, second = planned(folder)["plan_id"], planned(folder)["plan_id"]
    run_id = call("execute", folder, first, "--json").document["run_id"]
    found = call("plans", folder, first, "--json").document
    assert (found["status"], found["run_id"], found["recheck"]["holds"]) == ("done", run_id, None)
    _, facts = shown_lines(call("plans", folder, first))
    assert (facts["run"], facts["holds"]) == (run_id, f"not known: run {run_id} executed the plan")
    assert call("plans", folder, second, "--json").document["recheck"]["code"] == "overtaken"
    header = next(path for path in control.rglob("header.json") if second in str(path))
    header.write_text(json.dumps({**json.loads(header.read_text()), "expires_ms": 1}))
    found = call("plans", folder, second, "--json").document
    assert (found["status"], found["recheck"]["code"]) == ("expired", "plan_expired")
    back = call("rollback", folder, "--snapshot", 5, "--execute", "--json").document
    undoing = call("undo", folder, back["run_id"], "--execute", "--json").document["run_id"]
    _, facts = shown_lines(call("plans", folder, back["plan_id"]))
    assert facts["undone"] == f"by run {undoing}"


def test_a_plan_that_a_run_began_is_finished_by_the_next(folder: Path, control: Path) -> None:
    plan_id = planned(folder)["plan_id"]
    (area,) = (control / "tables").iterdir()
    intent = {"plan_id": plan_id, "branch": "main", "runs": ["r1"], "end_id": 4, "created_ms": 1, "grace_ms": 0}
    (area / "lease.json").write_text(json.dumps({"run_id": "r1", "token": 1, "expires_at_ms": 0, "intent": intent}))
    found = call("plans", folder, plan_id, "--json").document
    assert (found["status"], found["recheck"]["holds"]) == ("partial", None)
    assert "run r1 began the plan, and the next run finishes it" in call("plans", folder, plan_id).printed
    for command in ("maintain", "expire-snapshots"):
        dry = call(command, folder, "--json")
        assert f"run r1 began plan {plan_id} and has not finished it" in dry.messages
        assert any(plan_id in warning for warning in dry.document["warnings"])


def test_a_paused_table_is_said(folder: Path, control: Path, tmp_path: Path) -> None:
    """`execute` would refuse the plan for the same reason."""
    plan_id = planned(folder)["plan_id"]
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": f"{folder.parent}", "pause": True}]}))
    found = call("plans", folder, plan_id, "--policy", policy, "--json").document
    assert (found["recheck"]["holds"], found["recheck"]["code"]) == (False, "paused")


@pytest.mark.parametrize(
    ("words", "path", "code"),
    [
        (("delete-tag", "two"), "tag/tag-two", "stale"),
        (("expire-tags",), "tag/tag-two", "stale"),
        (("rename-tag", "two", "new"), "tag/tag-two", "overtaken"),
        (("rename-tag", "two", "new"), "tag/tag-new", "stale"),
        (("clear-consumers",), "consumer/consumer-reader", "stale"),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, tuple) else value,
)
def test_documents_that_were_rewritten_make_a_plan_stale(
    table: TableBuilder, folder: Path, control: Path, words: tuple[str, ...], path: str, code: str
) -> None:
    """The recheck says what `execute` says."""
    table.tag("two", snapshot=2, ttl=timedelta(minutes=1))
    table.consumer("reader", 2)
    command, *rest = words
    plan_id = call(command, folder, *rest, "--json").document["plan_id"]
    assert call("plans", folder, plan_id, "--json").document["recheck"]["holds"] is True
    if "tag" in path:
        table.tag(path.removeprefix("tag/tag-"), snapshot=4)
    else:
        table.consumer("reader", 3)
    said = call("plans", folder, plan_id, "--json").document["recheck"]
    assert (said["holds"], said["code"]) == (False, code)
    before = contents(folder)
    answer = call("execute", folder, plan_id, "--json")
    assert (answer.exit_code, answer.document["refusal"]) == (3, {"code": code, "message": said["message"]})
    assert contents(folder) == before


@pytest.mark.parametrize("change", ["gone", "another"])
@pytest.mark.parametrize("command", ["create-tag", "replace-tag"])
def test_a_stored_tag_plan_whose_snapshot_vanished_writes_nothing(
    table: TableBuilder, folder: Path, control: Path, command: str, change: str
) -> None:
    """Each execution is refused as the recheck says, and no tag exists for a moment."""
    table.tag("there", snapshot=5)
    name = "new" if command == "create-tag" else "there"
    plan_id = call(command, folder, name, "--snapshot", 2, "--json").document["plan_id"]
    snapshot = folder / "snapshot/snapshot-2"
    snapshot.unlink() if change == "gone" else snapshot.write_text(snapshot.read_text() + " ")
    before = contents(folder)
    said = call("plans", folder, plan_id, "--json").document["recheck"]
    assert (said["holds"], said["code"]) == (False, "snapshot_vanished")
    for _ in range(2):
        answer = call("execute", folder, plan_id, "--json")
        document = answer.document
        assert (answer.exit_code, document["status"], document["executed"]) == (3, "refused", False)
        assert document["refusal"] == {"code": "snapshot_vanished", "message": said["message"]}
        assert document["requests"].get("delete", 0) == 0
    assert contents(folder) == before


def test_a_tag_that_is_withdrawn_is_no_deletion_of_the_run(
    folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot vanishes while the tag is written."""
    works = LocalStore.put

    def put(self: LocalStore, key: str, *args: Any, **conditions: Any) -> str:
        etag = works(self, key, *args, **conditions)
        if key == "tag/tag-new":
            (folder / "snapshot/snapshot-2").unlink()
        return etag

    monkeypatch.setattr(LocalStore, "put", put)
    answer = call("create-tag", folder, "new", "--snapshot", 2, "--execute", "--json")
    assert (answer.exit_code, answer.document["status"]) == (3, "refused")
    assert answer.document["refusal"]["message"].endswith("the tag is withdrawn")
    assert answer.document["requests"]["delete"] == 1
    assert not (folder / "tag/tag-new").exists()


# Bad input.


@pytest.mark.parametrize("command", ["plans", "execute"])
@pytest.mark.parametrize(
    "plan_id", ["20260131T120000Z-1f2e3d4c", "../x", "a/b", "x\x1b[31m", "..", "x" * 5000, "\udcff"]
)
def test_an_id_that_no_plan_has(folder: Path, control: Path, command: str, plan_id: str) -> None:
    planned(folder)
    before = (contents(folder), contents(control))
    answer = call(command, folder, plan_id, "--json")
    error = answer.document["error"] if command == "plans" else answer.document["refusal"]
    assert (answer.exit_code, error["code"]) == (3, "no_such_plan")
    assert "\x1b" not in answer.messages
    assert len(answer.messages) < 600
    assert (contents(folder), contents(control)) == before


@pytest.mark.parametrize("words", [("report",), ("undo",), ("undo", "--execute")])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_long_id_that_no_run_has(
    folder: Path, control: Path, tmp_path: Path, words: tuple[str, ...], is_paused: bool
) -> None:
    """The message shows its beginning."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": str(folder), "pause": is_paused}]}))
    command, *more = words
    argv = () if command == "report" else ("--policy", policy)
    answer = call(command, folder, "x" * 5000, *argv, *more, "--json")
    error = answer.document["error"] if command == "report" else answer.document["refusal"]
    expected = "paused" if is_paused and more else "no_such_run"
    assert (answer.exit_code, error["code"]) == (3, expected)
    assert "x" * 200 in answer.messages
    assert len(answer.messages) < 800


def test_a_long_name_of_a_forged_plan_is_shown_in_part(folder: Path, control: Path) -> None:
    """Whoever can write the control location can write any name."""
    plan_id = planned(folder)["plan_id"]
    (path,) = control.rglob("header.json")
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "by": dict.fromkeys(("actor", "host", "version"), "y" * 200_000)}))
    answer = call("plans", folder, plan_id)
    assert answer.exit_code == 0
    (line,) = (line for line in answer.printed.splitlines() if line.startswith("made "))
    assert "y" * 200 in line
    assert len(line) < 800


def test_files_without_a_plan(folder: Path, control: Path) -> None:
    answer = call("plans", folder, "--files", "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (2, "bad_argument")


@pytest.mark.parametrize(
    ("damage", "exit_code", "code"),
    [
        ("truncated", 1, "damaged"),
        ("empty", 1, "damaged"),
        ("fewer actions", 1, "damaged"),
        ("another hash", 1, "damaged"),
        ("another path", 1, "damaged"),
        ("another table", 3, "plan_of_another_table"),
        ("another id", 1, "damaged"),
        ("a newer format", 3, "unsupported_plan"),
        ("a newer fact", 3, "unsupported_plan"),
        ("a key", 3, "unsealed_plan"),
    ],
)
def test_a_plan_that_is_damaged_forged_or_newer(
    folder: Path, control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, exit_code: int, code: str
) -> None:
    """Neither command shows or executes it, and both say why in the same words."""
    plan_id = planned(folder)["plan_id"]
    (path,) = control.rglob("header.json")
    text = path.read_text()
    header = json.loads(text)
    match damage:
        case "fewer actions":
            header["actions"].pop()
        case "another hash":
            header["content_hash"] = "0" * 64
        case "another path":
            header["actions"][-1]["path"] += "0"
        case "another table":
            header["table"] += "2"
        case "another id":
            header["plan_id"] += "2"
        case "a newer format":
            header["format_version"] = 99
        case "a newer fact":
            header["waits_for_readers"] = True
        case "a key":
            (tmp_path / "key").write_text("k" * 40)
            monkeypatch.setenv("LAKESWEEP_PLAN_KEY_FILE", str(tmp_path / "key"))
    cut = {"truncated": len(text) // 2, "empty": 0}
    path.write_text(text[: cut[damage]] if damage in cut else json.dumps(header))
    before = contents(folder)
    for command in ("plans", "execute"):
        answer = call(command, folder, plan_id, "--json")
        error = answer.document["error"] if command == "plans" else answer.document["refusal"]
        assert (answer.exit_code, error["code"]) == (exit_code, code), error
        assert answer.sentences == [f"lakesweep: {error['message']}"]
    assert contents(folder) == before


def test_a_plan_of_an_earlier_version_is_shown(folder: Path, control: Path) -> None:
    """It does not say who made it, and of which table."""
    plan_id = planned(folder)["plan_id"]
    (path,) = control.rglob("header.json")
    header = json.loads(path.read_text())
    header["operation"] = header["operation"].replace("-", "_")
    path.write_text(json.dumps({name: value for name, value in header.items() if name not in ("by", "identity")}))
    _, facts = shown_lines(call("plans", folder, plan_id))
    assert facts["made"].endswith("by unknown")
    assert call("plans", folder, plan_id).printed.startswith("expire-snapshots of ")
    assert facts["holds"].startswith("yes")
    assert call("execute", folder, plan_id).exit_code == 0


def test_a_plan_of_a_table_that_was_made_anew(folder: Path, control: Path) -> None:
    """Even of equal files, the plan of the old table deletes nothing of the new one."""
    orphans(folder, 3)
    made = [planned(folder)["plan_id"], call("remove-orphan-files", folder, "--json").document["plan_id"]]
    shutil.rmtree(folder)
    write_table(folder, options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"})
    orphans(folder, 3)
    os.utime(folder / "schema/schema-0", (1_600_000_000, 1_600_000_000))  # the inode may be that of the old one
    before = contents(folder)
    for plan_id in made:
        found = call("plans", folder, plan_id, "--json").document["recheck"]
        assert (found["holds"], found["code"]) == (False, "table_recreated")
        answer = call("execute", folder, plan_id, "--json")
        assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "table_recreated")
        assert answer.document["refusal"]["message"] == found["message"]
    assert contents(folder) == before
    shutil.rmtree(folder)
    assert call("plans", folder, made[0], "--json").document["recheck"]["code"] == "table_recreated"


@pytest.mark.parametrize("most", [100_000, 2])
def test_a_plan_that_functions_made_is_shown_as_they_reported_it(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of a plan that was too large to show, counts by kind are shown, and `--files` has its objects."""
    small_limits(monkeypatch)
    monkeypatch.setattr(shown, "SHOWN_ACTIONS", most)
    scene = OrphanScene()
    for number in range(9):
        scene.table.commit(f"+A{number}")
    paths = {scene.orphan(f"x{number}") for number in range(5)}
    scene.age()
    table = replace(scene.maintainer().table, sleep=lambda _: None)
    made = FanOut(table, OrphanArguments(), Random(0), jump=lambda _: None, scan_id="scan-1").run()
    assert made.plan is not None
    stored = shown.load_shown(table, made.plan.header.plan_id)
    document = stored.document()
    assert {row["path"] for row in stored.files()} == paths
    assert (document["status"], document["recheck"]["holds"]) == ("waiting", True)
    assert document["report"]["delete"] == {
        "count": 5,
        "bytes": document["report"]["delete"]["bytes"],
        "by_kind": {"data": 5},
    }
    lines = list(plan_lines(stored, document))
    assert ("  data: 5" in lines) == (most == 2)
    assert sum(path in line for line in lines for path in paths) == (0 if most == 2 else 3)
