"""`expire-snapshots` and `maintain`: plan, execute, and the document that says so."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire
from lakesweep.storage.local.store import LocalStore
from tests.unit.cli.command_line import KEYS, STEP_KEYS, Answer, call, contents, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "orders", options=RULES)
    return tmp_path / "orders"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def expire(folder: Path, control: Path, *argv: object) -> Answer:
    return call("expire-snapshots", folder, "--control", control, "--json", *argv)


def paths(document: dict[str, Any]) -> list[str]:
    return [action["path"] for action in document["actions"]]


def test_a_dry_run_plans_and_changes_nothing(folder: Path, control: Path) -> None:
    """Without --execute the table keeps every byte, and the plan is stored."""
    before = contents(folder)
    answer = expire(folder, control)
    assert answer.exit_code == 0
    assert contents(folder) == before
    document = answer.document
    assert tuple(document) == (*KEYS, "warnings")
    assert (document["operation"], document["status"], document["executed"]) == ("expire-snapshots", "planned", False)
    assert (document["table"], document["branch"]) == (str(folder), "main")
    assert (document["run_id"], document["refusal"], document["outcome"], document["steps"]) == (None,) * 4
    assert document["snapshots"] == {"earliest": 1, "latest": 6, "expired": [1, 2, 3, 4]}
    assert document["delete"]["count"] == len(document["actions"]) == sum(document["delete"]["by_kind"].values())
    assert document["delete"]["bytes"] == sum(action["size_bytes"] or 0 for action in document["actions"])
    assert document["created"] == [{"kind": "hint", "path": "snapshot/EARLIEST"}]
    assert all(tuple(action) == ("phase", "kind", "path", "size_bytes", "reason") for action in document["actions"])
    assert {action["path"] for action in document["actions"]} < set(before)
    assert tuple(document["requests"]) == ("get", "head", "list", "put", "delete")
    assert (control / "tables").is_dir()


def test_executing_does_what_the_dry_run_said(folder: Path, control: Path) -> None:
    """The same command with --execute removes what was planned, and writes what was planned."""
    before = contents(folder)
    planned = expire(folder, control).document
    answer = expire(folder, control, "--execute")
    assert answer.exit_code == 0
    document = answer.document
    assert tuple(document) == KEYS
    assert (document["status"], document["executed"]) == ("done", True)
    assert document["run_id"] is not None
    assert paths(document) == paths(planned)
    assert document["outcome"] == {
        "deleted": planned["delete"]["count"],
        "already_gone": 0,
        "failed": [],
        "kept_by_recheck": 0,
        "bytes": planned["delete"]["bytes"],
    }
    after = contents(folder)
    assert set(before) - set(after) == {action["path"] for action in planned["actions"]}
    assert set(after) <= set(before)
    assert after["snapshot/EARLIEST"] == b"5"


def test_again_there_is_nothing_to_do(folder: Path, control: Path) -> None:
    """A second run finds nothing, and says so with exit code 0."""
    expire(folder, control, "--execute")
    answer = expire(folder, control, "--execute")
    assert (answer.exit_code, answer.document["status"], answer.document["plan_id"]) == (0, "nothing_to_do", None)


def test_a_table_without_snapshots_has_nothing_to_do(tmp_path: Path, control: Path) -> None:
    """A new table is no error."""
    write_table(tmp_path / "new", commits=1).remove("snapshot/snapshot-1")
    for path in ("EARLIEST", "LATEST"):
        (tmp_path / "new" / "snapshot" / path).unlink()
    answer = expire(tmp_path / "new", control, "--execute")
    assert (answer.exit_code, answer.document["status"]) == (0, "nothing_to_do")
    assert answer.document["snapshots"] == {"earliest": None, "latest": None, "expired": []}


def test_arguments_override_the_options(folder: Path, control: Path) -> None:
    """Each argument reaches the plan."""
    assert expire(folder, control, "--retain-max", 5).document["snapshots"]["expired"] == [1, 2, 3, 4]  # age
    assert expire(folder, control, "--retain-min", 5).document["refusal"]["code"] == "retain_max_below_min"
    young = expire(folder, control, "--older-than", "1970-01-01T00:10:00Z")
    assert young.document["snapshots"]["expired"] == [1, 2, 3]
    assert expire(folder, control, "--older-than", "1970-01-01T00:00:00Z").document["snapshots"]["expired"] == [1, 2, 3]
    assert expire(folder, control, "--max-deletes", 1).document["snapshots"]["expired"] == [1]
    by_option = expire(folder, control, "--option", "snapshot.expire.limit=2", "--option", "snapshot.time-retained=1 d")
    assert by_option.document["snapshots"]["expired"] == [1, 2]


def test_older_than_means_the_same_in_every_spelling(folder: Path, control: Path) -> None:
    """A zone is a zone, a compact time is a time, and an age counts back from now."""
    age_s = time.time() - 1500
    spellings = ("1970-01-01T00:25:00Z", "1970-01-01T01:25:00+01:00", "19700101T002500Z", f"{age_s:.0f} s")
    found = [
        expire(folder, control, "--retain-max", 6, "--older-than", text).document["snapshots"]["expired"]
        for text in spellings
    ]
    assert found == [[1, 2]] * 4


def test_a_branch_is_maintained_by_its_name(folder: Path, control: Path) -> None:
    """--branch chooses whose snapshots go, and documents say it."""
    table = write_table(folder.parent / "branched", options=RULES)
    table.tag("t", snapshot=2)
    branch = table.branch("rt", from_tag="t")
    for number in range(3):
        branch.commit(f"+B{number}")
    answer = call("expire-snapshots", folder.parent / "branched", "--branch", "rt", "--control", control, "--json")
    assert answer.document["branch"] == "rt"
    assert answer.document["snapshots"]["expired"] == [2, 3]
    assert {"branch/branch-rt/snapshot/snapshot-2"} <= {action["path"] for action in answer.document["actions"]}


def test_text_says_the_same_as_json(folder: Path, control: Path) -> None:
    """The text has the counts, the first actions with their reasons, and what to do next."""
    document = expire(folder, control).document
    answer = call("expire-snapshots", folder, "--control", control)
    lines = answer.printed.splitlines()
    assert lines[0] == f"expire-snapshots of {folder}, branch main: planned"
    assert "snapshots  1 to 6, 4 to expire (1 to 4)" in lines
    assert any(line.startswith(f"delete     {document['delete']['count']} objects, ") for line in lines)
    assert "    snapshot/snapshot-1: snapshot 1 is beyond the newest 3" in lines
    assert "    and 1 more" in lines
    assert "write      snapshot/EARLIEST" in lines
    assert any(line.startswith("keep ") and "2 snapshots (retain min)" in line for line in lines)
    assert lines[-1].startswith(f"next       lakesweep execute {folder} ")
    assert lines[-1].endswith(f" --control {control}")
    assert not answer.messages


def test_executed_text_has_the_outcome(folder: Path, control: Path) -> None:
    """After an execution the text says what is gone, and which run it was."""
    lines = call("expire-snapshots", folder, "--control", control, "--execute").printed.splitlines()
    assert lines[0].endswith(": done")
    assert any(line.startswith("deleted ") for line in lines)
    assert lines[-1].startswith("run ")


def test_maintain_applies_stated_options(folder: Path, control: Path) -> None:
    """`maintain` is the expiry by the table's own options, with its step inside."""
    planned = call("maintain", folder, "--control", control, "--json")
    assert planned.exit_code == 0
    assert tuple(planned.document) == (*KEYS, "warnings")
    assert (planned.document["operation"], planned.document["status"]) == ("maintain", "planned")
    (step,) = planned.document["steps"]
    assert tuple(step) == STEP_KEYS
    assert (step["operation"], step["snapshots"]["expired"]) == ("expire-snapshots", [1, 2, 3, 4])
    done = call("maintain", folder, "--control", control, "--json", "--execute")
    assert (done.exit_code, done.document["status"], done.document["executed"]) == (0, "done", True)
    assert paths(done.document) == paths(step)


def test_maintain_wants_stated_retention(tmp_path: Path, control: Path) -> None:
    """Options that no schema states are no licence to delete; an option of the call is."""
    write_table(tmp_path / "silent", commits=30)
    refused = call("maintain", tmp_path / "silent", "--control", control, "--json", "--execute")
    assert (refused.exit_code, refused.document["refusal"]["code"]) == (3, "retention_not_stated")
    stated = call(
        "maintain", tmp_path / "silent", "--control", control, "--json", "--option", "snapshot.num-retained.max=20"
    )
    assert (stated.exit_code, stated.document["status"]) == (0, "planned")


def test_warnings_are_said_once_and_never_on_stdout(folder: Path, control: Path) -> None:
    """A root that cannot be read is a warning on standard error; standard output stays one document."""
    table = write_table(folder.parent / "damaged", options=RULES)
    table.tag("broken", snapshot=1)
    name = table.document("tag/tag-broken")["deltaManifestList"]
    table.corrupt(f"manifest/{name}")
    answer = call("maintain", folder.parent / "damaged", "--control", control, "--json")
    assert (answer.exit_code, answer.document["status"]) == (4, "damaged")
    assert answer.document["kept"]["unreadable_root"] > 0
    assert len(answer.sentences) == len(set(answer.sentences)) > 1
    *warnings, last = answer.sentences
    assert all(sentence.startswith("lakesweep: warning: ") for sentence in warnings)
    assert "is damaged" in last


def test_a_held_lease_is_exit_code_5(folder: Path, control: Path) -> None:
    """Another maintainer is at work: nothing is done."""
    before = contents(folder)
    acquire(ControlArea(LocalStore(str(control)), str(folder)), "20260101T000000Z-other")
    answer = expire(folder, control, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (5, "lease_held")
    assert answer.sentences == [f"lakesweep: {answer.document['refusal']['message']}"]
    assert contents(folder) == before


def test_the_control_location_comes_from_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--control wins over $LAKESWEEP_CONTROL, that over the user's state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert call("expire-snapshots", folder).exit_code == 0
    assert (tmp_path / "state" / "lakesweep" / "tables").is_dir()
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "variable"))
    assert call("expire-snapshots", folder).exit_code == 0
    assert (tmp_path / "variable" / "tables").is_dir()
    assert call("expire-snapshots", folder, "--control", tmp_path / "option").exit_code == 0
    assert (tmp_path / "option" / "tables").is_dir()


def test_reading_makes_no_control_folder(folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that only read leave no trace anywhere."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(control))
    for command in ("show", "files", "plans", "runs"):
        assert call(command, folder).exit_code == 0
    assert not control.exists()


def test_json_is_ascii_whatever_the_names(tmp_path: Path, control: Path) -> None:
    """Names of tables and files may be in any script; the document stays ASCII and the text stays readable."""
    folder = tmp_path / "bestellungen-\u00fc\u6f22"
    write_table(folder, options=RULES)
    answer = expire(folder, control)
    assert answer.printed.isascii()
    assert json.loads(answer.printed)["table"] == str(folder)
    assert str(folder) in call("expire-snapshots", folder, "--control", control).printed


def test_a_name_cannot_command_the_terminal(tmp_path: Path) -> None:
    """Control characters in a name are spelled out."""
    table = write_table(tmp_path / "odd", options=RULES)
    table.tag("a\x1b[31mb", snapshot=1)
    printed = call("show", tmp_path / "odd").printed
    assert "\x1b" not in printed
    assert "a\\x1b[31mb" in printed
