"""The requests of a deletion, one by one."""

from pathlib import Path

from tests.support.deleting import DeletingTable
from tests.support.faulty_store import FaultyStore, Switch


def test_what_a_deletion_asks_for(tmp_path: Path) -> None:
    """Two of three data files have such rows; statistics say nothing. All have vectors, in one index file."""
    table = DeletingTable(tmp_path)
    for number in range(3):
        table.add("a", range(number * 10, number * 10 + 10))
    table.delete("id IN (1, 11, 21)")
    switch = Switch()
    report = table.delete("id IN (2, 12)", FaultyStore(table.store, switch, "table"))
    assert report.status == "done"
    asked = [call.removeprefix("table ") for call in switch.calls]
    of = {
        folder: [each.split(" ")[0] for each in asked if each.split(" ")[1].startswith(folder)]
        for folder in ("schema/", "snapshot/", "manifest/", "index/")
    }
    assert of["schema/"] == ["list", "read", "list"], "the newest one, and again before the commit"
    assert of["snapshot/"] == ["list", "read", "list", "read", "put", "list", "read", "put"], "at last the hint"
    assert of["manifest/"] == ["read"] * (2 + 3 + 1) + ["put"] * 3, "each list and manifest is read once"
    assert of["index/"] == ["read", "read", "put"], "to search, and to write anew"
    assert len([each for each in asked if each.split(" ")[1].startswith("dt=a/")]) <= 6


def test_what_rewriting_asks_for(tmp_path: Path) -> None:
    """Two of three data files have such rows. Each of them is read once more, at once, and written."""
    table = DeletingTable(tmp_path, {"deletion-vectors.enabled": "false"})
    for number in range(3):
        table.add("a", range(number * 10, number * 10 + 10))
    table.delete("id = 1")
    switch = Switch()
    report = table.delete("id IN (2, 12)", FaultyStore(table.store, switch, "table"))
    assert report.status == "done"
    asked = [call.removeprefix("table ").split(" ")[:2] for call in switch.calls]
    of = {folder: [verb for verb, key in asked if key.startswith(folder)] for folder in ("manifest/", "dt=a/")}
    assert of["manifest/"] == ["read"] * (2 + 3 + 2) + ["put"] * (2 + 2), "a manifest for each writer's entries"
    assert of["dt=a/"] == ["read"] * 5 + ["read", "put"] * 2, "the footer rules one file out"
    assert len(asked) == len(of["manifest/"] + of["dt=a/"]) + 4 + 7
