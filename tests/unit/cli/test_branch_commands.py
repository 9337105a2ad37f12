"""`create-branch`, `delete-branch` and `branches` as typed."""

from pathlib import Path

import pytest

from tests.support.reader import read_all
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table

OFF: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("create-branch", "main"), 2, "expected another name"),
    (("create-branch", ""), 2, "NAME: expected a name, found none"),
    (("create-branch", "7"), 2, "digits alone"),
    (("create-branch", "a/b"), 2, "a slash"),
    (("create-branch", "b", "--tag", "none"), 3, "no tag 'none'; expected one of the existing tags ('t')"),
    (("create-branch", "b" * 201), 2, "expected a name of at most 200 bytes"),
    (("create-branch", "b", "--snapshot", "77"), 3, "no snapshot 77"),
    (("create-branch", "b", "--snapshot", "x"), 2, "--snapshot: expected a whole number"),
    (("create-branch", "b", "--snapshot", "1", "--tag", "t"), 2, "expected at most one of tag and snapshot"),
    (("create-branch",), 2, "NAME"),
    (("create-branch", "b", "--branch", "c"), 2, "--branch"),
    (("delete-branch", "b"), 3, "no branch 'b'; expected one of the existing branches (none)"),
    (("delete-branch", "\u65e5\u672c"), 3, "no branch '\u65e5\u672c'; expected"),
    (("create-branch", "a\x1b[31m"), 2, "branch 'a\\x1b[31m': expected"),
    (("delete-branch", "main"), 2, "expected another name"),
    (("delete-branch",), 2, "NAME"),
)


class Place:
    """A local table of six snapshots with a tag."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake" / "t"
        self.folder.mkdir(parents=True)
        self.control = folder / "control"
        self.table: TableBuilder = write_table(self.folder)
        self.table.tag("t", snapshot=4)

    def call(self, command: str, *words: str) -> Answer:
        return call(command, self.folder, *words, "--control", self.control)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    return Place(tmp_path)


def test_from_the_plan_to_the_list(place: Place) -> None:
    """Planned, made, listed, deleted; the table is what it was, without even an empty folder."""
    before = contents(place.folder)
    planned = place.call("create-branch", "trial", "--tag", "t")
    assert planned.exit_code == 0
    assert "branch     trial begins with snapshot 4, which tag t names\n" in planned.printed
    assert "write      branch/branch-trial/snapshot/snapshot-4" in planned.printed
    assert "snapshots  1 to 6\n" in planned.printed
    assert "Paimon does not ask what a branch needs" in planned.messages
    assert contents(place.folder) == before
    assert place.call("create-branch", "trial", "--tag", "t", "--execute").exit_code == 0
    assert place.call("create-branch", "late", "--snapshot", "6", "--execute").exit_code == 0
    assert place.call("create-branch", "empty", "--execute").exit_code == 0
    listed = place.call("branches", "--sizes").printed.splitlines()
    assert listed[0].split() == [
        "NAME", "FROM", "SNAPSHOTS", "NEWEST", "COMMITTED", "ROWS", "TAGS", "SCHEMA", "FILES", "ALONE",
    ]  # fmt: skip
    assert [line.split()[:2] for line in listed[1:]] == [["empty", "-"], ["late", "snapshot"], ["trial", "tag"]]
    assert listed[3].split()[2:5] == ["t", "1", "4"]
    document = place.call("branches", "--json").document
    assert [row["from"] for row in document["branches"]] == [
        None,
        {"tag": None, "snapshot": 6},
        {"tag": "t", "snapshot": 4},
    ]
    for name in ("trial", "late", "empty"):
        going = place.call("delete-branch", name)
        assert going.exit_code == 0
        assert place.call("delete-branch", name, "--execute").exit_code == 0
    assert contents(place.folder) == before
    assert place.call("branches").printed.endswith("no branches\n")
    assert list((place.folder / "branch").iterdir()) == []


def test_a_branch_keeps_what_it_needs(place: Place) -> None:
    """The tag goes and main expires; the branch reads, and its bytes are told."""
    assert place.call("create-branch", "trial", "--tag", "t", "--execute").exit_code == 0
    assert place.call("delete-tag", "t", "--execute").exit_code == 0
    expired = place.call("expire-snapshots", "--retain-max", "1", "--retain-min", "1", "--execute")
    assert expired.exit_code == 0
    read_all(place.table.store)
    (row,) = place.call("branches", "--sizes", "--json").document["branches"]
    assert row["from"] is None
    assert row["files"] > 1
    document = place.call("delete-branch", "trial", "--execute", "--json").document
    assert document["findings"]["newly_orphaned"]["files"] == row["files"]
    assert document["findings"]["newly_orphaned"]["bytes"] == row["bytes"]
    assert document["findings"]["lost"]["snapshots"] == [4]


def test_words_that_are_off(place: Place) -> None:
    """One sentence, no trace, and nothing written."""
    before = contents(place.folder)
    for words, exit_code, sentence in OFF:
        answer = place.call(*words, "--execute")
        assert (answer.exit_code, len(answer.sentences)) == (exit_code, 1), answer.messages
        assert sentence in answer.messages
    assert contents(place.folder) == before


def test_a_branch_in_a_sentence_is_a_word(place: Place) -> None:
    """An argument's name is that only before a colon."""
    assert place.call("create-branch", "b", "--execute").exit_code == 0
    answer = place.call("create-branch", "b", "--execute")
    assert answer.exit_code == 3
    assert ": branch 'b' exists already" in answer.messages


def test_words_of_one_document(place: Place) -> None:
    """A refusal in JSON has its code."""
    for words, code in ((("delete-branch", "b"), "no_such_branch"), (("create-branch", "12"), "bad_branch_name")):
        assert place.call(*words, "--json").document["refusal"]["code"] == code
    assert place.call("branches", "--json").document == {"table": str(place.folder), "branches": [], "warnings": []}


def test_what_a_branch_loses_is_said_of_it(place: Place) -> None:
    """Main has a tag of the same name, which stays; so do its rows."""
    trial = place.table.branch("trial", "t")
    trial.commit("+B5")
    trial.tag("load")
    place.table.tag("load")
    lines = place.call("delete-branch", "trial").printed.splitlines()
    assert lines[1] == "branch     trial is deleted"
    assert "lose       tag load of branch trial" in lines
    assert any(line.startswith("lose       snapshot 5 of branch trial, committed by ") for line in lines)
    assert not any("fewer than" in line for line in lines)


def test_an_undo_says_what_it_takes_back(place: Place) -> None:
    """Planned and done; nothing is said to be deleted where nothing was. Once more, it tells of no loss."""
    run_id = place.call("rollback", "--snapshot", "5", "--execute", "--json").document["run_id"]
    for words in ((), ("--execute",)):
        printed = place.call("undo", run_id, *words).printed
        assert f"undo       rollback, run {run_id}\n" in printed
        assert "write      snapshot/snapshot-6" in printed
        assert "deleted " not in printed
    again = place.call("undo", run_id, "--execute")
    assert again.exit_code == 0
    assert "nothing to do" in again.printed
    assert "lose " not in again.printed


def test_two_targets_are_named(place: Place) -> None:
    answer = place.call("rollback", "--snapshot", "5", "--tag", "t")
    assert (answer.exit_code, "found snapshot and tag" in answer.messages) == (2, True)
    assert "found none" in place.call("rollback").messages


def test_what_did_not_come_is_not_said(place: Place) -> None:
    """Somebody committed after the plan was stored: it is stale, the commit is named, and the report says no loss.

    The plan that is printed before says what would be lost.
    """
    plan_id = place.call("rollback", "--snapshot", "5", "--json").document["plan_id"]
    place.table.commit("+late")
    answer = place.call("execute", plan_id)
    assert answer.exit_code == 3
    assert "snapshot/snapshot-7 was written by somebody else" in answer.messages
    assert "nothing was done" in answer.messages
    plan, is_stale, ended = answer.printed.partition("branch main: stale\n")
    assert "becomes the newest" in plan
    assert is_stale and "becomes the newest" not in ended


def test_nothing_to_forward(place: Place) -> None:
    """It says why."""
    assert place.call("create-branch", "b", "--snapshot", "6", "--execute").exit_code == 0
    answer = place.call("fast-forward", "b", "--execute")
    assert answer.exit_code == 0 and "nothing to do" in answer.printed
    assert "main equals branch b already" in answer.messages


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("branches",),
        ("create-branch", "b", "--execute"),
        ("create-tag", "t", "--execute"),
        ("rollback", "--snapshot", "4", "--execute"),
        ("maintain", "--execute"),
        ("remove-orphan-files", "--execute"),
        ("plans",),
    ],
    ids=" ".join,
)
def test_the_folder_of_a_branch_is_no_table(
    place: Place, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be locked apart from its table, its files would look lost, and a branch in it nobody could delete."""
    assert place.call("create-branch", "trial", "--tag", "t", "--execute").exit_code == 0
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(place.control))
    before = contents(place.folder)
    for end in ("", "/"):
        folder = f"{place.folder}/branch/branch-trial{end}"
        answer = call(words[0], folder, *words[1:])
        assert answer.exit_code == 2, answer.messages
        assert answer.sentences == [
            f"lakesweep: {place.folder}/branch/branch-trial: expected a table, found the folder of its branch 'trial'; "
            f"give the table, {place.folder}, and the branch by name"
        ]
    assert contents(place.folder) == before


def test_a_fast_forward_takes_a_tag_that_is_given_up(place: Place) -> None:
    """Another branch was made from it. The sentence says what to type."""
    for name, tag in (("one", "t"), ("two", "late")):
        if tag == "late":
            place.table.tag("late", snapshot=6)
        assert place.call("create-branch", name, "--tag", tag, "--execute").exit_code == 0
    refused = place.call("fast-forward", "one", "--execute")
    assert refused.exit_code == 3
    assert (
        "a fast-forward to branch one would delete protected tags: 'late' (branch two was made from it); expected "
        "--lose-tag with the name of each, or branch one to have the same tags"
    ) in refused.messages
    assert place.call("fast-forward", "one", "--lose-tag", "late", "--execute").exit_code == 0
    assert not place.table.exists("tag/tag-late")
    read_all(place.table.store)
