"""`delete-rows` on the command line: what a person reads, and where the values of a condition never are."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deleting import DeletingTable
from tests.unit.cli.command_line import Answer, call

SECRET = "ada lovelace"
COMMIT = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeletingTable:
    """A table with two partitions and a tag, and a control location."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    table = DeletingTable(tmp_path / "lake")
    table.add("a", range(10))
    table.add("b", range(10, 20))
    assert call("create-tag", table.store.location, "kept", "--execute").exit_code == 0
    return table


def delete(table: DeletingTable, *words: object) -> Answer:
    return call("delete-rows", table.store.location, *words)


def everything_below(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_plan_says_what_goes_and_who_still_shows_it(table: DeletingTable) -> None:
    before = table.keys()
    answer = delete(table, "--where", "id < 3 OR id >= 10", "--show-rows", "--catalog-type", "filesystem")
    assert answer.exit_code == 0 and table.keys() == before
    lines = answer.printed.splitlines()
    assert lines[:5] == [
        f"delete-rows of {table.store.location}, branch main: planned",
        "condition  a condition on id",
        "  dt=b: 10 rows in 1 file (every row of 1), so nothing is left",
        "  dt=a: 3 rows in 1 file",
        "delete     13 rows in 2 of 2 files (every row of 1)",
    ]
    rows = [json.loads(line.removeprefix("row")) for line in lines if line.startswith("row ")]
    assert len(rows) == 5 and all(row["id"] < 3 or row["id"] >= 10 for row in rows)
    shown = [line for line in lines if line.startswith("shown by")]
    assert shown[0].startswith("shown by   snapshots 1 to 2; the last one stays until ")
    assert shown[1] == "shown by   tag kept; it stays until the tag is deleted: it has no time to live"
    assert lines[-1] == (
        f"next       lakesweep delete-rows {table.store.location} --where ... --catalog-type filesystem --execute"
    )


def test_rows_that_are_gone_are_shown_by_others(table: DeletingTable) -> None:
    """Whoever must erase rows asks again, until nobody shows them."""
    answer = delete(table, "--where", "id = 3", *COMMIT)
    assert answer.exit_code == 0
    lines = answer.printed.splitlines()
    assert (
        "commit     snapshot 3: 1 row in 1 file deleted" in lines
        and "vectors    1 new index file in place of none" in lines
    )
    assert any(line.startswith("files      none is deleted or rewritten") for line in lines)
    assert table.ids() == [each for each in range(20) if each != 3]
    again = delete(table, "--where", "id = 3").printed.splitlines()
    assert again[0].endswith(": nothing to do") and "delete     no row" in again
    assert [line[:27] for line in again if line.startswith("may show")] == [
        "may show   snapshots 1 to 2",
        "may show   tag kept; it sta",
    ]
    call("delete-tag", table.store.location, "kept", "--execute")
    call("expire-snapshots", table.store.location, "--retain-max", "1", "--retain-min", "1", "--execute")
    assert "shown by   no snapshot, tag or branch that there is now" in delete(table, "--where", "id = 3").printed


def test_data_files_are_rewritten(tmp_path: Path, table: DeletingTable) -> None:
    """In a table without deletion vectors; a plan and a run say which."""
    other = DeletingTable(tmp_path / "other", {"deletion-vectors.enabled": "false"})
    other.add("a", range(10))
    for words, line in (((), ": 9 rows stay"), (COMMIT, "), into 1 file (")):
        lines = delete(other, "--where", "id = 3", *words).printed.splitlines()
        (found,) = [each for each in lines if each.startswith("rewrite    1 data file (")]
        assert line in found
    assert any(each.startswith("files      none is deleted, so former data files keep the rows") for each in lines)


@pytest.mark.parametrize("how", ["--where", "--where-file", "-"])
def test_values_are_stored_and_printed_nowhere(
    table: DeletingTable, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append([{"dt": SECRET, "id": 99, "price": 1.0}])
    text, path = f"dt <> '{SECRET}x' AND id = 99", tmp_path / "condition.sql"
    path.write_text(f"\ufeff{text}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    given = ("--where", text) if how == "--where" else ("--where-file", path if how == "--where-file" else "-")
    planned = ("--catalog-type", "filesystem")
    for words in (planned, ("--json",), COMMIT):
        sys.stdin.seek(0)
        answer = delete(table, *given, *words)
        assert answer.exit_code == 0
        assert f"{SECRET}x" not in answer.printed + answer.messages
        if words == planned and how != "--where":
            assert f"--where-file {given[1]} --catalog-type filesystem" in answer.printed
    assert 99 not in table.ids()
    assert f"{SECRET}x".encode() not in everything_below(tmp_path / "control")


def test_an_error_that_nobody_expects_quotes_no_value(table: DeletingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may put a value of the condition into its message."""

    def broken(*words: object, **more: object) -> None:
        raise ValueError(f"cannot compare {SECRET}")

    monkeypatch.setattr("lakesweep.operations.rows.search.Search.at", broken)
    answer = delete(table, "--where", f"dt = '{SECRET}'", "--json")
    assert answer.exit_code == 1 and answer.document["refusal"]["code"] == "internal_error"
    assert "ValueError at broken in line" in answer.messages
    assert SECRET not in answer.messages + answer.printed


def test_a_condition_that_is_kept(table: DeletingTable, tmp_path: Path) -> None:
    answer = delete(table, "--where", "id = 4711 OR id = 5", "--keep-condition", *COMMIT)
    assert "condition  id = 4711 OR id = 5" in answer.printed
    runs = call("runs", table.store.location, "--json").document["runs"]
    (run_id,) = [run["run_id"] for run in runs if run["operation"] == "delete-rows"]
    assert "id = 4711 OR id = 5" in call("report", table.store.location, run_id).printed


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "sentence"),
    [
        ((), "bad_argument", 2, "expected --where or --where-file, found none"),
        (("--where", "id = 1", "--where-file", "x"), "bad_argument", 2, "expected --where or --where-file, found both"),
        (("--where-file", "/no/such/file"), "bad_argument", 2, "--where-file: /no/such/file cannot be read: No such"),
        (("--where-file", "/"), "bad_argument", 2, "--where-file: / cannot be read: Is a directory"),
        (("--where", "  "), "bad_where", 2, "expected a condition of 1 to"),
        (("--where", "nobody = 'secret'"), "bad_where", 2, "--where: there is no column nobody"),
        (("--where", "id = (SELECT 1)"), "bad_where", 2, "a query stands within the condition"),
        (("--where", "id = 1", "--engine", "flink"), "bad_argument", 2, "--engine: expected local or spark"),
        (("--where", "id = 1 OR id <> 1 OR id IS NULL"), "always_true", 3, "truncate TABLE"),
        (("--where", "id = 1", "--branch", "b"), "no_such_branch", 3, "no such branch"),
        (("--where", "id = 1", "--execute"), "catalog_not_declared", 3, "no catalog type is declared"),
        (("--where", "id = 1", "--option", "write-only=true"), "unknown_option", 2, "has no effect on delete-rows"),
    ],
)
def test_bad_input(table: DeletingTable, words: tuple[str, ...], code: str, exit_code: int, sentence: str) -> None:
    before = table.keys()
    answer = delete(table, *words, "--json")
    assert answer.exit_code == exit_code
    assert answer.document["refusal"]["code"] == code
    assert sentence in answer.document["refusal"]["message"], answer.messages
    assert "secret" not in answer.messages and answer.messages.count("\n") == 1
    assert table.keys() == before


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "found nothing"),
        (b" \n", "found nothing"),
        (b"\xff\xfe", "no text in UTF-8"),
        (b"a" * 1_048_577, "more than"),
    ],
)
def test_a_file_without_a_condition(table: DeletingTable, tmp_path: Path, data: bytes, found: str) -> None:
    (tmp_path / "condition.sql").write_bytes(data)
    answer = delete(table, "--where-file", tmp_path / "condition.sql")
    assert answer.exit_code == 2 and found in answer.messages


def test_a_process_ends_with_its_exit_code_whatever_pyarrow_does_meanwhile(table: DeletingTable) -> None:
    """A thread of pyarrow that frees memory while Python ends aborts the process; an object stands for it."""
    script = (
        "import os, sys\n"
        "from lakesweep.cli.main import main\n"
        "Freed = type('Freed', (), {'__del__': lambda self: os.abort()})\n"
        "freed = Freed()\n"
        "sys.exit(main())\n"
    )
    for where, code in (("id < 3", 0), ("ids < 3", 2)):
        words = ["delete-rows", table.store.location, "--where", where, "--show-rows"]
        command = [sys.executable, "-c", f"import pyarrow\n{script}", *words]
        ended = subprocess.run(command, capture_output=True, check=False)
        assert (ended.returncode, b"condition on id" in ended.stdout) == (code, not code), ended.stderr
