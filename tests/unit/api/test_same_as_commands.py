"""A call of the API returns what the command of the same name prints with `--json`: the code behind both is one."""

from typing import Any

import pytest

from lakesweep import Document, Table, overview, tables
from lakesweep.operations.registry import OPERATIONS
from tests.unit.api.calls import ARGUMENTS, Lake, differences, silence, words_of
from tests.unit.cli.command_line import call

READ: dict[str, tuple[Any, ...]] = {
    "show": (lambda table: table.show(pinned=True, snapshot=3), "show", "--pinned", "--snapshot", "3"),
    "files": (lambda table: table.files(tag="kept"), "files", "--tag", "kept"),
    "explain": (lambda table: table.explain(), "explain"),
    "explain a file": (lambda table: table.explain("snapshot/snapshot-2"), "explain", "snapshot/snapshot-2"),
    "check": (lambda table: table.check(all_roots=True), "check", "--all-roots"),
    "tags": (lambda table: table.tags("kept", time_zone="UTC"), "tags", "--tag", "kept", "--time-zone", "UTC"),
    "branches": (lambda table: table.branches(sizes=True), "branches", "--sizes"),
    "plans": (lambda table: table.plans(limit=3), "plans", "--limit", "3"),
    "runs": (lambda table: table.runs(since="1 d"), "runs", "--since", "1 d"),
}


def test_every_operation_has_an_example() -> None:
    assert set(ARGUMENTS) == set(OPERATIONS)
    own = {"operation", "execute", "check", "self"}
    assert not [name for each in OPERATIONS.values() for name in own & each.signature.arguments]


# An erasure waits for snapshots that may just be written: twice ten seconds.
CALLS = [
    pytest.param(name, execute, id=f"{name}-{'run' if execute else 'plan'}", marks=pytest.mark.long if _waits else ())
    for name in OPERATIONS
    for execute in (False, True)
    for _waits in [name == "erase" and execute]
]


@pytest.mark.parametrize(("operation", "execute"), CALLS)
def test_an_operation(lake: Lake, operation: str, execute: bool, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = lake.arguments(operation)
    words = [*words_of(operation, arguments), *(["--execute"] if execute else [])]
    answer = call(operation, lake.table, *words, "--control", lake.control, "--json")
    lake.reset()
    with silence(capfd):
        report = Table(lake.table, control=lake.control).run(operation, execute=execute, check=False, **arguments)
    document = answer.document
    if operation == "remove-orphan-files":
        document["requests"]["list"] -= 1  # the command has looked whether the place is a table or a database
    assert not list(differences(report.to_json(), document))
    assert report.exit_code == answer.exit_code
    assert report.ok == (answer.exit_code == 0)
    assert report.operation in repr(report)


@pytest.mark.parametrize("name", READ)
def test_a_reading_command(lake: Lake, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    read, command, *words = READ[name]
    place = [] if command in ("show", "files", "tags") else ["--control", str(lake.control)]
    answer = call(command, lake.table, *words, *place, "--json")
    with silence(capfd):
        found = read(Table(lake.table, control=lake.control))
    assert isinstance(found, Document)
    assert not list(differences(found.to_json(), answer.document))


def test_a_simulation(lake: Lake) -> None:
    words = ["--policy-case", "retain-max=2", "--retain-max", "3", "--tag-rules", "daily=7"]
    answer = call("simulate", lake.table, *words, "--control", lake.control, "--json")
    table = Table(lake.table, control=lake.control)
    found = table.simulate(["retain-max=2"], retain_max=3, tag_rules="daily=7")
    assert not list(differences(found.to_json(), answer.document))


def test_an_overview(lake: Lake) -> None:
    place = lake.table.parent
    answer = call("overview", place, "--control", lake.control, "--sort", "name", "--processes", "1", "--json")
    lake.reset()
    found = overview(place, control=lake.control, sort="name", processes=1)
    assert not list(differences(found.to_json(), answer.document))
    assert found["tables"]


def test_the_tables_of_a_place(lake: Lake) -> None:
    found = tables(lake.folder / "lake", control=lake.control)
    assert [each.location for each in found] == [str(lake.table)]
    assert found[0].runs()["runs"]


def test_a_stored_plan_and_a_report(lake: Lake) -> None:
    table = Table(lake.table, control=lake.control)
    plan_id = table.plan("expire-snapshots", retain_max=2).plan_id
    assert plan_id is not None
    told = call("plans", lake.table, plan_id, "--files", "--control", lake.control, "--json").document
    assert table.stored_plan(plan_id, files=True).to_json() == told
    told = call("report", lake.table, lake.run_id, "--control", lake.control, "--json").document
    assert table.report(lake.run_id).to_json() == told
