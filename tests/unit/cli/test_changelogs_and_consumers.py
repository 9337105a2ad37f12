"""`expire-changelogs`, `clear-consumers`, `reset-consumer`, and `maintain` with its three steps."""

import json
from pathlib import Path

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import KEYS, Answer, call, contents, write_table

RULES = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "100000 d",
    "changelog.num-retained.max": "3",
    "consumer.expiration-time": "1 d",
}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return write_table(tmp_path / "orders", options=RULES)


@pytest.fixture
def folder(table: TableBuilder, tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def run(command: str, folder: Path, control: Path, *argv: object) -> Answer:
    return call(command, folder, "--control", control, *argv)


def test_changelogs_by_hand(folder: Path, control: Path) -> None:
    """A dry run, the execution of the same, and nothing to do after it."""
    assert run("expire-snapshots", folder, control, "--execute").exit_code == 0
    before = contents(folder)
    planned = run("expire-changelogs", folder, control, "--retain-max", 3, "--json")
    assert contents(folder) == before
    assert tuple(planned.document) == KEYS
    assert planned.document["operation"] == "expire-changelogs"
    assert planned.document["snapshots"] == {"earliest": 5, "latest": 6, "expired": [1, 2, 3]}
    assert planned.document["kept"]["changelog_retention"] == 1
    done = run("expire-changelogs", folder, control, "--retain-max", 3, "--json", "--execute")
    assert (done.exit_code, done.document["status"]) == (0, "done")
    assert done.document["actions"] == planned.document["actions"]
    again = run("expire-changelogs", folder, control, "--retain-max", 3, "--json", "--execute")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    assert run("expire-changelogs", folder, control, "--delete-all", "--execute").exit_code == 0
    assert not [path for path in contents(folder) if path.startswith("changelog/")]


def test_changelogs_as_text(folder: Path, control: Path) -> None:
    run("expire-snapshots", folder, control, "--execute")
    lines = run("expire-changelogs", folder, control, "--retain-max", 3).printed.splitlines()
    assert lines[0] == f"expire-changelogs of {folder}, branch main: planned"
    assert lines[1:3] == ["snapshots  5 to 6", "changelogs 3 to expire (1 to 3)"]
    assert any("1 changelog (changelog retention)" in line for line in lines)
    assert lines[-1].startswith(f"next       lakesweep execute {folder} ")


def test_delete_all_takes_no_limits(folder: Path, control: Path) -> None:
    answer = run("expire-changelogs", folder, control, "--delete-all", "--retain-max", 3, "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (2, "bad_argument")


def test_consumers(table: TableBuilder, folder: Path, control: Path) -> None:
    for name in ("a", "ab", "b"):
        table.consumer(name, 3)
    answer = run(
        "clear-consumers",
        folder,
        control,
        "--including-consumers",
        "a.*",
        "--excluding-consumers",
        "ab",
        "--json",
        "--execute",
    )
    assert (answer.exit_code, answer.document["delete"]["by_kind"]) == (0, {"consumer": 1})
    assert answer.document["kept"] == {"consumer_stays": 2}
    lines = run("reset-consumer", folder, control, "ab").printed.splitlines()
    assert lines[0] == f"reset-consumer of {folder}, branch main: planned"
    assert lines[1] == "snapshots  1 to 6"
    assert "    consumer/consumer-ab: deleted manually" in lines
    moved = run("reset-consumer", folder, control, "b", "--next-snapshot-id", 5, "--json", "--execute")
    assert moved.document["created"] == [{"kind": "consumer", "path": "consumer/consumer-b"}]
    assert json.loads(contents(folder)["consumer/consumer-b"]) == {"nextSnapshot": 5}
    assert run("reset-consumer", folder, control, "b", "--next-snapshot-id", 99).exit_code == 3
    assert run("reset-consumer", folder, control, "nobody").exit_code == 3
    assert run("clear-consumers", folder, control, "--including-consumers", "(").exit_code == 2
    assert run("reset-consumer", folder, control, "b", "--next-snapshot-id", "soon").exit_code == 2


def test_an_expiry_ends_before_the_next_snapshot_of_a_consumer(tmp_path: Path, control: Path) -> None:
    """The snapshot that a streaming job reads next stays, in the plan and in the table; the one before it goes."""
    folder = tmp_path / "billed"
    write_table(folder, commits=12, options=RULES).consumer("billing", 7)
    planned = run("expire-snapshots", folder, control, "--json").document
    assert planned["snapshots"]["expired"] == [1, 2, 3, 4, 5, 6]
    done = run("expire-snapshots", folder, control, "--json", "--execute").document
    assert (done["status"], done["kept"]["consumer"]) == ("done", 5)
    left = {path for path in contents(folder) if path.startswith("snapshot/snapshot-")}
    assert left == {f"snapshot/snapshot-{number}" for number in range(7, 13)}


def test_maintain_says_that_it_keeps_all_snapshots(tmp_path: Path, control: Path) -> None:
    options = {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "5"}
    write_table(tmp_path / "calm", commits=3, options=options)
    assert "snapshots  1 to 3, all kept" in run("maintain", tmp_path / "calm", control).printed


def test_maintain_shows_its_steps(folder: Path, control: Path) -> None:
    """What a dry run shows of the later steps is what they do when their turn comes."""
    planned = run("maintain", folder, control, "--json").document
    assert [(step["operation"], step["status"]) for step in planned["steps"]] == [
        ("expire-consumers", "nothing_to_do"),
        ("expire-snapshots", "planned"),
        ("expire-changelogs", "planned"),
    ]
    lines = run("maintain", folder, control).printed.splitlines()
    assert [line for line in lines if line.startswith("expire-")] == [
        f"{step['operation']} of {folder}, branch main: {step['status'].replace('_', ' ')}" for step in planned["steps"]
    ]
    assert lines[-1] == "next       the same command with --execute"
    done = run("maintain", folder, control, "--json", "--execute").document
    assert [step["actions"] for step in done["steps"]] == [step["actions"] for step in planned["steps"]]
    assert done["actions"] == done["steps"][1]["actions"]


def test_an_option_must_play_a_part(folder: Path, control: Path) -> None:
    """`consumer.expiration-time` is of the pass after a commit alone."""
    option = ("--option", "consumer.expiration-time=1 d", "--json")
    assert run("maintain", folder, control, *option).exit_code == 0
    refused = run("expire-snapshots", folder, control, *option)
    assert (refused.exit_code, refused.document["refusal"]["code"]) == (2, "unknown_option")
