"""`delete-tag`, `rename-tag` and `expire-tags` as typed."""

import json
from pathlib import Path

import pytest

from lakesweep.cli.main import main
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    root = tmp_path / "lake" / "t"
    root.mkdir(parents=True)
    table = TableBuilder(LocalStore(str(root)))
    table.commit("+A")
    table.commit("-A", "+B")
    for name, snapshot_id in (("2026-01-30", 1), ("2026-01-31", 1), ("mine", 2)):
        table.tag(name, snapshot=snapshot_id)
    return str(root), ["--control", str(tmp_path / "control")]


def tags(root: str) -> list[str]:
    return sorted(path.name for path in Path(root, "tag").iterdir())


def test_delete_several(place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    root, control = place
    assert main(["delete-tag", root, "2026-01-30", "nope", "2026-01-31", *control]) == 0
    printed = capsys.readouterr()
    assert "there is no tag 'nope' to delete" in printed.err
    assert "tag/tag-2026-01-30: deleted manually" in printed.out
    assert "to expire" not in printed.out
    assert len(tags(root)) == 3
    assert main(["delete-tag", root, "2026-01-30", "2026-01-31", "--execute", *control]) == 0
    assert tags(root) == ["tag-mine"]


def test_delete_needs_a_name(place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete-tag", place[0]]) == 2
    assert "NAME" in capsys.readouterr().err


def test_rename(place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    root, control = place
    assert main(["rename-tag", root, "mine", "ours", "--execute", *control]) == 0
    assert "tag-ours" in tags(root)
    assert main(["rename-tag", root, "mine", "ours", "--execute", *control]) == 3
    assert main(["rename-tag", root, "ours", "2026-01-31", "--execute", *control]) == 3
    assert main(["rename-tag", root, "ours", "a/b", "--execute", *control]) == 2
    assert "a slash" in capsys.readouterr().err
    assert "tag-ours" in tags(root)


def test_expire_shows_each_tag_with_its_reason(
    place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    root, control = place
    assert main(["expire-tags", root, "--pattern", "20*", "--keep-last", "1", *control]) == 0
    printed = capsys.readouterr()
    assert "tag        2026-01-30: delete (keep rules)" in printed.out
    assert "tag        2026-01-31: keep (keep last)" in printed.out
    assert "tag        mine: keep (no rule)" in printed.out
    assert main(["expire-tags", root, "--pattern", "20*", "--keep-last", "1", "--execute", "--json", *control]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["findings"]["tags"]["kept"] == {"2026-01-31": ["keep_last"], "mine": ["no_rule"]}
    assert tags(root) == ["tag-2026-01-31", "tag-mine"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--keep-last", "1"], "--pattern"),
        (["--pattern", "*"], "expected with it one of"),
        (["--pattern", "*", "--keep-last", "0"], "--keep-last"),
        (["--pattern", "*", "--keep-daily", "x"], "--keep-daily"),
        (["--time-zone", "Mars"], "Mars"),
        (["--older-than", "yesterday"], "--older-than"),
        (["--option", "tag.num-retained=1"], "tag.num-retained"),
        (["--pattern", "*", "--keep-within", "soon"], "--keep-within"),
    ],
)
def test_bad_input(
    place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    root, control = place
    assert main(["expire-tags", root, "--execute", *words, *control]) in (2, 3)
    assert says in capsys.readouterr().err
    assert len(tags(root)) == 3


@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        (["rename-tag", "mine", ""], 2, "NEW: expected a name, found none"),
        (["rename-tag", "mine", "mine"], 3, "tag 'mine' exists already; expected another name"),
        (["rename-tag", "mine", "2026-01-31"], 3, "tag '2026-01-31' exists already; expected another name"),
        (["expire-tags", "--keep-daily", "3"], 2, "--pattern: expected the names of the tags that the rules are about"),
        (["expire-tags", "--pattern", "*"], 2, "--pattern '*': expected with it one of --keep-last, --keep-within, "),
        (
            ["expire-tags", "--pattern", "*", "--keep-within", "30"],
            2,
            "--keep-within: 30 has no unit; expected '30 ms'",
        ),
        (
            ["expire-tags", "--pattern", "*", "--keep-within", "0 d"],
            2,
            "--keep-within: expected a duration of at least",
        ),
        (
            ["tag-schedule", "--option", "tag.automatic-creation=process-time"],
            3,
            "expected sink.process-time-zone in the table's options, or --time-zone in the call or",
        ),
    ],
)
def test_sentences_about_what_was_typed(
    place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], words: list[str], exit_code: int, sentence: str
) -> None:
    """They name arguments as they are typed, also those that are missing; and nothing goes."""
    root, control = place
    before = tags(root)
    assert main([words[0], root, *words[1:], "--execute", *control]) == exit_code
    assert sentence in capsys.readouterr().err
    assert tags(root) == before


def test_expire_by_age_and_by_name_at_once(place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """It would take tags that the pattern leaves out."""
    root, control = place
    for option, value in (("--older-than", "2026-02-01T00:00:00Z"), ("--time-retained", "1 d")):
        words = ["--pattern", "20*", "--keep-last", "1", option, value, "--execute"]
        assert main(["expire-tags", root, *words, *control]) == 2
        assert capsys.readouterr().err.strip() == (
            f"lakesweep: {option} applies to all tags, and --pattern to some; expected one of the two"
        )
    assert len(tags(root)) == 3


def test_a_future_cutoff_deletes_no_tag(place: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in the year would delete every tag."""
    root, control = place
    before = tags(root)
    for time in ("2999-01-01T00:00:00Z", "9999999999999999999"):
        assert main(["expire-tags", root, "--older-than", time, "--execute", "--json", *control]) == 3
        captured = capsys.readouterr()
        assert json.loads(captured.out)["refusal"]["code"] == "cutoff_in_future"
        assert "--older-than is " in captured.err
    assert tags(root) == before
