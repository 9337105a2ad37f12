"""`erase` on the command line: what a person reads, and where the values of a condition never are."""

from pathlib import Path

import pytest

from tests.support.deleting import DeletingTable
from tests.unit.cli.command_line import Answer, call

SECRET = 7007007
COMMIT = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeletingTable:
    """A table with the row in one of two files, a tag, and a control location."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    monkeypatch.delenv("LAKESWEEP_POLICY", raising=False)
    table = DeletingTable(tmp_path / "lake", options={"snapshot.num-retained.min": "1"})
    table.add("a", [1, SECRET, 2])
    table.add("b", range(10, 20))
    assert call("create-tag", table.store.location, "kept", "--execute").exit_code == 0
    (tmp_path / "forget.sql").write_text(f"id = {SECRET}")
    return table


def erase(table: DeletingTable, *words: object) -> Answer:
    return call("erase", table.store.location, *words)


def test_a_privacy_request(table: DeletingTable, tmp_path: Path) -> None:
    where = ("--where-file", tmp_path / "forget.sql")
    plan = erase(table, *where, "--catalog-type", "filesystem").printed.splitlines()
    assert plan[0] == f"erase of {table.store.location}, branch main: planned"
    assert plan[-1].endswith(f"--where-file {tmp_path / 'forget.sql'} --catalog-type filesystem --execute")
    done = erase(table, *where, *COMMIT)
    lines = done.printed.splitlines()
    assert done.exit_code == 4 and lines[0].endswith(": partial")
    assert "rows in    1 data file of all versions" in lines
    (erasure,) = {line.split()[-1] for line in lines if line.startswith("erasure ")}
    assert f"--finish {erasure}" in done.messages
    assert any(line.startswith("still in   tag kept; kept until the tag is deleted") for line in lines), done.printed
    refused = call("undo", table.store.location, erasure)
    assert (refused.exit_code, "cannot be undone" in refused.messages) == (3, True)
    call("delete-tag", table.store.location, "kept", "--execute")
    call("expire-snapshots", table.store.location, "--retain-max", "1", "--retain-min", "1", "--execute")
    finished = erase(table, "--finish", erasure, "--execute")
    assert finished.exit_code == 0, finished.printed + finished.messages
    proof = erase(table, "--proof", erasure)
    assert proof.exit_code == 0 and "state      erased" in proof.printed.splitlines(), proof.printed
    printed = done.printed + finished.printed + proof.printed + done.messages + finished.messages
    stored = b"".join(path.read_bytes() for path in (tmp_path / "control").rglob("*") if path.is_file())
    assert str(SECRET) not in printed and str(SECRET).encode() not in stored
    assert [line for line in call("runs", table.store.location).printed.splitlines() if " erase " in line]


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (("--proof", "20260101T000000Z-00000000"), 3, "expected an erasure with the id"),
        (("--proof", "x", "--execute"), 2, "--proof reads a record; expected no execute"),
        (("--where", "id = 1", "--where-file", "f"), 2, "expected --where or --where-file, found both"),
        ((), 2, "expected --where or --where-file, found none"),
        (("--finish", "20260101T000000Z-00000000", "--run-id", "r", "--execute"), 2, "--finish deletes files"),
    ],
)
def test_calls_that_are_refused(table: DeletingTable, words: tuple[str, ...], exit_code: int, says: str) -> None:
    answer = erase(table, *words)
    assert answer.exit_code == exit_code and says in answer.messages
