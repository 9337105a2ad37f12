"""What-if numbers say when the limit of one run cuts them."""

from pathlib import Path

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call, write_table

RULES = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h", "snapshot.expire.limit": "2"}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return write_table(tmp_path / "orders", options=RULES)


@pytest.fixture
def place(table: TableBuilder, tmp_path: Path) -> tuple[object, ...]:
    return tmp_path / "orders", "--control", tmp_path / "control"


@pytest.mark.parametrize("command", ["expire-snapshots", "maintain"])
def test_a_dry_run_says_what_a_later_run_expires(place: tuple[object, ...], command: str) -> None:
    """Two go now and three are due as well, in words and in the document; runs that follow say less."""
    assert "snapshots  1 to 6, 2 to expire (1 to 2); 3 more are due, for later runs\n" in call(command, *place).printed
    found = call(command, *place, "--json").document["snapshots"]
    assert found == {"earliest": 1, "latest": 6, "expired": [1, 2], "due_later": 3}
    for due_later in (3, 1, None):
        found = call(command, *place, "--json", "--execute").document["snapshots"]
        assert found.get("due_later") == due_later
    assert found["expired"] == [5]


def test_what_is_not_due_is_not_counted(place: tuple[object, ...]) -> None:
    """Young snapshots beyond the limit, and those that a rule keeps, wait for their time."""
    words = ("--retain-min", 3, "--max-deletes", 1)
    assert call("expire-snapshots", *place, *words, "--json").document["snapshots"]["due_later"] == 2
    words = ("--older-than", "1970-01-01T00:25:00Z", "--max-deletes", 2)
    assert "due_later" not in call("expire-snapshots", *place, *words, "--json").document["snapshots"]
    assert "1 more is due" in call("expire-snapshots", *place, *words[:2], "--max-deletes", 1).printed


def test_explain_tells_the_next_expiry_from_a_later_one(place: tuple[object, ...], tmp_path: Path) -> None:
    """The limit cuts what the next expiry deletes, of a table and of a file."""
    document = call("explain", *place, "--json").document
    count = {share["reason"]: share["count"] for share in document["reasons"]}
    deleted = call("expire-snapshots", *place, "--json").document["delete"]["by_kind"]
    assert count["expired"] == sum(deleted.values()) - deleted["snapshot"] - deleted.get("hint", 0)
    assert count["due"] > 0
    printed = call("explain", *place).printed
    assert "the next expiry deletes them" in printed
    assert "due, but beyond the limit of one expiry: a later one deletes them" in printed
    later = call("explain", tmp_path / "orders", "snapshot/snapshot-4", "--json").document
    assert later["until"] == "until a later expiry deletes it: it is due, but one expiry deletes at most 2"
