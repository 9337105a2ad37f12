"""`audit verify`: whoever changes, removes or adds a part of the ledger, or changes a plan, is found out."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire
from lakesweep.errors import LeaseHeldError
from lakesweep.model.who import Who
from tests.support.memory_store import MemoryStore
from tests.unit.cli.command_line import call


def _parts(control: Path) -> list[Path]:
    return sorted(control.rglob("ledger/*/*/*.ndjson.gz"))


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()).decode()).encode()))


def _change_row(control: Path) -> None:
    _rewrite(_parts(control)[0], lambda text: text.replace('"kind":"', '"kind":"x', 1))


def _remove_last(control: Path) -> None:
    _parts(control)[-1].unlink()


def _remove_first(control: Path) -> None:
    _parts(control)[0].unlink()


def _remove_all(control: Path) -> None:
    for part in _parts(control):
        part.unlink()


def _add(control: Path) -> None:
    last = _parts(control)[-1]
    last.with_name("00099-result.ndjson.gz").write_bytes(last.read_bytes())


def _strip_heads(control: Path) -> None:
    for part in _parts(control):
        _rewrite(part, lambda text: text.partition("\n")[2])


def _change_plan(control: Path) -> None:
    header = next(control.rglob("plans/*/header.json"))
    header.write_text(header.read_text().replace('"path": "snapshot/snapshot-', '"path": "snapshot/snapshot-9', 1))


@pytest.mark.parametrize(
    "tamper", [_change_row, _remove_last, _remove_first, _remove_all, _add, _strip_heads, _change_plan]
)
def test_whoever_tampers_is_found_out(folder: Path, control: Path, tamper: Callable[[Path], None]) -> None:
    """What was written is whole; then one thing is changed, and the exit code says so."""
    assert call("expire-snapshots", folder, "--execute").exit_code == 0
    for place in (folder, control):
        whole = call("audit", "verify", place, "--json")
        assert (whole.exit_code, whole.document["whole"]) == (0, True), whole.document
        (table,) = whole.document["tables"]
        assert (table["table"], [run["verdict"] for run in table["runs"]]) == (str(folder), ["whole"])
    tamper(control)
    broken = call("audit", "verify", folder, "--json")
    assert (broken.exit_code, broken.document["whole"]) == (6, False)
    assert "broken" in call("audit", "verify", control).printed


def test_a_ledger_from_before_there_were_chains_is_not_broken(folder: Path, control: Path) -> None:
    """Its parts have no head, and the report says nothing of one."""
    call("expire-snapshots", folder, "--execute")
    _strip_heads(control)
    (report,) = control.rglob("reports/*.json")
    stored = json.loads(report.read_text())
    report.write_text(json.dumps({key: value for key, value in stored.items() if key not in ("by", "ledger")}))
    found = call("audit", "verify", folder, "--json")
    assert found.exit_code == 0
    assert [run["verdict"] for run in found.document["tables"][0]["runs"]] == ["no_chain"]


def test_report_ledger_and_lease_say_who(folder: Path, control: Path) -> None:
    """The actor, the machine, the version and the plan's hash."""
    call("expire-snapshots", folder, "--execute")
    stored = json.loads(next(control.rglob("reports/*.json")).read_text())
    head = json.loads(gzip.decompress(_parts(control)[0].read_bytes()).splitlines()[0])["head"]
    lease = json.loads(next(control.rglob("lease.json")).read_text())
    assert stored["by"] == head["by"] == lease["by"]
    assert stored["by"]["actor"].endswith("@" + stored["by"]["host"])
    assert (
        stored["plan_hash"]
        == head["plan_hash"]
        == json.loads(next(control.rglob("plans/*/header.json")).read_text())["content_hash"]
    )


def test_a_held_lease_says_by_whom_and_since_when() -> None:
    """And what to do about it."""
    store = MemoryStore("memory://control", clock=lambda: 1_800_000_000_000)
    acquire(ControlArea(store, "/data/orders", who=lambda: Who("ada@forge", "forge", "9")), "run-1")
    with pytest.raises(LeaseHeldError) as held:
        acquire(ControlArea(store, "/data/orders"), "run-2")
    assert "run run-1 holds the lease" in str(held.value)
    assert "since 2027-01-15 08:00:00Z, by ada@forge (version 9)" in str(held.value)
    assert "lakesweep runs" in str(held.value)


def test_runs_of_a_control_location(folder: Path, control: Path) -> None:
    """Each with its table; those that began before a time are left out."""
    call("expire-snapshots", folder, "--execute")
    listed = call("runs", control, "--since", "1d", "--json").document
    assert [(run["table"], run["status"]) for run in listed["runs"]] == [(str(folder), "done")]
    assert str(folder) in call("runs", control).printed
    assert call("runs", folder, "--since", "1d", "--json").document["runs"]
