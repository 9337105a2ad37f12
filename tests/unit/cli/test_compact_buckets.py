"""`compact` of a table with a primary key on the command line: what a person reads."""

import json
from pathlib import Path

import pytest

from tests.support.odd_tables import OddTable
from tests.unit.cli.command_line import Answer, call

COMMIT = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OddTable:
    """One large run, and two small ones on level 0."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    table = OddTable(tmp_path, {"p": "STRING", "id": "BIGINT NOT NULL", "v": "STRING"}, ["p", "id"], partition=["p"])
    table.file([("a b", number, f"{number * 7919} of a long text") for number in range(3000)], 5, partition=("a b",))
    table.file([("a b", 3, "x"), ("a b", 5, "y")], partition=("a b",))
    table.file([("a b", 9, "z")], partition=("a b",))
    table.commit()
    return table


def compact(table: OddTable, *words: str) -> Answer:
    return call("compact", str(table.folder), *words)


def test_a_plan_and_a_commit(table: OddTable) -> None:
    plan = compact(table).printed.splitlines()
    assert plan[1] == "table      3 data files"
    assert plan[2].startswith("merge      p=a b/bucket-0: 2 files, ")
    assert ", to level 4 (level 0: 2 files); keys are read of " in plan[2]
    assert plan[2].endswith(" on deeper levels; has 3 sorted runs, and 3 rows on level 0")
    done = compact(table, *COMMIT)
    lines = done.printed.splitlines()
    assert done.exit_code == 0
    assert lines[2].startswith("merged     p=a b/bucket-0: 2 files, ")
    assert lines[2].endswith("; had 3 sorted runs, and 3 rows on level 0")
    assert lines[3].startswith("commit     snapshot 2: ")
    assert lines[3].endswith("3 older rows hidden")
    assert compact(table, *COMMIT).printed.splitlines()[0].endswith(": nothing to do")


def test_files_that_are_too_young(table: OddTable) -> None:
    lines = compact(table, "--partition-idle-time", "20000 d").printed.splitlines()
    assert lines[2].startswith("busy       2 data files left: no file of level 0 is old enough, or ")


def test_a_damaged_file(table: OddTable) -> None:
    """The sentence names the table and the file, in text and in JSON."""
    table.file([("a b", 1, "q")], partition=("a b",), columns={"_VALUE_KIND": None})
    table.commit()
    said = f"table {table.folder}, p=a b/bucket-0/data-0004.parquet: expected one column _VALUE_KIND"
    answer = compact(table, "--full", *COMMIT)
    assert (answer.exit_code, said in answer.messages) == (1, True)
    answer = compact(table, "--full", *COMMIT, "--json")
    refusal = json.loads(answer.printed)["refusal"]
    assert (answer.exit_code, refusal["code"]) == (1, "damaged")
    assert refusal["message"].startswith(said)


def test_show_says_which_buckets_are_due(table: OddTable) -> None:
    lines = call("show", str(table.folder), "--levels").printed.splitlines()
    (level_0,) = (line for line in lines if line.startswith("level 0"))
    assert level_0.startswith("level 0     3 rows in 2 files, the oldest of ")
    assert "buckets     1, with up to 3 sorted runs; 1 due for compaction" in lines
    assert lines[-1].startswith("            p a b bucket 0: 3 sorted runs, 3 files, ")
    assert lines[-1].endswith("; level 0: 2 files")
    assert compact(table, *COMMIT).exit_code == 0
    lines = call("show", str(table.folder), "--levels").printed.splitlines()
    assert "level 0     no files" in lines
    assert "buckets     1, with up to 2 sorted runs; none due for compaction" in lines
