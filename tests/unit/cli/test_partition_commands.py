"""The commands that commit: what a person reads before and after, and what is refused before anything is read."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import call, write_partitioned

DROP = ("--partition", "dt=20240101,hr=08")
COMMIT = ("--catalog-type", "filesystem", "--execute")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with six partitions, a tag, and a control location."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    monkeypatch.setattr("lakesweep.commit.loop.SEEN_AGAIN_S", 0.0)
    write_partitioned(tmp_path / "orders")
    return tmp_path / "orders"


def snapshots(folder: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("snapshot/snapshot-*"))


def write_policy(folder: Path, **rule: object) -> Path:
    path = folder.parent / "policy.json"
    path.write_text(json.dumps({"version": 1, "rules": [{"tables": str(folder), **rule}]}))
    return path


def test_a_plan_says_who_still_shows_the_rows(folder: Path) -> None:
    """Nobody takes a dropped partition for deleted data. The next command is named, and nothing changes."""
    answer = call("drop-partition", folder, *DROP)
    assert answer.exit_code == 0 and snapshots(folder) == [1, 2, 3, 4, 5, 6]
    lines = answer.printed.splitlines()
    assert lines[0] == f"drop-partition of {folder}, branch main: planned"
    assert lines[1].startswith("  dt=20240101/hr=08: 10 rows, ") and lines[1].endswith(", 1 file")
    assert lines[2].startswith("drop       1 partition, 10 rows, ") and lines[2].endswith(", 1 file of 6 live ones")
    assert lines[3] == (
        "files      none is deleted by a commit; they stay while these show their rows: snapshots 1 to 6, tag month-end"
    )
    assert lines[4:] == ["catalog    not declared"], "it cannot be executed"
    assert "--catalog-type" in answer.messages
    assert "the plan is not stored" not in answer.messages
    declared = call("drop-partition", folder, *DROP, "--catalog-type", "hive")
    assert declared.printed.splitlines()[4:] == ["catalog    hive", "next       the same command with --execute"]
    owned = call("drop-partition", folder, *DROP, "--catalog-type", "rest")
    assert "\nnext " not in owned.printed and "cannot be executed" in owned.messages


def test_a_dropped_partition_is_shown_by_older_roots(folder: Path) -> None:
    """Whoever must erase rows asks again, until no root shows them."""
    call("drop-partition", folder, *DROP, *COMMIT)
    answer = call("drop-partition", folder, *DROP)
    assert answer.exit_code == 0
    assert answer.printed.splitlines()[1:] == [
        "drop       none: the newest snapshot has no such partition",
        "files      they stay while these show such rows: snapshots 1 to 6, tag month-end",
    ]
    document = call("drop-partition", folder, *DROP, "--json").document
    assert document["status"] == "nothing_to_do"
    assert document["commits"]["shown_by"] == ["snapshots 1 to 6", "tag month-end"]
    call("expire-snapshots", folder, "--retain-min", "1", "--retain-max", "1", "--execute")
    assert call("drop-partition", folder, *DROP, "--json").document["commits"]["shown_by"] == ["tag month-end"]
    call("delete-tag", folder, "month-end", "--execute")
    assert call("drop-partition", folder, *DROP).printed.splitlines()[2:] == [
        "files      no snapshot, tag or branch shows such rows"
    ]
    assert not list(folder.glob("dt=20240101/hr=08/bucket-0/*"))


def erase(folder: Path, *branch: str) -> None:
    """Follow docs/operations.md for one branch."""
    newest_only = ("--retain-min", "1", "--retain-max", "1", "--execute")
    assert call("drop-partition", folder, *DROP, *COMMIT, *branch).exit_code == 0
    for tag in ("month-end", "week-end"):
        call("delete-tag", folder, tag, "--execute", *branch)
    assert call("expire-snapshots", folder, *newest_only, *branch).exit_code == 0


@pytest.mark.parametrize("how", ["deleted first", "dropped first", "dropped last", "deleted last"])
def test_rows_are_erased_in_the_order_that_the_documentation_says(folder: Path, how: str) -> None:
    """A branch that goes last, as a whole, leaves files that manifests of main name; no other order does."""
    call("create-tag", folder, "week-end", "--execute")
    call("create-branch", folder, "dev", "--tag", "month-end", "--execute")
    if how == "deleted first":
        call("delete-branch", folder, "dev", "--execute")
    elif how == "dropped first":
        erase(folder, "--branch", "dev")
    erase(folder)
    if how == "dropped last":
        erase(folder, "--branch", "dev")
    elif how == "deleted last":
        assert call("drop-partition", folder, *DROP, "--json").document["commits"]["shown_by"] != []
        call("delete-branch", folder, "dev", "--execute")
    assert call("drop-partition", folder, *DROP, "--json").document["commits"]["shown_by"] == []
    left = [path.relative_to(folder).as_posix() for path in folder.glob("dt=20240101/hr=08/bucket-0/*")]
    assert bool(left) == (how == "deleted last")
    for path in left:
        assert "manifests delete it" in call("explain", folder, path).printed
    if left:
        call("compact-manifest", folder, *COMMIT)
        call("expire-snapshots", folder, "--retain-min", "1", "--retain-max", "1", "--execute")
        call("remove-orphan-files", folder, "--older-than", "1 ms", "--no-writers", "a test", "--execute")
        assert not list(folder.glob("dt=20240101/hr=08/bucket-0/*"))


def test_a_partition_that_no_root_has_is_no_success(folder: Path) -> None:
    """A slip in a value is noticed, also by an execution, which looks at the newest snapshot alone."""
    slip = ("--partition", "dt=2024-01-01")
    assert call("drop-partition", folder, *slip).printed.splitlines()[1:] == [
        "drop       none: the newest snapshot has no such partition",
        "files      no snapshot, tag or branch shows such rows",
    ]
    executed = call("drop-partition", folder, *slip, *COMMIT)
    assert executed.exit_code == 0
    assert executed.printed.splitlines()[1:] == ["drop       none: the newest snapshot has no such partition"]


def test_a_commit_names_its_snapshot(folder: Path) -> None:
    """The text and the document have the snapshot; lists of runs show it, and undo says what to do instead."""
    answer = call("drop-partition", folder, *DROP, *COMMIT)
    assert answer.exit_code == 0 and snapshots(folder) == [1, 2, 3, 4, 5, 6, 7]
    assert "\ncommit     snapshot 7: 1 partition dropped, 10 rows, " in answer.printed
    assert (
        "none is deleted by a commit; they stay while a snapshot, tag or branch shows these rows (drop-partition "
        "without --execute names these)"
    ) in answer.printed
    (run,) = call("runs", folder, "--json").document["runs"]
    assert (run["operation"], run["status"], run["committed"], run["deleted"]) == ("drop-partition", "done", [7], 0)
    assert " done (snapshot 7) " in call("runs", folder).printed
    assert f"run        {run['run_id']}\n" in answer.printed
    assert answer.printed.splitlines()[:-1] == call("report", folder, run["run_id"]).printed.splitlines()[:-2]
    undone = call("undo", folder, run["run_id"], "--execute", "--json")
    assert undone.exit_code == 3 and undone.document["refusal"]["code"] == "not_undoable"
    assert "lakesweep rollback TABLE --as-latest --snapshot 6" in undone.document["refusal"]["message"]


def test_a_stop_after_the_commit_says_what_is_committed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the run waits to look again: the snapshot is there, so the run has a report and is listed."""

    def stop(*anything: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakesweep.commit.loop.seen_at", stop)
    answer = call("drop-partition", folder, *DROP, *COMMIT, "--json")
    assert answer.exit_code == 130 and snapshots(folder)[-1] == 7
    (run,) = call("runs", folder, "--json").document["runs"]
    said = f"table {folder}: run {run['run_id']} was stopped by Ctrl-C after it committed snapshot 7"
    assert answer.messages == f"lakesweep: {said}\n"
    assert (answer.document["status"], answer.document["executed"]) == ("partial", True)
    assert answer.document["refusal"] == {"code": "interrupted", "message": said}
    assert (run["operation"], run["status"], run["committed"]) == ("drop-partition", "partial", [7])
    report = call("report", folder, run["run_id"], "--json").document["report"]
    assert report["commits"]["made"][0]["rows"] == 10
    assert report["refusal"]["code"] == "interrupted"


def test_a_stop_before_the_commit_leaves_no_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*anything: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakesweep.commit.loop.write_files", stop)
    answer = call("drop-partition", folder, *DROP, *COMMIT, "--json")
    assert (answer.exit_code, answer.document["status"], answer.document["executed"]) == (130, "refused", False)
    assert snapshots(folder)[-1] == 6 and call("runs", folder, "--json").document["runs"] == []


def test_a_run_that_is_killed_after_the_commit_is_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could write no report, but the lease knows its commit."""

    class Killed(BaseException):
        pass

    def kill(*anything: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("lakesweep.commit.loop.seen_at", kill)
        call("drop-partition", folder, *DROP, *COMMIT)
    (run,) = call("runs", folder, "--json").document["runs"]
    assert (run["status"], run["branch"], run["committed"], run["undoable"]) == ("unfinished", "main", [7], False)
    assert " unfinished (snapshot 7) " in call("runs", folder).printed
    answer = call("report", folder, run["run_id"])
    assert answer.exit_code == 3 and "it committed snapshot 7" in answer.messages
    call("truncate", folder, *COMMIT)
    assert [each["committed"] for each in call("runs", folder, "--json").document["runs"]] == [[8]]


def test_commands_that_read_understand_the_new_snapshot(folder: Path) -> None:
    """A file of a dropped partition is held by the older snapshots alone, and the table is healthy."""
    (path,) = (found.relative_to(folder).as_posix() for found in folder.glob("dt=20240101/hr=08/bucket-0/data-*"))
    call("drop-partition", folder, *DROP, *COMMIT)
    assert call("check", folder).exit_code == 0
    assert "snapshots   7, 1 (" in call("show", folder).printed
    explained = call("explain", folder, path)
    assert explained.exit_code == 0
    assert "live: 6 snapshots" in explained.printed and "tag month-end" in explained.printed
    assert call("explain", folder).exit_code == 0
    assert call("audit", "verify", folder).exit_code == 0
    assert path not in call("files", folder, "--json").printed


def test_a_truncated_table_is_empty(folder: Path) -> None:
    """Every partition is listed, and a second call finds nothing."""
    assert call("truncate", folder, *COMMIT, "--json").document["commits"]["partition_count"] == 6
    again = call("truncate", folder, *COMMIT)
    assert again.exit_code == 0 and again.printed.splitlines() == [
        f"truncate of {folder}, branch main: nothing to do",
        "drop       none: the newest snapshot has no rows",
    ]
    shown = "files      they stay while these show such rows: snapshots 1 to 6, tag month-end"
    assert call("truncate", folder).printed.splitlines()[2:] == [shown]
    assert snapshots(folder)[-1] == 7


def test_the_policy_declares_the_catalog(folder: Path) -> None:
    """For a call without --catalog-type; the call's own type counts first."""
    policy = write_policy(folder, catalog_type="hive", catalog_lock=True)
    document = call("drop-partition", folder, *DROP, "--policy", policy, "--json").document
    assert document["commits"]["catalog"] == "hive"
    own = call("drop-partition", folder, *DROP, "--policy", policy, "--catalog-type", "glue", "--json").document
    assert own["commits"]["catalog"] == "glue"
    assert call("drop-partition", folder, *DROP, "--policy", policy, "--execute").exit_code == 0
    assert snapshots(folder)[-1] == 7


def test_a_paused_table_is_not_committed_to(folder: Path) -> None:
    policy = write_policy(folder, pause=True)
    answer = call("truncate", folder, *COMMIT, "--policy", policy, "--json")
    assert answer.exit_code == 3 and answer.document["refusal"]["code"] == "paused"
    assert snapshots(folder)[-1] == 6


def test_a_policy_states_when_partitions_expire(folder: Path) -> None:
    """Only for a table whose schema states no time; an argument counts before both."""
    policy = write_policy(folder, partitions={"partition.expiration-time": "36500 d"}, time_zone="UTC")
    words = ("--policy", policy, "--json")
    document = call("expire-partitions", folder, *words).document
    assert [each["partition"] for each in document["commits"]["partitions"]] == [
        f"dt={day}/hr={hour}" for day in ("20240101", "20240102") for hour in ("08", "09")
    ]
    assert document["commits"]["not_due"] == {"null": 2}
    held = call("expire-partitions", folder, "--expiration-time", "36500 d", *words).document
    assert held["status"] == "nothing_to_do" and held["commits"]["not_due"] == {"not_due": 4, "null": 2}


def test_maintain_expires_partitions(folder: Path) -> None:
    """The pass shows the step, and commits with the catalog of the call."""
    keep = ("--option", "snapshot.num-retained.min=1")
    printed = call("maintain", folder, *keep).printed
    assert f"expire-partitions of {folder}, branch main: planned" in printed
    answer = call("maintain", folder, *keep, *COMMIT)
    assert answer.exit_code == 0, answer.messages
    assert "commit     snapshot 7: 4 partitions dropped" in answer.printed


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("drop-partition",), 2, "drop-partition: expected at least one partition"),
        (("drop-partition", "--partition", "dt"), 2, "dt"),
        (("drop-partition", "--partition", "day=20240101"), 2, "day"),
        (("drop-partition", "--partition", "{}"), 2, "--partition: expected a partition such as dt=20240101"),
        (("drop-partition", "--partition", '{"dt":'), 2, "--partition: expected a JSON object"),
        (("truncate", "--catalog-type", "Hive"), 2, "--catalog-type: expected one of filesystem, hive, jdbc"),
        (("truncate", "--catalog-lock"), 2, "--catalog-lock is stated without catalog_type; expected both"),
        (("truncate", "--execute"), 3, "expected --catalog-type, or catalog_type in the fleet policy or in JSON: "),
        (("truncate", "--catalog-type", "rest", "--execute"), 3, "rest"),
        (("truncate", "--option", "partition.expiration-time=1 d"), 2, "has no effect on truncate"),
        (
            ("expire-partitions", "--expiration-time", "1 d", "--option", "partition.expiration-time=2 d"),
            2,
            "--expiration-time and option partition.expiration-time state the same; expected one of the two",
        ),
        (("expire-partitions", "--max-expires", "0"), 2, "--max-expires: expected a whole number, at least 1"),
        (("expire-partitions", "--expiration-time", "soon"), 2, "--expiration-time: expected a duration"),
        (("expire-partitions", "--expiration-time", "30"), 2, "--expiration-time: 30 has no unit; expected '30 ms'"),
    ],
)
def test_wrong_calls_change_nothing(folder: Path, words: tuple[str, ...], exit_code: int, said: str) -> None:
    command, *rest = words
    answer = call(command, folder, *rest)
    assert (answer.exit_code, snapshots(folder)[-1]) == (exit_code, 6)
    assert said in answer.messages


@pytest.mark.parametrize("command", ["drop-partition", "compact"])
def test_a_wrong_key_is_named(folder: Path, command: str) -> None:
    """The word partition in a sentence is not the name of the option."""
    answer = call(command, folder, "--partition", "dx=1")
    assert "'dx' is no partition key; expected dt, hr" in answer.messages
