"""`rollback` as typed: what it says first, what it leaves, and which words are off."""

import json
from pathlib import Path

import pytest

from lakesweep.runs import view
from tests.unit.cli.command_line import Answer, call, write_table


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    root = tmp_path / "lake" / "t"
    root.mkdir(parents=True)
    table = write_table(root)
    for name, snapshot_id in (("old", 2), ("load", 5), ("base", 5)):
        table.tag(name, snapshot=snapshot_id)
    table.branch("b", from_tag="base")
    return root, ["--control", str(tmp_path / "control")]


def rollback(place: tuple[Path, list[str]], *words: str) -> Answer:
    root, control = place
    return call("rollback", root, *words, *control)


def ids(root: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in (root / "snapshot").glob("snapshot-*"))


def test_what_is_lost_comes_first(place: tuple[Path, list[str]]) -> None:
    """Before the plan, in words; nothing changes."""
    answer = rollback(place, "--snapshot", "3", "--lose-tag", "base")
    assert answer.exit_code == 0, answer.messages
    lines = answer.printed.splitlines()
    assert lines[:7] == [
        f"rollback of {place[0]}, branch main: planned",
        "target     snapshot 3 of 1970-01-01 00:20:00.000Z becomes the newest",
        "lose       snapshots 4 to 6 (3), committed by builder",
        "lose       tags base, load",
        "rows       as many as snapshot 6 has",
        lines[5],
        "snapshots  1 to 6",
    ]
    assert lines[5].startswith("orphan     ") and "1 data" in lines[5] and "remove-orphan-files" in lines[5]
    assert "to expire" not in answer.printed
    assert lines[-1].startswith("next       lakesweep execute ")
    assert "stop the writers" in answer.messages
    assert ids(place[0]) == [1, 2, 3, 4, 5, 6]


def test_it_is_done(place: tuple[Path, list[str]]) -> None:
    """By a tag; once more there is nothing to do."""
    root = place[0]
    answer = rollback(place, "--tag", "old", "--lose-tag", "base", "--execute")
    assert answer.exit_code == 0, answer.messages
    assert "which tag old holds" in answer.printed
    assert ids(root) == [1, 2]
    assert (root / "snapshot" / "LATEST").read_text() == "2"
    assert sorted(path.name for path in (root / "tag").iterdir()) == ["tag-old"]
    answer = rollback(place, "--tag", "old", "--execute")
    assert answer.exit_code == 0 and "nothing to do" in answer.printed


def test_a_stored_plan_is_executed(place: tuple[Path, list[str]]) -> None:
    """The way of two people: one plans, the other one looks and executes."""
    root, control = place
    plan_id = rollback(place, "--snapshot", "5", "--json").document["plan_id"]
    answer = call("execute", root, plan_id, *control)
    assert answer.exit_code == 0, answer.messages
    assert ids(root) == [1, 2, 3, 4, 5]
    run_id = answer.printed.split()[-1]
    answer = call("execute", root, plan_id, *control)
    assert answer.exit_code == 0 and "nothing to do" in answer.printed
    assert f"plan {plan_id} was executed before, by run {run_id}" in answer.messages


def test_a_rollback_is_undone(place: tuple[Path, list[str]]) -> None:
    """By its run, and not by its plan; each answer says what comes next, or why nothing does."""
    root, control = place
    plan_id = rollback(place, "--snapshot", "5", "--json").document["plan_id"]
    assert f"report of run {plan_id}" in call("undo", root, plan_id, *control).messages
    run_id = call("execute", root, plan_id, "--json", *control).document["run_id"]
    answer = call("undo", root, plan_id, *control)
    assert answer.exit_code == 3
    assert f"{plan_id} is a plan; expected the run that carried it out, {run_id}" in answer.messages
    planned = call("undo", root, run_id, *control).printed.splitlines()[-1].split()
    assert planned[:4] == ["next", "lakesweep", "execute", str(root)]
    answer = call(*planned[2:])
    assert answer.exit_code == 0, answer.messages
    undoing = answer.printed.split()[-1]
    assert ids(root) == [1, 2, 3, 4, 5, 6]
    for words in ([], ["--execute"]):
        answer = call("undo", root, run_id, *words, *control)
        assert answer.exit_code == 0 and "nothing to do" in answer.printed
        assert f"run {run_id} was undone before, by run {undoing}" in answer.messages


def test_what_one_second_brought_is_listed_in_order(
    place: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of one second are random behind it; the newest comes first all the same."""
    root, control = place
    endings = iter("dbca")
    monkeypatch.setattr(view, "new_id", lambda now_ms: f"20260131T120000Z-0000000{next(endings)}")
    for number in ("5", "4", "3", "2"):
        rollback(place, "--snapshot", number, "--lose-tag", "base", "--execute")
    runs = call("runs", root, "--json", *control).document["runs"]
    plans = call("plans", root, "--json", *control).document["plans"]
    assert "".join(run["run_id"][-1] for run in runs) == "".join(plan["plan_id"][-1] for plan in plans) == "acbd"


def test_the_document(place: tuple[Path, list[str]]) -> None:
    """`--json` has the same findings, and every document that goes."""
    document = rollback(place, "--version", "4", "--lose-tag", "base", "--json").document
    assert document["operation"] == "rollback" and document["status"] == "planned"
    assert document["findings"]["target"] == {"snapshot": 4, "tag": None, "time_ms": 1_800_000}
    assert document["findings"]["lost"]["snapshots"] == [5, 6]
    assert document["snapshots"] == {"earliest": 1, "latest": 6, "expired": []}
    assert [action["path"] for action in document["actions"]] == [
        "tag/tag-base",
        "tag/tag-load",
        "snapshot/snapshot-6",
        "snapshot/snapshot-5",
    ]
    assert json.dumps(document["findings"])


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        ([], 2, "expected exactly one of"),
        (["--snapshot", "3", "--tag", "old"], 2, "expected exactly one of"),
        (["--snapshot", "x"], 2, "--snapshot: expected a whole number"),
        (["--watermark", "soon"], 2, "--watermark: expected a whole number"),
        (["--timestamp", "2026-01-31 12:00"], 2, "--timestamp: expected a time with its zone"),
        (["--snapshot", "77"], 3, "no snapshot 77"),
        (["--tag", "nope"], 3, "no tag 'nope'"),
        (["--version", "watermark-"], 3, "is not valid"),
        (["--watermark", "-9223372036854775808"], 3, "no snapshot has watermark -9223372036854775808"),
        (["--timestamp", "1969-01-01T00:00:00Z"], 3, "no snapshot was committed"),
        (
            ["--snapshot", "3"],
            3,
            "a rollback to snapshot 3 would delete protected tags: 'base' (branch b was made from it); ",
        ),
        (["--snapshot", "3"], 3, "expected --lose-tag with the name of each"),
        (["--snapshot", "3", "--lose-tag", "load"], 3, "'base' (branch b"),
        (["--snapshot", "5", "--branch", "nope"], 3, "nope"),
        (["--snapshot", "3", "--retain-max", "3"], 2, "--retain-max"),
    ],
)
def test_words_that_are_off(place: tuple[Path, list[str]], words: list[str], exit_code: int, says: str) -> None:
    """Each is answered with a sentence about what was typed, and nothing changes."""
    for more in ([], ["--execute"]):
        answer = rollback(place, *words, *more)
        assert answer.exit_code == exit_code, answer.messages
        assert says in answer.messages
    assert ids(place[0]) == [1, 2, 3, 4, 5, 6]


def test_the_help_says_what_it_can_promise() -> None:
    """Also while others write."""
    answer = call("rollback", "--help")
    text = " ".join(answer.printed.split())
    assert answer.exit_code == 0
    for words in ("What it can promise while others write", "stop the writers", "docs/safety.md", "--lose-tag"):
        assert words in text
