"""`lakesweep check`: what is wrong with a table, one case a check, and the command that mends it."""

import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table

RETAINED = {"snapshot.num-retained.max": "100", "snapshot.num-retained.min": "1", "snapshot.time-retained": "100000 d"}


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "db" / "orders"


@pytest.fixture
def table(folder: Path) -> TableBuilder:
    return write_table(folder, options=RETAINED)


def check(place: Path, control: Path, *more: object) -> Answer:
    before = contents(place)
    answer = call("check", place, "--control", control, "--json", *more)
    assert contents(place) == before
    return answer


def found(answer: Answer) -> list[dict[str, Any]]:
    assert (answer.exit_code, answer.document["status"]) == (6, "findings"), answer.printed
    findings: list[dict[str, Any]] = answer.document["findings"]
    return findings


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_healthy_table(table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]) -> None:
    table.tag("t", snapshot=2, ttl=timedelta(days=3))
    answer = check(folder, control, *more)
    assert (answer.exit_code, answer.document["status"], answer.document["findings"]) == (0, "healthy", [])
    text = call("check", folder, "--control", control, *more)
    assert (text.exit_code, text.printed) == (0, f"{folder}: healthy\n")


def lost_data(table: TableBuilder) -> str:
    path = table.path("F6")
    table.remove(path)
    return path


def lost_manifest(table: TableBuilder) -> str:
    path = f"manifest/{table.model('snapshot/snapshot-6').delta[0].name}"
    table.remove(path)
    return path


def lost_snapshots(table: TableBuilder) -> str:
    table.tag("t", snapshot=2)
    for number in range(1, 7):
        table.remove(f"snapshot/snapshot-{number}")
    return "tag/tag-t"


def wrong_hint(table: TableBuilder) -> str:
    table.hint("LATEST", 4)
    return "snapshot/LATEST"


def hole(table: TableBuilder) -> str:
    table.remove("snapshot/snapshot-2")
    table.hint("EARLIEST", 1)
    return "snapshot/snapshot-1"


def consumer_beyond(table: TableBuilder) -> str:
    table.consumer("search", 99)
    return "search"


CASES: dict[str, Callable[[TableBuilder], str]] = {
    "files": lost_data,
    "roots": lost_manifest,
    "history": lost_snapshots,
    "hints": wrong_hint,
    "ids": hole,
    "consumers": consumer_beyond,
}


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
@pytest.mark.parametrize("name", CASES)
def test_each_damage_is_found(
    table: TableBuilder, folder: Path, control: Path, name: str, more: tuple[str, ...]
) -> None:
    what = CASES[name](table)
    findings = [each for each in found(check(folder, control, *more)) if each["check"] == name]
    assert findings, name
    assert what in findings[0]["says"] + " ".join(findings[0]["paths"])
    assert findings[0]["mend"]


@pytest.mark.parametrize("name", ["ids", "hints"])
def test_the_command_mends_it(table: TableBuilder, folder: Path, control: Path, name: str) -> None:
    CASES[name](table)
    for each in found(check(folder, control)):
        words = shlex.split(each["mend"])
        if words[0] == "lakesweep":
            assert call(*words[1:]).exit_code == 0
        else:
            assert words[0] == "printf" and words[2] == ">"
            Path(words[3]).write_text(words[1])
    answer = check(folder, control)
    assert answer.exit_code == 0, answer.printed


def test_a_printed_command_runs_nothing_that_a_name_says(table: TableBuilder, folder: Path, control: Path) -> None:
    """Whoever writes a table names its branches."""
    table.branch("$(touch pwned); 'x").commit("+B1")
    table.store.put("branch/branch-$(touch pwned); 'x/snapshot/LATEST", b"77")
    hints = [each for each in found(check(folder, control, "--all-roots")) if each["check"] == "hints"]
    assert [shlex.split(each["mend"])[-1] for each in hints] == [f"{folder}/{hints[0]['paths'][0]}"]


def test_a_damaged_tag_is_found_with_all_roots_alone(table: TableBuilder, folder: Path, control: Path) -> None:
    table.tag("t", snapshot=2)
    call("expire-snapshots", folder, "--retain-max", 1, "--retain-min", 1, "--control", control, "--execute")
    table.remove(f"manifest/{table.document('tag/tag-t')['baseManifestList']}")
    assert check(folder, control).exit_code == 0
    (finding,) = found(check(folder, control, "--all-roots"))
    assert (finding["check"], finding["paths"]) == ("roots", ["tag/tag-t"])
    assert call(*shlex.split(finding["mend"])[1:]).exit_code in (0, 4)
    assert check(folder, control, "--all-roots").exit_code == 0


def test_options_that_contradict_each_other(folder: Path, control: Path) -> None:
    write_table(folder, options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "5"})
    assert [each["check"] for each in found(check(folder, control))] == ["policy"]


def test_snapshots_that_are_overdue_and_a_consumer_that_holds_them(folder: Path, control: Path) -> None:
    table = write_table(folder, options={**RETAINED, "snapshot.time-retained": "1 h"})
    (finding,) = found(check(folder, control))
    assert finding["check"] == "retention"
    table.consumer("search", 2)
    checks = {each["check"]: each for each in found(check(folder, control))}
    assert "search" in checks["consumers"]["says"]
    assert "--including search" in checks["consumers"]["mend"]


def test_a_database_has_a_line_a_table(table: TableBuilder, folder: Path, control: Path) -> None:
    write_table(folder.parent / "other", options=RETAINED)
    lost_data(table)
    answer = call("check", folder.parent, "--control", control)
    assert answer.exit_code == 6
    assert answer.printed.splitlines() == [f"{folder}: 1 findings (files)", f"{folder.parent / 'other'}: healthy"]
    document = call("check", folder.parent, "--control", control, "--json").document
    assert [each["status"] for each in document["tables"]] == ["findings", "healthy"]


def test_what_is_no_table_is_refused(tmp_path: Path, control: Path) -> None:
    answer = call("check", tmp_path / "nothing", "--control", control, "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (3, "not_a_table")


def test_explain_and_show_tell_of_damage_by_their_exit_codes(table: TableBuilder, folder: Path, control: Path) -> None:
    path = lost_data(table)
    answer = call("explain", folder, "--control", control, "--json")
    assert answer.exit_code == 4
    (row,) = [each for each in answer.document["reasons"] if each["reason"] == "missing"]
    assert (row["count"], row["first"]) == (1, [path])
    assert call("explain", folder, path, "--control", control).exit_code == 4
    assert call("show", folder).exit_code == 0
    lost_snapshots(table)
    for command in ("show", "explain"):
        answer = call(command, folder, "--json")
        assert answer.exit_code == 4
        assert "lost its history" in answer.document["damage"][0]
        assert "lost its history" in answer.messages
