"""`lakesweep read`: targets, options, refusals."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Two files of ten rows in two partitions."""
    built = TableBuilder(
        LocalStore(str(tmp_path / "t")),
        real_rows=True,
        partition_keys=("dt",),
        types={"n": "INT", "d": "DECIMAL(9, 2)"},
    )
    built.commit("+A", "+B", partition={"A": ("x",), "B": (None,)})
    return built


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as lines:
            return [{**row, "n": int(row["n"])} for row in csv.DictReader(lines)]
    return parquet.read_table(path).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl", "folder"])
def test_targets(tmp_path: Path, table: TableBuilder, name: str) -> None:
    """Each has the same rows; the document counts them; a second call does not replace them."""
    to = tmp_path / name
    answer = call("read", table.store.location, "--to", to, "--json", "--columns", "n,dt")
    assert answer.exit_code == 0
    document = answer.document
    assert (document["rows"], document["files"], document["missing_files"]) == (20, 2, [])
    assert [column["type"] for column in document["columns"]] == ["INT", "STRING"]
    assert sorted(row["n"] for row in rows_of(to)) == sorted([*range(10)] * 2)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    again = call("read", table.store.location, "--to", to, "--json")
    assert (again.exit_code, again.document["error"]["code"]) == (3, "target_exists")


@pytest.mark.parametrize(
    ("name", "is_made"), [("rows.json", False), ("rows.csv.gz", False), ("rows.json/", True), ("rows.2026-11-24", True)]
)
def test_a_name_of_another_format_is_no_folder(tmp_path: Path, table: TableBuilder, name: str, is_made: bool) -> None:
    """Who writes `rows.json` does not want a folder of Parquet files."""
    answer = call("read", table.store.location, "--to", f"{tmp_path}/{name}")
    assert answer.exit_code == (0 if is_made else 2), answer.messages
    assert (tmp_path / name).is_dir() is is_made
    if not is_made:
        assert f"found {(tmp_path / name).suffix}; {tmp_path}/{name}/ makes a folder of this name" in answer.messages


def test_standard_output(table: TableBuilder) -> None:
    """Rows go to standard output, the sentence to standard error."""
    answer = call("read", table.store.location, "--where", "dt = 'x' AND n >= 8")
    assert [json.loads(line)["n"] for line in answer.printed.splitlines()] == [8, 9]
    assert json.loads(answer.printed.splitlines()[0])["d"] == "0.08"
    assert answer.sentences == ["lakesweep: snapshot 1: 2 rows"]


def test_the_zone_of_a_condition(table: TableBuilder) -> None:
    """It is said where it matters: UTC, unless `--time-zone` names another."""
    table.alter(types={"at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"})
    table.commit()
    for words, zone in (((), "UTC"), (("--time-zone", "Europe/Berlin"), "Europe/Berlin")):
        answer = call("read", table.store.location, "--where", "at > '2024-01-01' OR n = 1", *words)
        assert answer.sentences[0] == f"lakesweep: times without a zone beside at are times of the zone {zone}"


@pytest.mark.parametrize("limit", [0, 3, 10, 15, 99])
def test_a_limit(table: TableBuilder, limit: int) -> None:
    """At most so many rows."""
    answer = call("read", table.store.location, "--limit", limit)
    assert len(answer.printed.splitlines()) == min(limit, 20)


def test_inside_the_table(tmp_path: Path, table: TableBuilder) -> None:
    """Also through a symbolic link."""
    (tmp_path / "link").symlink_to(tmp_path / "t")
    for to in (tmp_path / "t" / "rows.csv", tmp_path / "link" / "rows.csv"):
        answer = call("read", table.store.location, "--to", to, "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (3, "target_in_table")
    assert not (tmp_path / "t" / "rows.csv").exists()


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["--json"], "usage", 2),
        (["--json", "--to", "s3://bucket/rows.csv"], "usage", 2),
        (["--json", "--to", "/no/such/folder/rows.csv"], "usage", 2),
        (["--json", "--to", "x.csv", "--columns", "n,n"], "usage", 2),
        (["--json", "--to", "x.csv", "--columns", "m"], "no_such_column", 2),
        (["--json", "--to", "x.csv", "--where", "m = 1"], "bad_where", 2),
        (["--json", "--to", "x.csv", "--version", "7"], "no_such_version", 3),
        (["--json", "--to", "x.csv", "--limit", "-1"], "usage", 2),
        (["--json", "--to", "x.csv", "--limit", str(10**20)], "usage", 2),
    ],
)
def test_refusals(table: TableBuilder, words: list[str], code: str, exit_code: int) -> None:
    """Each has its word."""
    answer = call("read", table.store.location, *words)
    assert (answer.exit_code, answer.document["error"]["code"]) == (exit_code, code)


@pytest.mark.parametrize("to", ["-", "rows.csv"])
def test_a_missing_file(tmp_path: Path, table: TableBuilder, to: str) -> None:
    """No row is written; with --allow-missing the others are, and the file is named."""
    path = table.path("B")
    table.remove("B")
    target = to if to == "-" else str(tmp_path / to)
    answer = call("read", table.store.location, "--to", target)
    assert answer.exit_code == 3
    assert "`lakesweep check` says what to do" in answer.messages
    assert path in answer.messages
    assert answer.printed == ""
    assert not (tmp_path / to).exists()
    answer = call("read", table.store.location, "--to", target, "--allow-missing")
    assert answer.exit_code == 0
    assert path in answer.printed + answer.messages
    assert len((answer.printed if to == "-" else Path(target).read_text()).splitlines()) >= 10
