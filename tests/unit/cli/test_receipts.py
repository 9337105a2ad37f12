"""Receipts as people read them, and in reports that have none, or a damaged one."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.receipt import cost_lines, human_usd
from tests.unit.cli.command_line import call, write_table

RECEIPT = {
    "requests": {"get": 40, "put": 2},
    "seconds": 1.84,
    "requests_usd": 0.000026,
    "usd": 0.0001234,
    "freed_bytes": 3 << 30,
    "freed_usd_month": 0.069,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "orders", options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"})
    return tmp_path / "orders"


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0, "0 USD"), (0.0000004, "0.00000040 USD"), (0.069, "0.069 USD"), (0.5, "0.50 USD"), (0.999, "1.00 USD"),
     (1, "1.00 USD"), (1234.5, "1234.50 USD")],
)  # fmt: skip
def test_an_amount_has_two_digits(usd: float, text: str) -> None:
    assert human_usd(usd) == text


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "cost       0.00012 USD: 42 requests, 1.8 s; frees 3.0 GiB, 0.069 USD a month"),
        ({"freed_bytes": 0}, "cost       0.00012 USD: 42 requests, 1.8 s"),
        ({"freed_bytes": 0, "usd": None}, "cost       0.000026 USD and machines of unknown cost: 42 requests, 1.8 s"),
        ({"requests": {"get": 0, "put": 0}}, None),
    ],
)
def test_one_line(changes: dict[str, Any], line: str | None) -> None:
    assert list(cost_lines({"receipt": RECEIPT | changes})) == ([] if line is None else [line])


def test_a_local_table_costs_nothing(folder: Path, control: Path) -> None:
    """The receipt says so; no line does."""
    done = call("expire-snapshots", folder, "--execute", "--json").document
    receipt = done["receipt"]
    assert not any(receipt["requests"].values())
    assert (receipt["usd"], receipt["requests_usd"], receipt["freed_usd_month"]) == (0, 0, 0)
    assert receipt["freed_bytes"] == done["outcome"]["bytes"] > 0
    assert any(done["requests"].values())
    (run,) = call("runs", folder, "--json").document["runs"]
    assert run["usd"] == 0
    assert "cost " not in call("report", folder, done["run_id"]).printed


def test_a_report_without_a_sound_receipt(folder: Path, control: Path) -> None:
    """What it cost is unknown, not nothing. Without one, as of an earlier version, nothing fails."""
    done = call("expire-snapshots", folder, "--execute", "--json").document
    damaged = [5, [], {}, {"usd": "x"}, {"usd": -1}, {"usd": True}, {"requests": 5, "usd": None}]
    for receipt in (None, *damaged):
        change(control, receipt)
        (run,) = call("runs", folder, "--json").document["runs"]
        assert (run["usd"], run["status"], run["deleted"]) == (None, "done", done["outcome"]["deleted"])
        told = call("report", folder, done["run_id"])
        assert (told.exit_code == 0) == (receipt is None)
        assert ("expected the fields of a report" in told.messages) == (receipt is not None)
    assert call("report", folder, done["run_id"], "--json").document["report"]["receipt"] == damaged[-1]
    assert "  -    " in call("runs", folder).printed


def change(control: Path, receipt: Any) -> None:
    """Replace the receipt in the stored report; `None`: take it out."""
    (path,) = control.rglob("reports/*.json")
    document = json.loads(path.read_text())
    document["report"].pop("receipt", None)
    if receipt is not None:
        document["report"]["receipt"] = receipt
    path.write_text(json.dumps(document))
