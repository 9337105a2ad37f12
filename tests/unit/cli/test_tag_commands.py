"""`create-tag`, `replace-tag` and `tags` as people call them."""

import json
import re
from pathlib import Path

import pytest

from lakesweep.operations.tags.expire import UNREADABLE, UNREADABLE_ROOT
from tests.support.documentation import section
from tests.unit.cli.command_line import call, contents, write_table

OLD = "files of tag"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of snapshots 1 to 6, ten minutes apart since 1970."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    write_table(tmp_path / "t")
    return tmp_path / "t"


def test_a_dry_run_and_its_plan(table: Path) -> None:
    before = contents(table)
    answer = call("create-tag", table, "before-load")
    assert answer.exit_code == 0
    assert contents(table) == before
    lines = answer.printed.splitlines()
    assert lines[0] == f"create-tag of {table}, branch main: planned"
    assert lines[1:4] == [
        "snapshots  1 to 6",
        "tag        before-load: snapshot 6, committed 1970-01-01T00:50:00.000+00:00",
        "write      tag/tag-before-load",
    ]
    words = lines[4].split()
    assert words[:3] == ["next", "lakesweep", "execute"]
    carried_out = call(*words[2:], "--json")
    assert (carried_out.exit_code, carried_out.document["status"]) == (0, "done")
    assert json.loads((table / "tag" / "tag-before-load").read_text())["id"] == 6
    assert call(*words[2:], "--json").document["status"] == "nothing_to_do"


def test_carried_out_at_once(table: Path) -> None:
    answer = call(
        "create-tag", table, "month", "--snapshot", 2, "--time-retained", "30 d", "--time-zone", "UTC", "--execute"
    )
    assert answer.exit_code == 0
    lines = answer.printed.splitlines()
    assert lines[0].endswith("done")
    assert lines[-1].split()[0] == "run"
    assert not any(line.startswith("deleted") for line in lines)
    assert [OLD in sentence for sentence in answer.sentences] == [True]
    run_id = lines[-1].split()[1]
    assert lines[2] == "tag        month: snapshot 2, committed 1970-01-01T00:10:00.000+00:00, for 30 d"
    document = call("report", table, run_id, "--json").document
    assert document["report"]["created"] == [{"kind": "tag", "path": "tag/tag-month"}]
    assert call("plans", table, "--json").document["plans"] == []
    assert call("runs", table, "--json").document["runs"][0]["undoable_reason"] == "nothing_to_undo"
    assert call("undo", table, run_id, "--execute").exit_code == 3


def test_a_name_that_is_taken(table: Path) -> None:
    """What was planned is not shown then: nothing of it holds."""
    assert call("create-tag", table, "now", "--execute").exit_code == 0
    answer = call("create-tag", table, "now", "--execute", "--json")
    assert answer.exit_code == 3
    assert answer.document["refusal"]["code"] == "tag_exists"
    assert (answer.document["created"], answer.document["plan_id"]) == ([], None)
    ignored = call("create-tag", table, "now", "--execute", "--ignore-if-exists", "--json")
    assert ignored.exit_code == 0
    assert (ignored.document["status"], ignored.document["created"]) == ("nothing_to_do", [])
    assert any("stays as it is" in sentence for sentence in ignored.sentences)


@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        ([""], 2, "NAME: expected a name, found none"),
        ([" "], 2, "expected a name"),
        (["a/b"], 2, "slash"),
        (["a\nb"], 2, "control"),
        (["x" * 300], 2, "200 bytes"),
        (["now", "--snapshot", "99"], 3, "no snapshot 99"),
        (["now", "--snapshot", "two"], 2, "--snapshot: expected a whole number, found 'two'"),
        (["now", "--snapshot", "1", "--from-tag", "t"], 2, "--snapshot: expected it without --from-tag"),
        (["now", "--timestamp", "5", "--watermark", "5"], 2, "--timestamp: expected it without watermark"),
        (["now", "--from-tag", "none"], 3, "no tag 'none'"),
        (["now", "--version", "none"], 3, "version 'none' is not valid; expected a tag, watermark-<n> or the id of"),
        (["now", "--version", "99"], 3, "no snapshot 99"),
        (["now", "--watermark", "5", "--version", "2"], 2, "--watermark: expected it without version, found both"),
        (
            ["now", "--timestamp", "2026-01-31T12:00:00Z"],
            3,
            "no snapshot was committed at 2026-01-31T12:00:00.000+00:00",
        ),
        (["now", "--timestamp", "noon"], 2, "--timestamp: expected a time with its zone"),
        (["now", "--watermark", "high"], 2, "--watermark: expected a whole number"),
        (["now", "--time-retained", "0"], 3, "--time-retained is 0 ms"),
        (["now", "--time-retained", "-1 d"], 2, "--time-retained: expected a duration"),
        (["now", "--time-retained", "1000000 d"], 3, "--time-retained"),
        (["now", "--time-zone", "Mars"], 3, "--time-zone: expected a time zone"),
        (["now", "--branch", "none"], 3, "no such branch"),
    ],
)
def test_bad_input(table: Path, words: list[str], exit_code: int, sentence: str) -> None:
    """One sentence that says which word is off, and nothing changes."""
    before = contents(table)
    for execute in ([], ["--execute"]):
        answer = call("create-tag", table, *words, *execute)
        assert answer.exit_code == exit_code, answer.messages
        assert len(answer.sentences) == 1
        assert sentence in answer.messages
    assert contents(table) == before


def test_a_sentence_with_plain_words_keeps_them(table: Path) -> None:
    """`tag` and `snapshot` are arguments, and words of sentences."""
    answer = call("create-tag", table, "now", "--snapshot", 99)
    assert "no snapshot 99, and no tag of it, either" in answer.messages


def test_of_what_a_text_means(table: Path) -> None:
    """As in VERSION AS OF: a tag hides the snapshot of that id."""
    assert call("create-tag", table, "4", "--version", "2", "--execute").exit_code == 0
    assert call("create-tag", table, "now", "--version", "4", "--execute").exit_code == 0
    assert json.loads((table / "tag" / "tag-now").read_text())["id"] == 2
    assert call("replace-tag", table, "now", "--version", "5", "--execute").exit_code == 0
    assert json.loads((table / "tag" / "tag-now").read_text())["id"] == 5


def test_replace(table: Path) -> None:
    assert call("replace-tag", table, "now", "--execute").exit_code == 3
    assert call("create-tag", table, "now", "--snapshot", 2, "--execute").exit_code == 0
    answer = call("replace-tag", table, "now", "--execute")
    assert answer.exit_code == 0, answer.messages
    assert json.loads((table / "tag" / "tag-now").read_text())["id"] == 6


def test_a_time_to_live_without_a_unit_is_seen(table: Path) -> None:
    """A number without a unit is refused with both readings, and the plan says the reading that was meant."""
    answer = call("create-tag", table, "short", "--time-retained", 30, "--time-zone", "UTC")
    assert (answer.exit_code, answer.sentences) == (
        2,
        ["lakesweep: --time-retained: 30 has no unit; expected '30 ms', as Paimon would read it, or '30 d'"],
    )
    printed = call("create-tag", table, "short", "--time-retained", "30 ms", "--time-zone", "UTC").printed
    assert "tag        short: snapshot 6, committed 1970-01-01T00:50:00.000+00:00, for 30 ms\n" in printed


def test_tags_in_a_zone_that_nobody_knows(table: Path) -> None:
    answer = call("tags", table, "--time-zone", "Mars", "--json")
    assert answer.exit_code == 3
    assert "--time-zone: expected a time zone" in answer.document["error"]["message"]


def test_tags(table: Path) -> None:
    """The table, ascending by name; what does not parse is shown as such, and said."""
    call(
        "create-tag", table, "b", "--snapshot", 2, "--time-retained", "36 h", "--time-zone", "Asia/Kolkata", "--execute"
    )
    call("create-tag", table, "a", "--execute")
    (table / "tag" / "tag-c").write_text("{")
    made = json.loads((table / "tag" / "tag-b").read_text())["tagCreateTime"]
    answer = call("tags", table, "--time-zone", "Asia/Kolkata")
    assert answer.exit_code == 0
    head, a, b, c = (line.split() for line in answer.printed.splitlines())
    assert head == ["NAME", "SNAPSHOT", "SCHEMA", "COMMITTED", "ROWS", "CREATED", "RETAINED", "ENDS"]
    assert a == ["a", "6", "0", "1970-01-01", "00:50:00.000Z", "10", "-", "-", "-"]
    assert b[:4] == ["b", "2", "0", "1970-01-01"]
    assert b[6].startswith(f"{made[0]}-{made[1]:02}-{made[2]:02}T")
    assert b[7] == "PT36H"
    assert c[:3] == ["c", "unreadable", "-"]
    assert ["tag 'c' does not parse, so it is kept" in sentence for sentence in answer.sentences] == [True]


def test_tags_as_json(table: Path) -> None:
    (table / "tag").mkdir()
    document = json.loads((table / "snapshot" / "snapshot-3").read_text())
    retained = {"tagCreateTime": [2026, 3, 29, 1, 30], "tagTimeRetained": 3600.000000000}
    (table / "tag" / "tag-spring").write_text(json.dumps({**document, **retained}))
    row = call("tags", table, "--json", "--tag", "spring", "--time-zone", "Europe/Berlin").document["tags"][0]
    assert row == {
        "name": "spring",
        "path": "tag/tag-spring",
        "snapshot_id": 3,
        "schema_id": 0,
        "commit_time_ms": 1_200_000,
        "record_count": 10,
        "created": "2026-03-29T01:30:00",
        "time_retained": "PT1H",
        "ends_ms": 1_774_746_000_000,  # clocks never showed 02:30 on that day: 03:00 is the first time after it
        "problem": None,
    }
    undeclared = call("tags", table, "--json")
    assert undeclared.document["time_zone"] is None
    assert undeclared.document["tags"][0]["ends_ms"] == 1_774_751_400_000 + 26 * 3_600_000
    assert "26 h longer" in undeclared.messages


def test_no_tags(table: Path) -> None:
    assert call("tags", table).printed == f"{table}, branch main: no tags\n"
    missing = call("tags", table, "--tag", "none", "--json")
    assert (missing.exit_code, missing.document["error"]["code"]) == (3, "no_such_tag")
    assert call("tags", table, "--time-zone", "Mars").exit_code in (2, 3)
    assert call("tags", table / "nowhere").exit_code == 3


def test_reasons_of_tags_are_documented() -> None:
    """Each word that a verdict on tags may give has a row."""
    said = set(re.findall(r"`([a-z_]+)`", section("Tags")))
    known = {"keep_last", "keep_within", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly", "keep_tags"}
    assert known | {"time_to_live", "rollback", "no_rule", "older_than", "count", "keep_rules"} <= said
    assert {UNREADABLE, UNREADABLE_ROOT, "no_snapshot"} <= said
