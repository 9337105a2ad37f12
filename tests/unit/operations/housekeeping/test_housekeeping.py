"""What goes, what stays, and what the run records about it."""

import json

import pytest

from lakesweep.control.expired import expired_document
from lakesweep.control.lease import read_lease
from lakesweep.control.ledger_rows import run_rows
from lakesweep.control.reports import load_report, run_ids
from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.operations.housekeeping.documents import named_by
from lakesweep.operations.housekeeping.location import Call, house_of_table
from tests.support.acting import Acting
from tests.unit.operations.erasure.erasing import Erasing, erasure_of
from tests.unit.operations.housekeeping.house import ALL, DAY_MS, PLANS, House, going, kept


def test_old_plans_go_and_the_rest_stays() -> None:
    """A dry run changes nothing. An execution deletes the same, and records it."""
    world = House()
    old = world.expiry()
    world.days(31)
    new = world.expiry()
    before = world.names()
    dry = world.tidy(execute=False)
    assert (dry.status, going(dry), world.names()) == ("planned", {"plan": 1}, before)
    assert kept(dry)["plan", "young"] == 1 and kept(dry)["ledger", "kept_for_good"] > 0
    done = world.tidy()
    assert (done.status, world.plans()) == ("done", [new])
    assert done.outcome is not None and (done.outcome.deleted, done.outcome.failed) == (1, ())
    assert done.run_id is not None and old in world.reports()
    rows = [row for row in run_rows(world.area, done.run_id) if "result" in row]
    assert [(row["kind"], row["result"], row["reason"]) for row in rows] == [("plan", "deleted", "older than 30 d")]
    report = load_report(world.area, done.run_id)["report"]
    assert isinstance(report, dict) and (report["operation"], report["status"]) == ("housekeeping", "done")
    assert world.audited().plan_count == 1
    again = world.tidy()
    assert (again.status, again.run_id) == ("nothing_to_do", None)


def test_a_run_is_undoable_within_the_stated_time() -> None:
    """Afterwards the refusal says why it is not."""
    world = House()
    world.replace_each(4)
    old = world.expire().run_id
    world.days(29)
    assert world.tidy().status == "nothing_to_do"
    assert old is not None and world.undo(old, execute=False).status == "planned"
    world.days(2)
    assert world.tidy().status == "done"
    refusal = world.undo(old, execute=False).refusal
    assert refusal is not None and refusal.code == "no_such_plan"
    assert "housekeeping deletes old plans" in refusal.message
    refusal = world.undo(world.reports()[-1], execute=False).refusal
    assert refusal is not None and (refusal.code, "not of the table" in refusal.message) == ("not_undoable", True)


def test_a_deleted_plan_is_explained() -> None:
    world = House()
    old = world.expiry()
    world.days(40)
    run_id = world.tidy().run_id
    found = expired_document(world.area, f"plans/{old}/header.json", old)
    assert found is not None and (found.run_id, found.reason) == (run_id, "older than 30 d")
    assert expired_document(world.area, "plans/20260101T000000Z-00000000/header.json", "x") is None


def test_reports_and_ledgers_go_together() -> None:
    """The audit stays whole; the newest report stays, since it names the table."""
    world = House()
    world.expiry()
    world.days(61)
    newest = world.expiry()
    done = world.tidy(ALL)
    assert going(done) == {"plan": 1, "report": 1, "ledger": 2}
    assert set(world.reports()) == {newest, done.run_id}
    assert [each.verdict for each in world.audited().runs] == ["whole", "whole"]
    world.days(61)
    last = world.tidy(ALL)
    assert set(world.reports()) == {max(newest, str(done.run_id)), last.run_id}, kept(last)


def test_a_report_stays_while_its_plan_does() -> None:
    """It may say how the plan ended. Here somebody has undone the plan lately."""
    world = House()
    world.replace_each(4)
    old = world.expire().run_id
    assert old is not None
    world.days(59)
    world.undo(old)
    world.days(2)
    house = world.tidy(ALL, execute=False)
    assert kept(house)["report", "of_plan"] == 1 and kept(house)["ledger", "of_report"] == 2


def test_nothing_of_a_begun_plan_goes() -> None:
    """A run died in the middle: whatever the policy says, the lease names its plan."""
    world = House()
    old = world.expiry()
    world.replace_each(3)
    world.dies_before(lambda name: name.startswith("table delete"))
    world.days(100)
    house = world.tidy()
    assert house.status == "refused" and house.refusal is not None and house.refusal.code == "lease_held"
    assert old in world.plans() and len(world.plans()) == 2
    world.expire()
    assert world.tidy().status == "done"
    assert old not in world.plans()


def test_a_held_lease_holds_it_back() -> None:
    from lakesweep.control.lease import acquire

    world = House()
    world.expiry()
    world.days(40)
    lease = acquire(world.area, "20270101T000000Z-00000000")
    before = world.names()
    house = world.tidy()
    assert house.refusal is not None and (house.refusal.code, house.refusal.exit_code) == ("lease_held", 5)
    assert world.names() == before
    lease.release(ended=True)
    assert world.tidy().status == "done"


def test_a_plan_that_is_not_completely_executed_stays() -> None:
    world = House()
    old = world.expiry()
    world.put_document(f"plans/{old}/end.json", {"status": "partial", "run_id": old, "runs": [old]})
    world.days(300)
    house = world.tidy(ALL)
    assert kept(house)["plan", "unfinished"] == 2 and world.plans() == [old]


def test_ledgers_stay_that_the_undo_of_a_kept_plan_needs() -> None:
    """A run died, and another finished its plan much later. The plan is young, and the first ledger is old."""
    world = House()
    world.replace_each(6)
    deletions: list[str] = []

    def second(name: str) -> bool:
        deletions.extend([name] * name.startswith("table delete"))
        return len(deletions) == 2

    world.dies_before(second, retain_max=1, retain_min=1)
    (plan_id,) = world.plans()
    world.days(59)
    run_id = world.maintainer().execute(plan_id).run_id
    assert run_id is not None
    world.days(2)
    before = world.undo(run_id, execute=False)
    assert before.status == "planned"
    assert kept(world.tidy(ALL))["ledger", "young"] == 2 and world.plans() == [plan_id]
    assert world.undo(run_id, execute=False).restores == before.restores
    world.audited()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_report_and_ledger_stay_that_an_unfinished_plan_needs(is_damaged: bool) -> None:
    """Another run carried out the plan, so its id is not that of the plan. An end that is damaged names no run."""
    world = House()
    plan_id = world.planned()
    world.now_ms += 60_000
    run_id = world.maintainer().execute(plan_id).run_id
    assert run_id not in (None, plan_id)
    end = {"status": "partial", "run_id": run_id, "runs": [run_id]}
    world.put_document(f"plans/{plan_id}/end.json", {} if is_damaged else end)
    world.days(1)
    world.expiry()
    world.days(100)
    (count,) = (each.count for each in world.tidy(ALL).kept if (each.kind, each.reason) == ("report", "of_plan"))
    assert count == 1 and run_id in world.reports()
    assert any(name.startswith("ledger/") and str(run_id) in name for name in world.names())


@pytest.mark.parametrize("is_damaged", [False, True])
def test_runs_stay_that_the_proof_of_an_erasure_names(is_damaged: bool) -> None:
    """The expiry that deleted the files has an id of its own. A record that is damaged keeps all runs since."""
    world = Erasing()
    erasure = erasure_of(world.erase())
    world.later()
    assert world.finish(erasure).status == "done"
    (run_id,) = (each["run_id"] for each in world.proof(erasure)["changes"] if each["operation"] == "expire-snapshots")
    assert not run_id.startswith(erasure)
    if is_damaged:
        world.area.put(f"erasures/{erasure}/00002.json", b"{}")
    for days in (1, 500):
        world.now_ms += days * DAY_MS
        world.append(6, dt="e")
        world.append(7, dt="e")
        world.now_ms += DAY_MS
        world.expire()
    call = Call(FleetPolicy("", (), control=ALL), execute=True)
    house = house_of_table(world.maintainer().table, call).tables[0]
    assert house.status in ("done", "nothing_to_do") and kept(house)[("report", "of_plan" if is_damaged else "proof")]
    found = run_ids(world.area)
    assert run_id in found and run_rows(world.area, run_id)
    assert {each for each in found if each.startswith(erasure)} >= {f"{erasure}-2"}


@pytest.mark.parametrize("name", ["lease.json", "plans/{}/header.json", "plans/{}/end.json", "reports/{}.json"])
def test_damaged_documents_stay_and_are_named(name: str) -> None:
    """Whoever damaged one does not have its traces removed."""
    world = House()
    old = world.expiry()
    world.expiry()
    world.area.put(name.format(old), b"{")
    world.days(500)
    house = world.tidy(ALL)
    if name == "lease.json":
        assert house.refusal is not None and house.refusal.code == "damaged"
        assert {reason for _, reason in kept(house)} == {"lease_damaged"}
        return
    assert name.format(old) in world.names()
    assert any(path.endswith(name.format(old)) and why == "damaged" for path, why in house.named)


FOREIGN = (
    *("notes.txt", "plans/readme.md", "plans/a b/header.json", "plans/x/extra/header.json", "reports/x/y.json"),
    *("reports/.json", "ledger/dt=2020-01-01/20210101T000000Z-1/00001-intent.ndjson.gz", "ledger/x.ndjson.gz"),
    *("erasures/x/1.json", "jobs/ä.json", "cache.bin.old", "lease.json.bak"),
)


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_stay_and_are_named(name: str) -> None:
    world = House()
    world.expiry()
    world.area.put(name, b"x")
    world.days(3000)
    house = world.tidy(ALL)
    assert name in world.names() and (f"{world.area.prefix}{name}", "foreign") in house.named


def test_what_a_live_table_needs_stays() -> None:
    """Lease, state, notes of scans and erasures, and the runs of an erasure; caches only while they are used."""
    world = House()
    erasure = "20270115T080000Z-0a0b0c0d"
    world.expiry()
    for name in ("state.json", "orphan_scan.json", "orphan_scans.json", f"erasures/{erasure}/00001.json"):
        world.area.put(name, b"{}")
    world.area.put(f"reports/{erasure}-2.json", b"{}")
    world.area.put("orphans.ndjson.gz", b"x")
    world.area.put("cache.bin", b"x")
    world.days(39)
    assert world.tidy(execute=False).going == () or "cache" not in going(world.tidy(execute=False))
    world.days(500)
    house = world.tidy(ALL)
    assert going(house)["cache"] == going(house)["quarantine"] == 1
    assert kept(house)["state", "needed"] == 4 and kept(house)["erasure", "proof"] == 1
    assert kept(house)["report", "proof"] == 1


def test_scans_go_by_their_newest_document() -> None:
    """A scan with a result after a week; one without only when no message can continue it; an open job never."""
    world = House()
    world.expiry()
    key = world.area.prefix.split("/")[1]
    for scan in ("ended", "lost", "running", "spark"):
        world.put(f"scans/{key}/{scan}/scan.json.gz")
        world.put(f"scans/{key}/{scan}/tasks/list-0")
    world.put(f"scans/{key}/ended/result.json")
    world.put(f"scans/{key}/plans/empty/header.json")
    world.put_document("jobs/spark.json", {})
    world.put_document("jobs/over.json", {})
    world.put("spark-jobs.json", b'{"format_version": 1, "jobs": {"spark": "x"}}')
    world.days(8)
    world.put(f"scans/{key}/running/state.json.gz")
    assert going(world.tidy()) == {"scan": 4}
    assert {name.split("/")[0] for name in world.names("scans")} == {"lost", "running", "spark"}
    world.days(20)
    assert going(world.tidy()) == {"scan": 2, "job": 1}
    world.days(5)
    assert going(world.tidy())["scan"] == 3
    assert {name.split("/")[0] for name in world.names("scans")} == {"spark"}
    assert {name for name in world.names() if name.startswith("jobs/")} == {"jobs/spark.json"}


def test_segments_go_after_scans_stopped_using_them() -> None:
    world = House()
    world.expiry()
    key = world.area.prefix.split("/")[1]
    for name in ("20270115T080000Z-0a0b0c0d.decode-1", "index.json.gz"):
        world.put(f"names/{key}/{name}")
    world.days(39)
    assert "segment" not in going(world.tidy())
    world.days(2)
    assert going(world.tidy())["segment"] == 2


def test_a_clock_that_is_behind_keeps_more() -> None:
    """A document from the future is young, and so is one whose id says so."""
    world = House()
    world.days(400)
    world.expiry()
    world.days(-380)
    assert world.tidy().going == ()
    world.days(100)
    assert world.tidy().going == ()


def test_the_earlier_of_two_clocks_counts() -> None:
    """The store's clock jumps ahead; the caller's does not."""
    from dataclasses import replace

    from lakesweep.model.fleet_policy import FleetPolicy
    from lakesweep.operations.housekeeping.location import Call, house_of_table

    world = House()
    world.expiry()
    table = world.maintainer().table
    known_ms = world.now_ms
    world.days(3000)
    call = Call(FleetPolicy("", (), control=PLANS), execute=True)
    house = house_of_table(replace(table, clock_ms=lambda: known_ms), call).tables[0]
    assert house.going == ()


def test_null_keeps_for_good() -> None:
    world = House()
    world.expiry()
    world.days(5000)
    never = ControlRetention(None, None, None, None, None, None)
    assert world.tidy(never).going == ()


@pytest.mark.parametrize("gone", [True, False])
def test_a_table_that_is_gone(gone: bool) -> None:
    """It is said. Only if somebody asks for it, what is left goes; the ledger stays."""
    world = House()
    world.expiry()
    world.area.put("state.json", b"{}")
    world.store._objects.clear()
    world.days(20)
    assert world.tidy(gone=True).going == ()
    world.days(5)
    house = world.tidy(gone=gone)
    assert house.is_gone
    assert "lease.json" in world.names() and ("state.json" in world.names()) is not gone
    assert any(name.startswith("ledger/") for name in world.names())
    world.audited()


def test_a_table_that_may_be_there_is_not_gone() -> None:
    world = House()
    world.expiry()
    world.days(100)
    world.tidy(gone=True)
    assert "lease.json" in world.names()


def test_a_call_deletes_so_many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest runs first, each as a whole."""
    from lakesweep.operations.housekeeping.rules import expiry

    monkeypatch.setattr(expiry, "MOST", 5)
    world = House()
    runs = []
    for _ in range(3):
        runs.append(world.expiry())
        world.days(1)
    newest = world.expiry()
    world.days(100)
    first = world.tidy(ALL)
    assert world.plans() == [*runs[1:], newest] and ("plan", "later_call") in kept(first)
    world.audited()
    while world.tidy(ALL).going:
        world.audited()
    assert world.plans() == []


def test_requests() -> None:
    """Listings, a read of the lease, reads of what goes, and the writes of one run."""
    world = House()
    for _ in range(3):
        world.expiry()
        world.days(1)
    world.days(29)
    _, spent = world.spent(world.tidy, execute=False)
    # The lease, the open jobs; two plans: header, absent end, report. Three folders, and the table.
    assert {kind: count for kind, count in spent.items() if count} == {"get": 8, "list": 4}
    _, spent = world.spent(world.tidy)
    # The lease twice, an intent, the results, the report.
    assert {kind: count for kind, count in spent.items() if count} == {"get": 8, "list": 4, "put": 5, "delete": 2}
    _, spent = world.spent(world.tidy)
    assert {kind: count for kind, count in spent.items() if count} == {"get": 2, "list": 4}


def test_its_own_ledger_does_not_grow_from_run_to_run() -> None:
    """However many ranks there are, one part has all intents, and one the results. So the location stops growing."""
    world, sizes = House(), []
    short = ControlRetention(plans_ms=24 * DAY_MS, reports_ms=24 * DAY_MS, ledger_ms=24 * DAY_MS)
    for _ in range(8):
        world.expiry()
        world.days(25)
        run_id = world.tidy(short).run_id
        sizes.append(len(world.names()))
        parts = [name for name in world.names() if name.startswith("ledger/") and str(run_id) in name]
        assert len(parts) == (0 if run_id is None else 2)
    assert len(set(sizes[2:])) == 1, sizes
    world.audited()


def test_a_day_is_a_day() -> None:
    """Exactly the stated time is not beyond it."""
    world = House()
    world.expiry()
    world.now_ms += 30 * DAY_MS
    assert world.tidy(execute=False).going == ()
    world.now_ms += 2000
    assert going(world.tidy(execute=False)) == {"plan": 1}


def test_what_depends_on_a_document_that_stays_stays() -> None:
    """Somebody writes the header of a plan again: its parts, its report and its ledger stay."""
    world = House()
    old = world.expiry()
    world.expiry()
    world.area.put(f"plans/{old}/actions-00000.ndjson.gz", b"x")
    header = world.area.read(f"plans/{old}/header.json").data
    world.days(100)

    def write() -> None:
        world.area.put(f"plans/{old}/header.json", header + b" ")

    house = world.tidy(ALL, switch=Acting(lambda name: name.startswith("control delete"), write))
    assert house.status == "done" and house.outcome is not None and house.outcome.kept_by_recheck == 1
    names = world.names()
    assert {f"plans/{old}/header.json", f"plans/{old}/actions-00000.ndjson.gz", f"reports/{old}.json"} <= names
    assert any(name.startswith("ledger/") and old in name for name in names)
    world.audited()


def test_everything_is_listed_again_if_another_run_had_the_lease() -> None:
    """Somebody undoes an old run after the listing: its plan stays. The others go, under one lease."""
    world = House()
    world.replace_each(4)
    old = world.expire().run_id
    assert old is not None
    world.days(1)
    others = [world.expiry() for _ in range(2)]
    world.days(100)
    acting = Acting(
        lambda name: name.startswith("control put") and name.endswith("lease.json"), lambda: world.undo(others[-1])
    )
    house = world.tidy(switch=acting)
    assert acting.has_acted and house.status == "done"
    assert set(world.plans()) >= {others[-1]} and not {old, others[0]} & set(world.plans())
    assert {"header.json", "undone.json"} <= {
        name.rpartition("/")[2] for name in world.names() if f"plans/{others[-1]}/" in name
    }
    world.audited()


def test_runs_that_the_lease_names_stay() -> None:
    """A commit of Lakesweep is found by the report of its run."""
    world = House()
    old = world.expiry()
    world.expiry()
    lease = json.loads(world.area.read("lease.json").data)
    lease["commits"] = {"main": {"run_id": old, "id": 1, "uuid": "u", "state": "published"}}
    found = read_with(world, lease)
    world.days(500)
    assert old in found and kept(world.tidy(ALL, execute=False))["report", "named_by_lease"] == 1


def read_with(world: House, lease: dict[str, object]) -> frozenset[str]:
    """Write the lease, and return what it names."""
    world.put_document("lease.json", lease)
    return named_by(read_lease(world.area))
