"""`lakesweep read --engine spark`, which is what `jobs/read_table.py` runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from lakesweep.cli.main import main
from lakesweep.storage.local.store import LocalStore
from tests.support import data_bytes
from tests.support.spark import REPOSITORY
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET = data_bytes.parquet


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Two files of ten rows in two partitions, one with a vector."""
    built = TableBuilder(
        LocalStore(str(tmp_path / "t")),
        real_rows=True,
        partition_keys=("dt",),
        types={"n": "INT", "at": "TIMESTAMP(3)"},
        options={"deletion-vectors.enabled": "true"},
    )
    built.commit("+A", "+B", partition={"A": ("x",), "B": (None,)})
    built.commit(index={"I": {"A": [0, 7]}}, partition=("x",))
    return built


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def rows_in(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(folder).to_pylist()
    return sorted(rows, key=str)


def test_the_same_rows_and_document(
    spark: "SparkSession", tmp_path: Path, table: TableBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on one machine; a tag protects the version until the end, and is gone then."""
    place = (tmp_path / "t", "--control", tmp_path / "control", "--where", "n >= 5 AND at > TIMESTAMP '2024-01-01'")
    code, mine = run(capsys, "read", *place, "--to", tmp_path / "one")
    assert (code, mine["protected_by"]) == (0, None)
    code, theirs = run(capsys, "read", *place, "--to", tmp_path / "many", "--engine", "spark")
    assert code == 0, theirs
    assert theirs.pop("protected_by").startswith("lakesweep-read-")
    del mine["protected_by"]
    theirs.pop("warnings", None)  # the first of the two calls writes nothing into the control location
    assert {**theirs, "to": None} == {**mine, "to": None}
    assert rows_in(tmp_path / "many") == rows_in(tmp_path / "one")
    assert theirs["rows"] == 9
    assert list(table.store.list("tag/")) == []
    assert (tmp_path / "many" / "_SUCCESS").exists()
    code, again = run(capsys, "read", *place, "--to", tmp_path / "many", "--engine", "spark")
    assert (code, again["error"]["code"]) == (3, "target_exists")


def test_what_is_refused(
    spark: "SparkSession", tmp_path: Path, table: TableBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file as target, a place in the table, a file of the version that is gone; nothing is left behind."""
    place = (tmp_path / "t", "--engine", "spark", "--control", tmp_path / "control")
    assert run(capsys, "read", *place, "--to", tmp_path / "rows.csv")[0] == 2
    code, inside = run(capsys, "read", *place, "--to", tmp_path / "t" / "copy")
    assert (code, inside["error"]["code"]) == (3, "target_in_table")
    table.remove("I")
    code, gone = run(capsys, "read", *place, "--to", tmp_path / "copy", "--no-protect")
    assert (code, gone["error"]["code"]) == (3, "missing_data_file")
    assert "snapshot 2" in gone["error"]["message"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control", "t"]
    assert list(table.store.list("tag/")) == []


def test_a_data_file_with_other_rows(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer rows than metadata state are no success, and damage is named; no folder is left behind."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")), real_rows=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_bytes, "parquet", lambda fields, keys, fixed, _: PARQUET(fields, keys, fixed, 4))
        table.commit("+A")
    place = (tmp_path / "t", "--engine", "spark", "--to", tmp_path / "copy", "--no-protect")
    _, few = run(capsys, "read", *place)
    assert "expected 10 rows without 0 deleted ones, found 4" in few["error"]["message"]
    size = len(table.store.read(table.path("A")).data)
    table.store.put(table.path("A"), bytes(size))
    _, damaged = run(capsys, "read", *place)
    assert "is not a Parquet file" in damaged["error"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_the_job(tmp_path: Path, table: TableBuilder) -> None:
    """It takes what the command takes; this call ends before a Spark starts."""
    job = [sys.executable, str(REPOSITORY / "jobs" / "read_table.py"), str(tmp_path / "t"), "--allow-missing"]
    ended = subprocess.run(job, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert ended.returncode == 2
    assert "expected without --engine spark" in ended.stderr
