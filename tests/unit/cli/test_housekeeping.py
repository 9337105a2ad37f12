"""`housekeeping` on the command line: one table, or a whole control location."""

import json
import os
import shutil
from pathlib import Path

from tests.unit.cli.command_line import call, contents, write_table

OPTIONS = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


def test_a_control_location(folder: Path, control: Path, tmp_path: Path) -> None:
    """A dry run says what would go; foreign folders are named; nothing of today goes."""
    other = tmp_path / "other"
    write_table(other, options=OPTIONS)
    for each in (folder, other):
        assert call("expire-snapshots", each, "--execute").exit_code == 0
    (control / "mine").mkdir()
    (control / "mine" / "notes.txt").write_text("x")
    (control / "scans" / "nobody-0123456789ab" / "x").mkdir(parents=True)
    (control / "scans" / "nobody-0123456789ab" / "x" / "scan.json.gz").write_text("x")
    before = contents(control)
    answer = call("housekeeping", control, "--execute", "--json")
    document = answer.document
    assert answer.exit_code == 0 and contents(control) == before
    assert tuple(document) == (
        "operation", "control", "table", "executed", "retention", "tables", "foreign", "overviews", "requests",
    )  # fmt: skip
    assert document["foreign"] == ["mine"]
    tables = {each["table"]: each for each in document["tables"]}
    assert set(tables) == {str(folder), str(other), None}
    assert {each["reason"] for each in tables[None]["kept"]} == {"unknown_table"}
    assert tables[str(folder)]["status"] == "nothing_to_do" and tables[str(folder)]["is_gone"] is False
    shutil.rmtree(other)
    text = call("housekeeping", control).printed
    assert f"{other}: nothing to do; the table does not exist any more (--gone)" in text
    assert "mine/ is not Lakesweep's; it is kept" in text


def test_links_and_old_plans(folder: Path, control: Path, tmp_path: Path) -> None:
    """A link is foreign: neither it nor what it leads to goes."""
    planned = call("expire-snapshots", folder, "--json").document["plan_id"]
    area = next((control / "tables").iterdir())
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (area / "reports").mkdir(exist_ok=True)
    (area / "reports" / "20200101T000000Z-00000000.json").symlink_to(outside)
    old = "20200101T000000Z-0a0b0c0d"
    shutil.copytree(area / "plans" / planned, area / "plans" / old)
    header = area / "plans" / old / "header.json"
    header.write_text(header.read_text().replace(planned, old))
    document = json.loads(header.read_text())
    document["created_ms"] = document["expires_ms"] = 1
    header.write_text(json.dumps(document))
    for path in (header, outside):
        os.utime(path, (1, 1))
    dry = call("housekeeping", folder)
    assert dry.exit_code == 0 and "delete" in dry.printed and header.exists()
    done = call("housekeeping", folder, "--execute", "--json").document["tables"][0]
    assert done["outcome"]["deleted"] == 1 and not header.parent.joinpath("header.json").exists()
    assert outside.exists() and (area / "reports" / "20200101T000000Z-00000000.json").is_symlink()
    assert [each["reason"] for each in done["named"]] == ["foreign"]
    gone = call("plans", folder, old)
    assert gone.exit_code == 3 and f"housekeeping deleted it in run {done['run_id']}: older than 90 d" in gone.messages
    assert f"run {done['run_id']}" in call("execute", folder, old).messages
    assert [row["plan_id"] for row in call("plans", folder, "--json").document["plans"]] == [planned]
    assert call("housekeeping", control).exit_code == 0
    (area / "reports" / "20200101T000000Z-00000000.json").unlink()
    rows = call("runs", folder, "--json").document["runs"]
    assert [(row["operation"], row["deleted"], row["undoable_reason"]) for row in rows] == [
        ("housekeeping", 1, "not_undoable")
    ]
    assert call("report", folder, done["run_id"]).exit_code == 0
    assert call("audit", "verify", folder).exit_code == 0
    assert call("audit", "verify", control).exit_code == 0


def test_times_that_are_too_short_are_refused(folder: Path, control: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"version": 1, "rules": [], "control": {"retention": {"plans": "1 d"}}}))
    call("expire-snapshots", folder, "--execute")
    answer = call("housekeeping", control, "--policy", path, "--execute")
    assert answer.exit_code == 2
    assert "control.retention.plans: expected at least 24 d, or null: until then a queued message" in answer.messages


def test_a_paused_table_is_left_alone(folder: Path, control: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"version": 1, "rules": [{"tables": str(folder), "pause": True}]}))
    call("expire-snapshots", folder, "--execute")
    document = call("housekeeping", folder, "--policy", path, "--execute", "--json").document["tables"][0]
    assert {each["reason"] for each in document["kept"]} == {"paused"}


def test_what_overviews_remember_is_a_cache(folder: Path, control: Path) -> None:
    """It goes when no overview has written it for as long as caches are kept. Foreign files stay."""
    call("expire-snapshots", folder, "--execute")
    for name in ("old", "new"):
        (control / "overviews" / name).mkdir(parents=True)
        (control / "overviews" / name / "tables.ndjson.gz").write_text("x")
        (control / "overviews" / name / "notes.txt").write_text("x")
        for path in (control / "overviews" / "old").iterdir():
            os.utime(path, (1, 1))
    dry = call("housekeeping", control, "--json").document["overviews"]
    assert [(each["kind"], each["reason"], each["count"]) for each in dry["delete"]] == [
        ("overview", "older than 40 d", 1)
    ]
    assert [(each["kind"], each["reason"], each["count"]) for each in dry["kept"]] == [
        ("foreign", "foreign", 2),
        ("overview", "young", 1),
    ]
    done = call("housekeeping", control, "--execute", "--json").document["overviews"]
    assert done["outcome"]["deleted"] == 1
    left = sorted(path.relative_to(control / "overviews") for path in (control / "overviews").rglob("*.*"))
    assert [str(path) for path in left] == ["new/notes.txt", "new/tables.ndjson.gz", "old/notes.txt"]
