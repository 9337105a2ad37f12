"""`runs` and `audit ledger` as CSV and Parquet, over a control location of many tables."""

import csv
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from lakesweep.api.exports import Column, export
from lakesweep.control.area import ControlArea
from lakesweep.control.reports import store_report
from lakesweep.runs.identifiers import new_id
from lakesweep.storage.local.store import LocalStore
from tests.conftest import REPOSITORY
from tests.unit.cli.command_line import call, write_table

OPTIONS = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
DAY_MS = 86_400_000


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables after an expiry each, and their control location."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    for name in ("orders", "=returns"):
        write_table(tmp_path / "lake" / name, commits=4, options=OPTIONS)
        assert call("expire-snapshots", tmp_path / "lake" / name, "--execute").exit_code == 0
    return tmp_path / "lake"


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_runs_as_csv_and_parquet(lake: Path, tmp_path: Path) -> None:
    """The rows of the document, with times in UTC; the file is new, and said."""
    control = tmp_path / "control"
    runs = call("runs", control, "--json").document["runs"]
    rows = read_csv(call("runs", control, "--to", "-").printed)
    assert [row["run_id"] for row in rows] == [run["run_id"] for run in runs]
    assert [(row["table"], int(row["deleted"]), row["undoable"]) for row in rows] == [
        (run["table"], run["deleted"], str(run["undoable"]).lower()) for run in runs
    ]
    assert [datetime.fromisoformat(row["finished"]).timestamp() * 1000 for row in rows] == [
        r["finished_ms"] for r in runs
    ]
    wrote = call("runs", control, "--to", tmp_path / "runs.parquet", "--json")
    assert (wrote.exit_code, wrote.document["rows"]) == (0, 2)
    table = parquet.read_table(tmp_path / "runs.parquet")
    assert table.column("finished").to_pylist() == [datetime.fromtimestamp(r["finished_ms"] / 1000, UTC) for r in runs]
    assert table.column_names == list(rows[0])
    assert call("runs", control, "--to", tmp_path / "runs.parquet").exit_code == 3
    one = read_csv(call("runs", lake / "orders", "--to", "-").printed)
    assert [row["table"] for row in one] == [str(lake / "orders")]


def test_the_ledger_as_csv_and_parquet(lake: Path, tmp_path: Path) -> None:
    """The same rows in both; their number is that of the deleted objects; the size of each run's report agrees."""
    control = tmp_path / "control"
    rows = read_csv(call("audit", "ledger", control).printed)
    deleted = {run["run_id"]: run["deleted"] for run in call("runs", control, "--json").document["runs"]}
    assert Counter(row["run_id"] for row in rows if row["result"] == "deleted") == deleted
    answer = call("audit", "ledger", control, "--to", tmp_path / "ledger.parquet", "--json")
    assert (answer.exit_code, answer.document["rows"], answer.document["problems"]) == (0, len(rows), [])
    table = parquet.read_table(tmp_path / "ledger.parquet")
    assert table.column("key").to_pylist() == [row["key"] for row in rows]
    assert table.column("size_bytes").to_pylist() == [int(row["size_bytes"]) for row in rows]
    assert str(table.schema.field("time").type) == "timestamp[ms, tz=UTC]"
    assert read_csv(call("audit", "ledger", lake / "orders").printed) == [
        r for r in rows if r["table"] == f"{lake}/orders"
    ]
    assert read_csv(call("audit", "ledger", control, "--until", "1 d").printed) == []
    assert read_csv(call("audit", "ledger", control, "--since", "1 d").printed) == rows
    assert not list(tmp_path.glob(".*part"))


def test_a_damaged_part_is_a_finding(lake: Path, tmp_path: Path) -> None:
    """Exit code 6 with its path; all other rows are written."""
    whole = read_csv(call("audit", "ledger", tmp_path / "control").printed)
    part = min((tmp_path / "control").rglob("*.ndjson.gz"))
    part.write_bytes(part.read_bytes()[:-3])
    answer = call("audit", "ledger", tmp_path / "control")
    assert answer.exit_code == 6
    assert str(part) in answer.messages
    left = read_csv(answer.printed)
    assert left
    assert all(row in whole or row["result"] == "unknown" for row in left)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("--to", "rows.json"), "bad_argument"),
        (("--to", "s3://ops/rows.csv"), "bad_argument"),
        (("--to", "nowhere/rows.csv"), "bad_argument"),
        (("--to", "-"), "bad_argument"),
    ],
)
def test_where_no_rows_can_go(lake: Path, tmp_path: Path, argv: tuple[str, ...], code: str) -> None:
    """Before anything is read."""
    for command in (("runs",), ("audit", "ledger")):
        answer = call(*command, tmp_path / "control", *argv, "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (2, code)


def test_nothing_is_said_of_a_table_that_nobody_knows(lake: Path, tmp_path: Path) -> None:
    """No empty file, and no whole ledger. A deleted table has its rows, a table without runs has none."""
    for place in (tmp_path / "oders", tmp_path / "lake"):
        answer = call("audit", "ledger", place, "--to", tmp_path / "rows.csv", "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (3, "not_a_table")
        assert call("audit", "verify", place, "--json").document["error"]["code"] == "not_a_table"
    assert not (tmp_path / "rows.csv").exists()
    write_table(tmp_path / "lake" / "new", commits=1, options=OPTIONS)
    assert (call("audit", "ledger", lake / "new").exit_code, call("audit", "verify", lake / "new").exit_code) == (0, 0)
    shutil.rmtree(lake / "orders")
    assert read_csv(call("audit", "ledger", lake / "orders").printed)
    assert call("audit", "verify", lake / "orders").exit_code == 0


@pytest.mark.parametrize("argv", [("--since", "1 d", "--until", "2 d"), ("--to", "")])
def test_what_cannot_be_meant(lake: Path, tmp_path: Path, argv: tuple[str, ...]) -> None:
    """A time that ends before it begins; a path of a variable that is not set."""
    answer = call("audit", "ledger", tmp_path / "control", *argv)
    assert (answer.exit_code, answer.printed) == (2, "")
    assert argv[0] in answer.messages


_FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\n=1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20A")
HOSTILE = (*_FORMULAS, "'=1", 'a"b', "a,b", "a\nb", "", "plain", "é", "\udcff")


def test_hostile_names_are_no_formulas(tmp_path: Path) -> None:
    """What a spreadsheet would run begins with a quote, which can be taken off again; Parquet has it as it is."""
    columns = (Column("name"), Column("count", "count"), Column("at", "time"), Column("flag", "flag"))
    rows = [(name, -5, 1, True) for name in HOSTILE] + [(None, None, None, None)]
    for name in ("rows.csv", "rows.parquet"):
        assert export(str(tmp_path / name), columns, rows, print) == len(rows)
    text = (tmp_path / "rows.csv").read_bytes().decode()
    found = list(csv.reader(io.StringIO(text, newline="")))[1:]
    names = [name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE]
    assert not [row for row in found if row[0].startswith((*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20",))]
    assert [row[0].removeprefix("'") for row in found] == [*names, ""]
    assert found[0][1:] == ["-5", "1970-01-01T00:00:00.001Z", "true"]
    assert text.endswith("\n,,,\n"), "unknown values are empty, and an empty text has quotes"
    assert '\n"",-5,' in text
    assert parquet.read_table(tmp_path / "rows.parquet").column("name").to_pylist() == [*names, None]


def reports(control: Path, tables: int, runs: int, now_ms: int) -> list[str]:
    """Write reports of runs, a day apart, of many tables; return the locations of the tables."""
    store, found = LocalStore(str(control)), []
    for number in range(tables):
        area = ControlArea(store, f"/lake/sales.db/t{number:03d}")
        found.append(area.table)
        for day in range(runs):
            began_ms = now_ms - day * DAY_MS - number * 1000
            run_id = new_id(began_ms)
            report = {
                "operation": "expire-snapshots",
                "status": "done",
                "table": area.table,
                "branch": "main",
                "run_id": run_id,
            }
            store_report(area, run_id, {**report, "plan_id": run_id}, (), (began_ms, began_ms + 1))
    return found


def test_the_newest_runs_of_many_tables(tmp_path: Path) -> None:
    """The limit counts over all tables, and only the newest reports are read: two for each table to begin with."""
    control = tmp_path / "control"
    now_ms = LocalStore(str(tmp_path)).now_ms()
    tables = reports(control, 40, 12, now_ms)
    answer = call("runs", control, "--limit", "5", "--json")
    assert [run["table"] for run in answer.document["runs"]] == tables[:5]
    since = call("runs", control, "--since", "1 d", "--limit", "1000", "--json").document["runs"]
    assert [run["table"] for run in since] == tables
    rows = read_csv(call("runs", control, "--since", "36 h", "--to", "-").printed)
    assert [row["table"] for row in rows] == [*tables, *tables]


DUCKDB = REPOSITORY / "build" / "duckdb"
_QUERY = """
import duckdb, json, re, sys
text = open(sys.argv[1], encoding="utf-8").read().split("## DuckDB")[1]
query = re.search(r"```sql\\n(.*?)```", text, re.DOTALL)[1]
query = query.replace("/var/lib/lakesweep", sys.argv[2]).split("WHERE")[0].rstrip()
rows = duckdb.sql(query + " WHERE result = 'deleted' ORDER BY ALL").fetchall()
print(json.dumps([[str(each) for each in row] for row in rows]))
"""


@pytest.mark.skipif(not (DUCKDB / "duckdb").is_dir(), reason="make duckdb-env installs DuckDB")
def test_the_documented_query_finds_the_same_rows(lake: Path, tmp_path: Path) -> None:
    """DuckDB over the files of all tables, as docs/ledger.md has it."""
    script = tmp_path / "query.py"
    script.write_text(_QUERY)
    done = subprocess.run(
        [sys.executable, str(script), str(REPOSITORY / "docs/ledger.md"), str(tmp_path / "control")],
        env={"PYTHONPATH": str(DUCKDB), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[Any]] = json.loads(done.stdout)
    rows = [
        row for row in read_csv(call("audit", "ledger", tmp_path / "control").printed) if row["result"] == "deleted"
    ]
    assert sorted((row[0], row[1], row[3]) for row in found) == sorted(
        (row["table_key"], row["run_id"], row["key"]) for row in rows
    )
