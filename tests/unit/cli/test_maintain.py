"""`maintain` from the command line: all branches, the interval, options of the call, and what to do next."""

import json
from pathlib import Path

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import STEP_KEYS, Answer, call, contents, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "30 d"}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    table = write_table(tmp_path / "orders", options=RULES)
    table.tag("t")
    branch = table.branch("rt", "t")
    for number in range(7, 12):
        branch.commit(f"-F{number - 1}", f"+F{number}")
    return table


@pytest.fixture
def folder(tmp_path: Path, table: TableBuilder) -> Path:
    return tmp_path / "orders"


def maintain(folder: Path, *argv: object) -> Answer:
    return call("maintain", folder, "--control", folder.parent / "control", *argv)


def test_all_branches(folder: Path) -> None:
    """One document, whose steps are those of each branch."""
    planned = maintain(folder, "--all-branches", "--json")
    assert (planned.exit_code, planned.document["status"], planned.document["executed"]) == (0, "planned", False)
    done = maintain(folder, "--all-branches", "--execute", "--json")
    assert (done.exit_code, done.document["status"], done.messages) == (0, "done", "")
    assert done.document["branch"] is None
    assert [(step["operation"], step["branch"]) for step in done.document["steps"]] == [
        ("maintain", "main"),
        ("maintain", "rt"),
    ]
    assert all(tuple(step) == STEP_KEYS for step in done.document["steps"])
    assert [step["branch"] for part in done.document["steps"] for step in part["steps"]] == ["main", "rt"]
    paths = [[action["path"] for action in answer.document["actions"]] for answer in (planned, done)]
    assert paths[0] == paths[1] != []
    assert not (folder / "snapshot" / "snapshot-3").exists()
    assert not (folder / "branch" / "branch-rt" / "snapshot" / "snapshot-8").exists()


def test_all_branches_as_text(folder: Path) -> None:
    """A line for the whole, then each branch."""
    text = maintain(folder, "--all-branches").printed
    first, *lines = text.splitlines()
    assert first == f"maintain of {folder}, all branches: planned"
    assert f"maintain of {folder}, branch main: planned" in lines
    assert f"maintain of {folder}, branch rt: planned" in lines
    assert lines[-1] == "next       the same command with --execute"


@pytest.mark.parametrize("branch", ["main", "rt"])
def test_one_branch_or_all(folder: Path, branch: str) -> None:
    """The two options contradict each other, whatever the name."""
    before = contents(folder)
    answer = maintain(folder, "--all-branches", "--branch", branch, "--execute", "--json")
    assert (answer.exit_code, answer.printed) == (2, "")
    assert answer.sentences == ["lakesweep: --branch and --all-branches exclude each other; expected one of them"]
    assert contents(folder) == before


def test_the_worst_branch_decides_the_exit_code(folder: Path, table: TableBuilder) -> None:
    """Each refusal is said with its branch; the others are done."""
    table.on_branch("rt").alter(options={"snapshot.num-retained.max": "many"})
    answer = maintain(folder, "--all-branches", "--execute", "--json")
    assert (answer.exit_code, answer.document["status"]) == (3, "refused")
    assert [step["status"] for step in answer.document["steps"]] == ["done", "refused"]
    (sentence,) = answer.sentences
    assert sentence.startswith("lakesweep: branch rt: ")
    assert not (folder / "snapshot" / "snapshot-3").exists()


def test_an_error_before_any_branch(folder: Path, tmp_path: Path) -> None:
    """There is a document all the same."""
    answer = maintain(folder, "--all-branches", "--policy", tmp_path / "none.json", "--execute", "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (2, "bad_policy")
    assert answer.document["branch"] is None


def test_the_interval(folder: Path, table: TableBuilder) -> None:
    """A commit right after a pass waits, unless it is asked for."""
    hourly = ("--execute", "--json", "--min-interval", "1 h")
    assert maintain(folder, *hourly).document["status"] == "done"
    table.commit("-F6", "+F12")
    waiting = maintain(folder, *hourly).document
    assert (waiting["status"], waiting["steps"]) == ("nothing_to_do", [])
    assert maintain(folder, "--execute", "--json", "--min-interval", "0 s").document["status"] == "done"


@pytest.mark.parametrize("words", [(), ("--all-branches",)], ids=["main", "all_branches"])
def test_commits_with_the_ids_of_a_rollback_are_looked_at(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Paimon rolled back by two snapshots, and two commits took their ids. A pass tells that from no commit."""
    folder = tmp_path / "orders"
    table = write_table(folder, options={"snapshot.num-retained.max": "19", "tag.automatic-creation": "batch"})
    call("expire-snapshots", folder, "--control", tmp_path / "control", "--older-than", "1 d", "--execute")

    def steps() -> list[str]:
        answer = maintain(folder, *words, "--execute", "--json")
        assert answer.exit_code == 0, answer.messages
        found = answer.document["steps"] or []
        return [each["operation"] for step in found for each in ([step] if not step["steps"] else step["steps"])]

    assert "expire-snapshots" in steps()
    assert "expire-snapshots" not in steps(), "the state of the pass answers"
    table.rollback(4)
    table.commit("-F4", "+N5")
    table.commit("-N5", "+N6")
    table.hint("LATEST", 6)
    assert "expire-snapshots" in steps()
    assert "expire-snapshots" not in steps()


def test_words_are_named_as_typed(folder: Path) -> None:
    """`--min-interval`, not `min_interval`; and `--retain-min`, not the option of the table."""
    answer = maintain(folder, "--min-interval", "soon")
    assert answer.exit_code == 2
    assert answer.sentences == [
        "lakesweep: --min-interval: expected a duration such as 10 min, 1 d or 500 ms, at least 1 ms or 0, found 'soon'"
    ]
    argv = ("expire-snapshots", folder, "--control", folder.parent / "control")
    for words, start in (
        (("--retain-min", "x"), "--retain-min: expected a whole number"),
        (
            ("--older-than", "yesterday"),
            "--older-than: expected an age with its unit such as '3 d', or a time with its zone",
        ),
        (("--grace", "x"), "--grace: expected a duration"),
    ):
        answer = call(*argv, *words)
        assert answer.exit_code == 2
        assert answer.sentences[0].startswith(f"lakesweep: {start}")
    answer = call(*argv, "--retain-max", "1")
    assert (answer.exit_code, answer.sentences) == (
        3,
        [f"lakesweep: table {folder}: --retain-max is 1, retain_min is 2; expected --retain-max >= retain_min"],
    )
    answer = call(*argv, "--older-than", "2999-01-01T00:00:00Z", "--json")
    assert "--older-than is 2999-01-01T00:00:00.000+00:00, " in answer.document["refusal"]["message"]
    answer = call("files", folder, "--timestamp", "noon")
    assert answer.sentences[0].startswith("lakesweep: --timestamp: expected a time")


def test_options_of_the_call(folder: Path) -> None:
    """They hold for this call, for every branch."""
    options = ("--option", "snapshot.num-retained.max=2", "--option", "snapshot.num-retained.min=1")
    assert maintain(folder, *options, "--json").document["snapshots"]["expired"] == [1, 2, 3, 4, 5]
    steps = maintain(folder, *options, "--all-branches", "--json").document["steps"]
    assert [len(step["snapshots"]["expired"]) for step in steps] == [5, 5]
    assert maintain(folder, "--option", "bucket=1").exit_code == 2
    assert maintain(folder, "--option", "bucket").sentences == [
        "lakesweep: --option: expected KEY=VALUE, found 'bucket'"
    ]


def test_next_names_a_plan_that_is_stored(folder: Path, table: TableBuilder) -> None:
    """One step: its plan, with what it takes to run it. Several: the same command, since only the first is stored."""
    control = folder.parent / "control"
    text = maintain(folder).printed
    next_line = text.splitlines()[-1]
    plan_id = next_line.split()[4]
    assert call("execute", folder, plan_id, "--control", control, "--json").document["status"] == "done"

    table.consumer("old", 3)
    table.commit("-F6", "+F12")
    options = ("--option", "consumer.expiration-time=1 ms")
    answer = maintain(folder, *options)
    assert answer.printed.splitlines()[-1] == "next       the same command with --execute"
    steps = maintain(folder, *options, "--json").document["steps"]
    stored = {plan["plan_id"] for plan in call("plans", folder, "--control", control, "--json").document["plans"]}
    assert [step["status"] for step in steps] == ["planned", "planned"]
    assert [step["plan_id"] in stored for step in steps] == [True, False]


def test_next_repeats_the_policy(folder: Path, tmp_path: Path) -> None:
    """So that a pause counts when the plan is carried out."""
    policy = tmp_path / "policy.json"
    rule = {"tables": str(tmp_path), "mode": "delete"}
    policy.write_text(json.dumps({"version": 1, "rules": [rule]}))
    assert f" --policy {policy} " in maintain(folder, "--policy", policy).printed.splitlines()[-1]
