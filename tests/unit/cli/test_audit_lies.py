"""`audit verify` finds forged parts, parts in the wrong place, and reports that disagree with the ledger."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.chain import hash_of_beginning
from tests.unit.cli.command_line import call

Row = dict[str, Any]


def _parts(control: Path) -> list[Path]:
    return sorted(control.rglob("ledger/*/*/*.ndjson.gz"))


def _rows(part: Path) -> list[Row]:
    return [json.loads(line) for line in gzip.decompress(part.read_bytes()).splitlines()]


def _write(part: Path, rows: list[Row]) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(gzip.compress("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()))


def _forge(control: Path, writer: str) -> None:
    first = _parts(control)[0]
    head, row = _rows(first)[:2]
    stated = {**head["head"], "writer": writer}
    forged = {**stated, "number": 1, "previous": hash_of_beginning(stated)}
    _write(first.with_name(f"{writer}-intent.ndjson.gz"), [{"head": forged}, {**row, "result": "deleted"}])


def _forge_a_slice(control: Path) -> None:
    _forge(control, "0000000-00")


def _forge_a_writer(control: Path) -> None:
    _forge(control, "somebody")


def _swap(control: Path) -> None:
    first, second = _parts(control)[:2]
    before = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(before)


def _rename(control: Path) -> None:
    first = _parts(control)[0]
    first.rename(first.with_name("zz.ndjson.gz"))


def _add_to_another_day(control: Path) -> None:
    first = _parts(control)[0]
    _write(first.parents[2] / "dt=2020-01-01" / first.parent.name / first.name, _rows(first)[1:])


def _move_to_another_day(control: Path) -> None:
    run = _parts(control)[0].parent
    shutil.move(run, run.parents[1] / "dt=2020-01-01" / run.name)


def _edit(control: Path, change: Callable[[dict[str, Any]], object]) -> None:
    (report,) = control.rglob("reports/*.json")
    stored = json.loads(report.read_text())
    change(stored)
    report.write_text(json.dumps(stored))


def _say_less_deleted(control: Path) -> None:
    _edit(control, lambda frame: frame["report"]["outcome"].update(deleted=0))


def _say_another_ran(control: Path) -> None:
    _edit(control, lambda frame: frame["by"].update(actor="mallory"))


def _say_another_plan(control: Path) -> None:
    _edit(control, lambda frame: frame["report"].update(plan_id="20200101T000000Z-00000000"))


def _say_another_hash(control: Path) -> None:
    _edit(control, lambda frame: frame.update(plan_hash="0" * 64))


def _say_another_policy(control: Path) -> None:
    _edit(control, lambda frame: frame.update(policy_etag="other"))


def _say_more_parts(control: Path) -> None:
    _edit(control, lambda frame: frame["ledger"].update(parts=77))


def _say_no_parts_and_remove_them(control: Path) -> None:
    _edit(control, lambda frame: frame["ledger"].update(parts=0))
    shutil.rmtree(_parts(control)[0].parent)


def _say_no_ledger(control: Path) -> None:
    _edit(control, lambda frame: frame.update(ledger=None))


def _say_no_ledger_and_remove_it(control: Path) -> None:
    _say_no_ledger(control)
    shutil.rmtree(_parts(control)[0].parent)


_LIES = [
    _forge_a_slice, _forge_a_writer, _swap, _rename, _add_to_another_day, _move_to_another_day, _say_less_deleted,
    _say_another_ran, _say_another_plan, _say_another_hash, _say_another_policy, _say_more_parts,
    _say_no_parts_and_remove_them, _say_no_ledger, _say_no_ledger_and_remove_it,
]  # fmt: skip


@pytest.fixture
def done(folder: Path, control: Path) -> Path:
    assert call("expire-snapshots", folder, "--execute").exit_code == 0
    return folder


@pytest.mark.parametrize("lie", _LIES)
def test_a_lie_is_found_out(done: Path, control: Path, lie: Callable[[Path], None]) -> None:
    """What was written is whole; then one thing is forged, and the run is broken."""
    lie(control)
    found = call("audit", "verify", done, "--json")
    assert (found.exit_code, found.document["tables"][0]["runs"][0]["verdict"]) == (6, "broken"), found.document


def _remove_report(control: Path) -> None:
    next(control.rglob("reports/*.json")).unlink()


def test_the_count_of_a_run_with_a_damaged_part_is_not_known(done: Path, control: Path) -> None:
    """It is no zero: objects are gone."""
    _remove_report(control)
    _parts(control)[0].write_bytes(b"no gzip")
    (run,) = call("runs", done, "--json").document["runs"]
    assert run["status"] == "unfinished"
    assert (run["deleted"], run["failed_count"], run["bytes"]) == (None, None, None)
    told = call("report", done, run["run_id"])
    assert "the number of objects it deleted is unknown" in told.messages


@pytest.mark.parametrize("of_control", [False, True])
def test_a_damaged_lease_hides_no_run(done: Path, control: Path, *, of_control: bool) -> None:
    """The runs with a report are listed, and a warning names the lease."""
    next(control.rglob("lease.json")).write_text("no json")
    found = call("runs", control if of_control else done, "--json")
    assert (found.exit_code, [run["status"] for run in found.document["runs"]]) == (0, ["done"])
    assert "lease.json" in found.document["warnings"][0]


def test_a_run_without_a_report_is_unreadable_when_the_lease_is(done: Path, control: Path) -> None:
    """Nobody can tell whether it is under way."""
    _remove_report(control)
    next(control.rglob("lease.json")).write_text("no json")
    (run,) = call("runs", done, "--json").document["runs"]
    assert run["status"] == "unreadable"
    assert "lease.json" in run["problem"]
