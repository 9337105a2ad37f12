"""`compact-manifest` as a person reads it, before and after."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import call, write_partitioned

COMMIT = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")
SAVES = (
    "saves      5 requests of each reader of the whole table, 1 of a commit that looks for conflicts in one partition"
)
FILES = "files      none is deleted by a commit; former manifests stay while a snapshot, tag or branch names them"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with six manifests of one file each."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    write_partitioned(tmp_path / "orders")
    return tmp_path / "orders"


def test_a_plan_says_what_it_saves(folder: Path) -> None:
    answer = call("compact-manifest", folder, "--catalog-type", "hive")
    assert answer.exit_code == 0 and len(list(folder.glob("snapshot/snapshot-*"))) == 6
    title, before, after, *rest = answer.printed.splitlines()
    assert title == f"compact-manifest of {folder}, branch main: planned"
    assert before.startswith("before     6 manifests, ") and before.endswith(", 6 entries, none of deleted files")
    assert after.startswith("after      1 manifest, ") and after.endswith(", 6 entries, none of deleted files")
    assert rest == [SAVES, FILES, "catalog    hive", "next       the same command with --execute"]


def test_what_cannot_be_executed_is_said(folder: Path) -> None:
    for words in ((), ("--catalog-type", "rest")):
        answer = call("compact-manifest", folder, *words)
        assert answer.exit_code == 0 and "\nnext " not in answer.printed
        assert "cannot be executed" in answer.messages and "CALL sys.compact_manifest" in answer.messages
    refused = call("compact-manifest", folder, "--catalog-type", "rest", "--execute")
    assert refused.exit_code == 3 and len(list(folder.glob("snapshot/snapshot-*"))) == 6


def test_an_execution_says_what_it_did(folder: Path) -> None:
    lines = call("compact-manifest", folder, *COMMIT).printed.splitlines()
    assert lines[0].endswith(": done")
    assert lines[3:6] == ["commit     snapshot 7: the same files", SAVES, FILES]
    again = call("compact-manifest", folder, *COMMIT).printed.splitlines()
    assert again[0].endswith(": nothing to do")
    assert len(again) == 2 and again[1].startswith("manifests  1 manifest, ")


def test_the_document(folder: Path) -> None:
    commits = call("compact-manifest", folder, *COMMIT, "--json").document["commits"]
    assert [(commits[key]["manifests"], commits[key]["entries"]) for key in ("before", "after")] == [(6, 6), (1, 6)]
    assert commits["saved_requests"] == {"reader": 5, "commit": 1}
    assert [made["snapshot_id"] for made in commits["made"]] == [7]
    assert (commits["catalog"], commits["reused_attempt"]) == ("filesystem", False)


def test_a_pass_says_why(folder: Path) -> None:
    """`show` says the same before: with more than four small manifests in the base list, a compaction is due."""
    most = ("--option", "manifest.merge-min-count=4")
    planned = call("maintain", folder, *COMMIT[:2], *most).printed
    assert "due        the list of manifests exceeds manifest.merge-min-count" in planned
    assert "manifests   5 below their target size (due above 30), " in call("show", folder).printed
    silent = call("maintain", folder, *most).printed
    assert "compact-manifest" not in silent, "no catalog is declared"


def test_options_of_the_call(folder: Path) -> None:
    """Only those that decide how manifests are written, and how long a commit is tried."""
    small = call("compact-manifest", folder, *COMMIT, "--option", "manifest.target-file-size=1 b")
    assert ": nothing to do" in small.printed, "each manifest is large enough"
    other = call("compact-manifest", folder, *COMMIT, "--option", "snapshot.num-retained.max=1")
    assert other.exit_code == 2
    bad = call("compact-manifest", folder, *COMMIT, "--option", "manifest.target-file-size=large")
    assert bad.exit_code == 3 and "manifest.target-file-size" in bad.messages + bad.printed
