"""`Table`: what it takes, what it refuses, and how a run that did not do its work fails."""

import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import lakesweep
from lakesweep import (
    LeaseHeldError,
    MaintenanceError,
    RefusedError,
    RunError,
    RunRefusedError,
    RunStaleError,
    StalePlanError,
    Table,
    UsageError,
)
from tests.unit.api.calls import Lake, silence
from tests.unit.cli.command_line import contents

NAIVE = datetime(2026, 1, 31)
WRONG_TABLES: dict[str, Callable[[], object]] = {
    "nothing": lambda: Table(None),
    "an empty text": lambda: Table(" "),
    "a number": lambda: Table(5),
    "bytes": lambda: Table(b"/data/orders"),
    "another scheme": lambda: Table("gs://lake/orders"),
    "a branch that is a list": lambda: Table("/data/orders", ["main"]),
    "a control that is a number": lambda: Table("/data/orders", control=5),
    "a flag that is text": lambda: Table("/data/orders", local_control="yes"),
    "roots that are a text": lambda: Table("/data/orders", external_roots="s3://a/b"),
    "progress that is no function": lambda: Table("/data/orders", progress=5),
}
WRONG_CALLS: dict[str, Callable[[Table], object]] = {
    "no operation": lambda table: table.plan(None),
    "an unknown operation": lambda table: table.plan("drop-table"),
    "an unknown argument": lambda table: table.plan("expire-snapshots", retain=5),
    "a number that is a word": lambda table: table.plan("expire-snapshots", retain_max="five"),
    "a number that is true": lambda table: table.plan("expire-snapshots", retain_max=True),
    "a number that is an object": lambda table: table.plan("expire-snapshots", retain_max=object()),
    "a time without a zone": lambda table: table.plan("expire-snapshots", older_than=NAIVE),
    "a time that is a list": lambda table: table.plan("expire-snapshots", older_than=[1]),
    "options that are a list": lambda table: table.plan("maintain", options=["a=b"]),
    "options with numbers": lambda table: table.plan("maintain", options={"snapshot.num-retained.max": 3}),
    "a set of names": lambda table: table.plan("delete-tag", tag={"a"}),
    "a text as the permission to execute": lambda table: table.maintain(execute="no"),
    "no permission to execute, and no refusal of it": lambda table: table.run("maintain", execute=None),
    "a number as the permission to execute": lambda table: table.undo("20260131T120003Z-5a6b7c8d", execute=1),
    "a text as the wish to hear of errors": lambda table: table.plan("maintain", check="no"),
    "the same for a stored plan": lambda table: table.execute("20260131T120003Z-5a6b7c8d", check="no"),
    "no condition": lambda table: table.plan("delete-rows"),
    "two conditions": lambda table: table.plan("delete-rows", where="id = 1", where_file="x"),
    "the standard input": lambda table: table.plan("delete-rows", where_file="-"),
    "a file that is not there": lambda table: table.plan("delete-rows", where_file="/nowhere"),
    "an unknown engine": lambda table: table.plan("compact", engine="flink"),
    "a queue that is a number": lambda table: table.plan("remove-orphan-files", scan_queue=5),
    "no plan": lambda table: table.execute(None),
    "a plan that is a number": lambda table: table.execute(5),
    "a grace that is a list": lambda table: table.execute("20260131T120000Z-1f2e3d4c", grace=[]),
    "a run that is a number": lambda table: table.report(5),
    "a limit that is a text": lambda table: table.runs(limit="5"),
    "a limit of nothing": lambda table: table.plans(limit=0),
    "a since that is a list": lambda table: table.runs(since=[]),
    "two versions": lambda table: table.files(snapshot=1, tag="kept"),
    "an unknown version": lambda table: cast("Any", table).files(snapshott=1),
    "a snapshot that is a text": lambda table: table.show(snapshot="1"),
    "a snapshot that is true": lambda table: table.show(snapshot=True),
    "a time stamp that is an object": lambda table: table.show(timestamp=object()),
    "a tag that is a number": lambda table: table.tags(5),
    "a file that is a number": lambda table: table.explain(5),
    "a quarantine without a unit": lambda table: table.explain("snapshot/LATEST", quarantine="5"),
    "a quarantine without a file": lambda table: table.explain(quarantine="1 d"),
    "columns that are a text": lambda table: table.read(columns="id"),
    "columns that are numbers": lambda table: table.read(columns=[1]),
    "a column that is not there": lambda table: table.read(columns=["no"]),
    "a condition that is a number": lambda table: table.read(where=5),
    "a condition that is no condition": lambda table: table.read(where="id ="),
    "a negative limit": lambda table: table.read(limit=-1),
    "policies that are a text": lambda table: table.simulate("retain-max=2"),
    "a policy that is none": lambda table: table.simulate(["retain"]),
    "days that are a text": lambda table: table.simulate(days="2"),
    "no days": lambda table: table.simulate(days=0),
    "an unknown limit": lambda table: table.simulate(retain=2),
    "a limit that is a word": lambda table: table.simulate(retain_max="two"),
    "no place": lambda table: lakesweep.overview(),
    "a place that is a number": lambda table: lakesweep.overview(5),
    "an unknown order": lambda table: lakesweep.overview(table.location, sort="size"),
    "no processes": lambda table: lakesweep.overview(table.location, processes=0),
    "tables of nothing": lambda table: lakesweep.tables(""),
    "an unknown zone": lambda table: table.read(where="id = 1", time_zone="Mars/Olympus"),
}


@pytest.fixture
def table(lake: Lake) -> Table:
    return Table(lake.table, control=lake.control)


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_a_wrong_table_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        WRONG_TABLES[name]()


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_argument_is_a_usage_error(table: Table, lake: Lake, name: str) -> None:
    before = contents(lake.folder)
    with pytest.raises(UsageError) as raised:
        WRONG_CALLS[name](table)
    assert "--" not in str(raised.value)
    assert raised.value.exit_code == 2
    assert contents(lake.folder) == before


def test_a_plan_is_executed_exactly_and_once(table: Table, lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    with silence(capfd):
        plan = table.plan("expire-snapshots", retain_max=2, retain_min=1)
        assert (plan.ok, plan.status, plan.executed) == (True, "planned", False)
        run = table.execute(plan)
        again = table.execute(str(plan.plan_id))
    assert (run.status, run.deleted, run.deleted_bytes) == ("done", plan.to_delete, plan.to_delete_bytes)
    assert plan.to_delete > 0
    assert again.ok
    assert [row["run_id"] for row in table.runs()["runs"]][:1] == [run.run_id]
    assert table.report(str(run.run_id))["report"]["plan_id"] == plan.plan_id


def test_what_has_no_plan_of_its_own_is_planned_anew(table: Table) -> None:
    plan = table.plan("delete-rows", where="id < 4", catalog_type="filesystem")
    assert (plan.plan_id, plan.status) == (None, "planned")
    assert table.execute(plan).status == "done"
    assert min(table.read(columns=["id"])["id"].to_pylist()) >= 4


def test_nothing_to_do_is_executed_as_nothing(table: Table) -> None:
    plan = table.plan("clear-consumers", including_consumers="nobody")
    assert (plan.status, table.execute(plan)) == ("nothing_to_do", plan)


def test_a_plan_of_another_table_is_a_usage_error(table: Table, tmp_path: Path) -> None:
    plan = table.plan("expire-snapshots", retain_max=2, retain_min=1)
    with pytest.raises(UsageError, match="expected one of table"):
        Table(tmp_path).execute(plan)


def test_a_stale_plan_raises(table: Table) -> None:
    """Nobody is told of success when the branch has moved on from what a rollback plan saw."""
    plan = table.plan("rollback", snapshot=4)
    table.run("delete-rows", where="id < 4", catalog_type="filesystem")
    with pytest.raises(RunStaleError) as raised:
        table.execute(plan)
    assert isinstance(raised.value, StalePlanError)
    assert (raised.value.code, raised.value.exit_code, raised.value.report.ok) == ("stale", 3, False)


def test_a_refused_run_raises_unless_it_is_asked_for_the_report(table: Table, lake: Lake) -> None:
    with pytest.raises(RunRefusedError, match="nowhere") as raised:
        table.run("create-branch", branch="fresh", tag="nowhere")
    assert isinstance(raised.value, RefusedError)
    found = table.run("create-branch", branch="fresh", tag="nowhere", check=False)
    assert (found.ok, found.status) == (False, "refused")
    assert found.refusal is not None
    assert found.refusal.code == raised.value.code
    with pytest.raises(RunRefusedError):
        found.raise_for_status()
    kept = pickle.loads(pickle.dumps(raised.value))
    assert (type(kept), str(kept), kept.code, kept.exit_code) == (
        RunRefusedError, str(raised.value), raised.value.code, 3,
    )  # fmt: skip


def test_a_partial_run_raises(table: Table) -> None:
    """After an erasure, older snapshots still show the rows."""
    with pytest.raises(RunError) as raised:
        table.run("erase", where="id = 5", catalog_type="filesystem")
    assert not isinstance(raised.value, RefusedError)
    assert (raised.value.report.status, raised.value.exit_code) == ("partial", 4)


def test_a_damaged_table_raises(table: Table, lake: Lake) -> None:
    for path in (lake.table / "manifest").glob("manifest-list-*"):
        path.write_bytes(b"damaged")
    with pytest.raises(MaintenanceError):
        table.maintain(execute=True)
    with pytest.raises(MaintenanceError):
        table.read()


def test_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    here = Table(tmp_path / "else", control=tmp_path / "control")
    for call in (here.show, here.check, here.maintain, here.read, lambda: here.plan("expire-snapshots")):
        with pytest.raises(RefusedError) as raised:
            call()
        assert raised.value.code == "not_a_table"


def test_a_held_lease_raises_and_leaves_the_table(table: Table, lake: Lake) -> None:
    """Another run waits for the readers of expiring snapshots, and holds the lease meanwhile."""
    entered, left = threading.Event(), threading.Event()

    def wait(what: str, done: int, total: int | None) -> None:
        entered.set()
        left.wait(60)

    other = Table(lake.table, control=lake.control, progress=wait)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(other.run, "expire-snapshots", retain_max=2, retain_min=1)
        try:
            assert entered.wait(60)
            with pytest.raises(LeaseHeldError) as raised:
                table.maintain(execute=True)
            assert (raised.value.code, raised.value.exit_code) == ("lease_held", 5)
            found = table.maintain(execute=True, check=False)
            assert (found.ok, found.exit_code) == (False, 5)
        finally:
            left.set()
        assert run.result().ok


def test_threads_share_a_table(table: Table) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: table.show(pinned=True).to_json(), range(8)))
    assert all(each == found[0] for each in found)


def test_rows_are_read_whole_or_batch_by_batch(table: Table) -> None:
    rows = table.read()
    assert isinstance(rows, pa.Table)
    assert rows.column_names == ["id", "day", "price"]
    batches = list(table.read_batches())
    assert pa.Table.from_batches(batches, schema=rows.schema) == rows
    some = table.read(columns=["price", "id"], where="day = '2'", snapshot=3)
    assert some.column_names == ["price", "id"]
    assert table.read(limit=2).num_rows == 2
    assert table.read(limit=0).schema == rows.schema
    first = table.read_batches()
    next(first)
    first.close()


def test_a_missing_file_is_no_fewer_rows(table: Table, lake: Lake) -> None:
    gone = table.files()["files"][0]
    (lake.table / gone["path"]).unlink()
    with pytest.raises(RefusedError, match=gone["path"].rpartition("/")[2]):
        table.read()
    rows = sum(each["rows"] for each in table.files()["files"])
    assert table.read(allow_missing=True).num_rows == rows - gone["rows"]


def test_times_may_be_those_of_python(table: Table) -> None:
    now = datetime.now(UTC)
    assert table.files(timestamp=now)["snapshot_id"] == table.show()["snapshots"]["latest"]["id"]
    texts = table.plan("expire-snapshots", retain_min=1, older_than=now.isoformat()).to_delete
    assert table.plan("expire-snapshots", retain_min=1, older_than=now).to_delete == texts > 0
    young = {"retain_max": 100, "retain_min": 1, "older_than": timedelta(days=1)}
    assert table.plan("expire-snapshots", **young).to_delete == 0
    assert table.runs(since=timedelta(hours=1))["runs"]
    assert not table.runs(since=datetime.now(UTC) + timedelta(hours=1))["runs"]


def test_a_document_is_a_mapping_that_nobody_changes(table: Table) -> None:
    found = table.show()
    assert dict(found) == found.to_json()
    found.to_json()["snapshots"]["count"] = 0
    assert found["snapshots"]["count"] > 0
    with pytest.raises(TypeError):
        found["snapshots"] = {}  # type: ignore[index]


def test_the_environment_names_what_the_call_does_not(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(lake.control))
    here = Table(lake.table)
    assert here.runs()["runs"]
    policy = lake.folder / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": str(lake.folder), "mode": "observe"}]}))
    monkeypatch.setenv("LAKESWEEP_POLICY", str(policy))
    assert here.show()["policy"] is not None
    assert Table(lake.table, policy=lake.folder / "no.json").location == str(lake.table)


def test_a_password_in_a_location_is_not_shown() -> None:
    with pytest.raises(UsageError) as found:
        Table("https://me:secret@example.com/orders")
    assert "secret" not in str(found.value)


def test_ctrl_c_leaves_what_the_next_run_finishes(lake: Lake) -> None:
    """A notebook stops a cell by `SIGINT`. The plan has begun then, and the next call finishes it."""
    code = """
import os, signal, sys
from lakesweep import Table
stopped = []
def stop(what, done, total):
    if "delete" in what and done and not stopped:
        stopped.append(what)
        os.kill(os.getpid(), signal.SIGINT)
table = Table(sys.argv[1], control=sys.argv[2], progress=stop)
try:
    table.run("expire-snapshots", retain_max=2, retain_min=1, grace="0")
except KeyboardInterrupt:
    pass
else:
    sys.exit("nothing stopped it")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
report = Table(sys.argv[1], control=sys.argv[2]).run("expire-snapshots", retain_max=2, retain_min=1)
assert report.ok, report
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(lake.table), str(lake.control)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Table(lake.table, control=lake.control).check(all_roots=True)["status"] == "healthy"


def test_the_package_is_imported_as_cheaply_as_before() -> None:
    """A function on AWS imports `lakesweep` at its cold start: no module of the API, and not even `typing`."""
    code = "import sys; old = set(sys.modules); import lakesweep; print(sorted(set(sys.modules) - old))"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": "shared"}, check=True, capture_output=True, text=True
    )
    assert printed.stdout == "['lakesweep']\n"


def test_public_names_have_docstrings_and_types() -> None:
    for name in lakesweep.__all__:
        found: Any = getattr(lakesweep, name)
        assert found.__doc__, name
        if not isinstance(found, type):
            assert "return" in found.__annotations__, name
            continue
        for word, member in vars(found).items():
            function = member.fget if isinstance(member, property) else member
            if word.startswith("_") or not callable(function):
                continue
            assert function.__doc__, (name, word)
            assert "return" in function.__annotations__, (name, word)
    with pytest.raises(AttributeError, match="no attribute 'Tables'"):
        lakesweep.Tables  # type: ignore[attr-defined]  # noqa: B018
