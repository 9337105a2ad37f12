"""Runs that moved a branch are undone: all is as it was, and on the way each prefix is a table that reads."""

from contextlib import suppress

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.reports import undone_by
from lakesweep.errors import MaintenanceError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.store import DeleteRequest
from lakesweep.table.discover import discover
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.fast_forwards import Onlooker, apply
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.reader import read_all, read_root
from tests.support.undo_moves import CASES, MovedWorld

BREAKS = (
    *((name, "death") for name in ("rollback_to_expired", "create_from_tag", "delete", "forward_rebuilt_shorter")),
    *((name, "death_after") for name in ("rollback", "forward_far_behind")),
    *((name, "before") for name in ("forward_altered_once", "rollback_to_expired")),
    *((name, "after") for name in ("rollback", "forward_far_behind")),
)


def runs_of(name: str) -> tuple[MovedWorld, str] | None:
    """Return a table on which the operation was run, `None` where there is nothing to do or it is refused."""
    world = MovedWorld(name)
    report = world.maintainer().run(world.case.operation, **world.case.arguments)
    if report.status != "done":
        assert name.startswith("forward_"), report
        return None
    assert report.run_id is not None
    return world, report.run_id


@pytest.mark.parametrize("name", CASES)
def test_all_is_as_it_was(name: str) -> None:
    """Every document says what it said; a second undo has nothing to do, and an undo is not undone itself."""
    found = runs_of(name)
    if found is None:
        return
    world, run_id = found
    after = world.documents()
    assert after != world.before
    dry = world.undo(run_id, execute=False)
    assert (dry.status, dry.operation) == ("planned", "undo"), dry
    assert world.documents() == after
    report = world.undo(run_id)
    assert (report.status, report.refusal) == ("done", None)
    assert world.documents() == world.before
    read_all(world.store)
    again = world.undo(run_id)
    assert (again.status, "findings" in again.to_json()) == ("nothing_to_do", False)
    assert report.run_id is not None
    world.check_refused(report.run_id, "not_undoable", "it is an undo")
    assert world.move() != run_id
    assert world.documents() == after


def test_what_must_be_whole_at_the_end_is_the_newest_snapshot_and_the_tags() -> None:
    """Older snapshots may expire while an undo is under way."""
    world = MovedWorld("rollback")
    plan = world.undo(world.move(), execute=False).plan
    assert plan is not None
    assert plan.header.steering.complete_roots == ("snapshot/snapshot-8", "tag/tag-seven", "tag/tag-eight")


@pytest.mark.parametrize("name", CASES)
def test_every_prefix_of_the_way_back_is_a_table_that_reads(name: str) -> None:
    """Wherever it stops, each root reads, and main has a snapshot if it had one before."""
    found = runs_of(name)
    if found is None:
        return
    world, run_id = found
    onlooker = Onlooker(world.store)
    onlooker.know(world.before)
    dry = world.undo(run_id, execute=False)
    assert dry.plan is not None
    onlooker.had_snapshots = any(path.startswith("snapshot/snapshot-") for path in world.before)
    for _ in apply(world.store, dry.plan.actions):
        if world.case.operation == "fast-forward":
            onlooker.look()
        read_all(world.store)
        if onlooker.had_snapshots:
            assert any(path.startswith("snapshot/snapshot-") for path in world.documents())
    assert world.documents() == world.before


@pytest.mark.parametrize(("name", "mode"), BREAKS)
def test_an_undo_may_break_at_any_call(name: str, mode: str) -> None:
    """All roots read, and the same undo, asked for again, does the rest."""
    probe = MovedWorld(name)
    switch = Switch()
    assert probe.undo(probe.move(), switch=switch).status == "done"
    for number in range(1, len(switch.calls) + 1, EVERY * EVERY):
        world = MovedWorld(name)
        run_id = world.move()
        with suppress(ProcessDeathError, MaintenanceError):
            world.undo(run_id, switch=Switch(number, mode))
        read_all(world.store)
        world.now_ms += LEASE_MS + DELETE_MARGIN_MS
        report = world.undo(run_id)
        assert report.status in ("done", "nothing_to_do"), (number, switch.calls[number - 1], report)
        assert world.documents() == world.before, (number, switch.calls[number - 1])


@pytest.mark.parametrize("name", ["rollback", "delete", "forward_rebuilt_shorter"])
def test_the_next_run_finishes_an_undo(name: str) -> None:
    """Whatever it is: an expiry finds the intent first."""
    probe = MovedWorld(name)
    switch = Switch()
    after: dict[str, bytes] = {}
    run_id = probe.move()
    after = probe.documents()
    assert probe.undo(run_id, switch=switch).status == "done"
    for number in range(1, len(switch.calls) + 1, EVERY * EVERY):
        world = MovedWorld(name)
        run_id = world.move()
        with suppress(ProcessDeathError):
            world.undo(run_id, switch=Switch(number, "death"))
        world.now_ms += LEASE_MS + DELETE_MARGIN_MS
        world.maintainer().expire(retain_max=100, retain_min=100)
        assert world.documents() in (after, world.before), (number, switch.calls[number - 1])
        assert world.undo(run_id).status in ("done", "nothing_to_do")
        assert world.documents() == world.before


@pytest.mark.parametrize("name", ["rollback", "rollback_to_expired", "forward_diverged", "forward_far_behind"])
def test_a_commit_since_then_stays(name: str) -> None:
    """It stands on what the run left, so nothing is undone under it."""
    world = MovedWorld(name)
    run_id = world.move()
    newest = max(int(path.rpartition("-")[2]) for path in world.documents() if path.startswith("snapshot/snapshot-"))
    body = world.store.read(f"snapshot/snapshot-{newest}").data
    world.store.put(f"snapshot/snapshot-{newest + 1}", body.replace(b'"id": %d' % newest, b'"id": %d' % (newest + 1)))
    code = "id_reused" if f"snapshot/snapshot-{newest + 1}" in world.before else "committed_since"
    world.check_refused(run_id, code, f"snapshot/snapshot-{newest + 1}")


def test_a_later_rollback_is_undone_first() -> None:
    """What the first one left is gone then; when the second one is undone, the first one can be."""
    world = MovedWorld("rollback")
    first = world.move()
    report = world.maintainer().run("rollback", snapshot=3)
    assert report.run_id is not None
    world.check_refused(first, "rolled_back", "no longer exists. Undo the run that deleted it first")
    assert world.undo(report.run_id).status == "done"
    assert world.undo(first).status == "done"
    assert world.documents() == world.before


def test_old_snapshots_may_have_expired_since() -> None:
    """What the rollback left at the front is nothing that the way back needs."""
    world = MovedWorld("rollback")
    run_id = world.move()
    assert world.maintainer().expire(retain_max=2, retain_min=1).status == "done"
    assert world.undo(run_id).status == "done"
    read_all(world.store)
    ids = {int(path.rpartition("-")[2]) for path in world.documents() if path.startswith("snapshot/snapshot-")}
    assert ids == {5, 6, 7, 8}


def test_a_file_that_is_gone_is_named() -> None:
    """The orphan scan took it, say. So does a manifest or a schema that is gone keep all as it is."""
    for path_of in (
        lambda world: world.table.path("A7"),
        lambda world: f"manifest/{world.table.document(world.table.root(7))['deltaManifestList']}",
    ):
        world = MovedWorld("rollback")
        path = path_of(world)
        run_id = world.move()
        world.store.delete([DeleteRequest(path)])
        world.check_refused(run_id, "would_stay_absent", path)


def test_a_schema_that_is_gone_is_named() -> None:
    """A snapshot without its schema is one that nobody reads."""
    world = MovedWorld("forward_altered_once")
    run_id = world.move()
    world.store.delete([DeleteRequest("schema/schema-0")])
    world.check_refused(run_id, "would_stay_absent", "schema/schema-0")


def test_a_tag_that_has_the_name_stays() -> None:
    """Somebody has made it since."""
    world = MovedWorld("rollback")
    run_id = world.move()
    world.store.put("tag/tag-eight", world.store.read("tag/tag-four").data)
    world.check_refused(run_id, "tag_exists", "tag/tag-eight is another tag now; expected none there")


def test_a_tag_that_is_back_is_no_matter() -> None:
    """Somebody has put back the very same one."""
    world = MovedWorld("rollback")
    run_id = world.move()
    world.store.put("tag/tag-eight", world.before["tag/tag-eight"])
    assert world.undo(run_id).status == "done"
    assert world.documents() == world.before


def test_a_new_branch_that_was_written_to_stays() -> None:
    """A commit, a tag or a consumer would go with it."""
    for path in ("snapshot/snapshot-5", "tag/tag-x", "consumer/consumer-c", "snapshot/LATEST"):
        world = MovedWorld("create_from_tag")
        run_id = world.move()
        world.store.put(f"branch/branch-n/{path}", world.store.read("snapshot/snapshot-5").data)
        world.check_refused(run_id, "committed_since", f"branch/branch-n/{path}")


def test_a_new_branch_that_others_read_stays() -> None:
    """Main falls back to it."""
    world = MovedWorld("create_empty")
    run_id = world.move()
    world.table.alter(options={"scan.fallback-branch": "n"})
    world.check_refused(run_id, "branch_in_use", "scan.fallback-branch")


def test_a_branch_of_the_name_of_a_deleted_one_stays() -> None:
    """Nothing of the deleted one returns into it."""
    world = MovedWorld("delete")
    run_id = world.move()
    world.store.put("branch/branch-b/schema/schema-0", world.store.read("schema/schema-1").data)
    world.check_refused(run_id, "id_reused", "branch/branch-b/schema/schema-0")
    world.store.delete([DeleteRequest("branch/branch-b/schema/schema-0")])
    world.store.put("branch/branch-b/schema/schema-7", world.store.read("schema/schema-1").data)
    world.check_refused(run_id, "branch_exists", "branch/branch-b/schema/schema-7")


def test_a_run_that_died_is_finished_before_it_is_undone() -> None:
    """Until then nobody knows what there is to undo."""
    probe = MovedWorld("rollback")
    switch = Switch()
    probe.maintainer(switch).run("rollback", snapshot=5)
    last = max(n for n, call in enumerate(switch.calls, 1) if call.startswith("table delete"))
    world = MovedWorld("rollback")
    with suppress(ProcessDeathError):
        world.maintainer(Switch(last, "death")).run("rollback", snapshot=5)
    world.now_ms += LEASE_MS + DELETE_MARGIN_MS
    begun = ControlArea(world.control, world.store.location)
    intent = read_lease(begun).intent
    assert intent is not None
    world.check_refused(intent.runs[0], "run_unfinished", "has not ended")
    world.maintainer().expire(retain_max=100, retain_min=100)
    report = world.undo(intent.runs[0])
    assert report.status == "done", report.refusal
    assert world.documents() == world.before


def test_who_carries_the_way_back_out_does_not_matter() -> None:
    """Its stored plan is executed, and the run is known to be undone: its own plan is not carried out again."""
    world = MovedWorld("rollback")
    run_id = world.move()
    planned = world.undo(run_id, execute=False)
    assert planned.plan is not None
    done = world.maintainer().execute(planned.plan.header.plan_id)
    assert done.status == "done"
    assert world.documents() == world.before
    assert undone_by(ControlArea(world.control, world.store.location), run_id) == done.run_id
    again = world.maintainer().execute(run_id)
    assert again.refusal is not None
    assert again.refusal.code == "plan_undone"
    assert world.documents() == world.before


def test_an_undo_that_another_operation_finishes_is_known() -> None:
    """The process that began it died before its last request; the next pass goes on with it."""
    probe = MovedWorld("rollback")
    switch = Switch()
    probe.undo(probe.move(), switch=switch)
    last = max(n for n, call in enumerate(switch.calls, 1) if call.startswith("table put"))
    world = MovedWorld("rollback")
    run_id = world.move()
    with suppress(ProcessDeathError):
        world.undo(run_id, switch=Switch(last, "death"))
    area = ControlArea(world.control, world.store.location)
    assert undone_by(area, run_id) is None
    world.now_ms += LEASE_MS + DELETE_MARGIN_MS
    world.maintainer().expire(retain_max=100, retain_min=100)
    assert undone_by(area, run_id) is not None
    assert world.documents() == world.before


def test_a_rollback_that_ended_stale_is_not_undone() -> None:
    """What it had begun was taken back."""
    world = MovedWorld("rollback")
    dry = world.maintainer().run("rollback", execute=False, snapshot=5)
    assert dry.plan is not None
    world.store.put("snapshot/snapshot-9", world.store.read("snapshot/snapshot-8").data.replace(b'"id": 8', b'"id": 9'))
    stale = world.maintainer().execute(dry.plan.header.plan_id)
    assert (stale.status, stale.run_id is None) == ("stale", False)
    assert stale.run_id is not None
    world.check_refused(stale.run_id, "plan_stale", "ended stale")


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        ("rollback", ""),
        ("rollback_to_expired", ""),
        ("forward_diverged", ""),
        ("delete", "b"),
        ("create_from_tag", "n"),
    ],
)
def test_a_commit_at_any_request_is_kept(name: str, branch: str) -> None:
    """Wherever a writer gets in between, its snapshot stays on a history without a hole that reads."""
    probe = MovedWorld(name)
    switch = Switch()
    assert probe.undo(probe.move(), switch=switch).status == "done"
    folder = f"branch/branch-{branch}/" if branch else ""
    for number in range(1, len(switch.calls) + 1, EVERY * EVERY):
        world = MovedWorld(name)
        run_id = world.move()
        committed: list[int | None] = []

        def commit(world: MovedWorld = world, committed: list[int | None] = committed) -> None:
            committed.append(world.commit(folder))

        report = world.undo(run_id, switch=Acting(number, commit))
        where = (number, switch.calls[number - 1], report)
        assert report.status in ("done", "stale", "refused"), where
        read_all(world.store)
        found = discover(world.store).branches.get(branch or "main")
        ids = [ref.id for ref in found.snapshots] if found else []
        if committed[0] is not None:
            assert [each for each in ids if each >= committed[0]] == [committed[0]], where


def test_an_orphan_plan_of_before_takes_nothing_that_is_back() -> None:
    """It was made when nothing named those files."""
    world = MovedWorld("rollback")
    run_id = world.move()
    world.now_ms += 3 * 86_400_000
    dry = world.maintainer().run("remove-orphan-files", execute=False)
    assert dry.plan is not None
    assert not dry.plan.is_empty
    assert world.undo(run_id).status == "done"
    plan_id = dry.plan.header.plan_id
    world.maintainer().execute(plan_id, confirm=plan_id)
    assert world.documents() == world.before
    read_all(world.store)


def test_what_an_orphan_scan_took_is_missed() -> None:
    """Then nothing comes back at all."""
    world = MovedWorld("rollback")
    run_id = world.move()
    world.now_ms += 3 * 86_400_000
    dry = world.maintainer().run("remove-orphan-files", execute=False)
    assert dry.plan is not None
    plan_id = dry.plan.header.plan_id
    assert world.maintainer().execute(plan_id, confirm=plan_id).status == "done"
    world.check_refused(run_id, "would_stay_absent", "the returning roots have lost")


def test_a_damaged_document_does_not_come_back() -> None:
    """It went with the rollback, which may have been run for just that."""
    world = MovedWorld("rollback")
    world.store.put("snapshot/snapshot-7", b"{")
    run_id = world.move()
    world.check_refused(run_id, "would_stay_absent", "snapshot/snapshot-7")


@pytest.mark.parametrize("name", ["forward_ahead", "forward_diverged"])
def test_a_run_that_died_among_the_snapshots_that_it_writes_goes_on(name: str) -> None:
    """Its newest snapshot is not there yet, which does not mean that somebody has taken it away."""
    probe = MovedWorld(name)
    probe.move()
    after = probe.documents()
    switch = Switch()
    MovedWorld(name).maintainer(switch).run("fast-forward", branch="b")
    puts = [number for number, call in enumerate(switch.calls, 1) if call.startswith("table put snapshot/snapshot-")]
    for number in puts:
        world = MovedWorld(name)
        with suppress(ProcessDeathError):
            world.maintainer(Switch(number, "death")).run("fast-forward", branch="b")
        world.now_ms += LEASE_MS + DELETE_MARGIN_MS
        world.maintainer().expire(retain_max=100, retain_min=100)
        assert world.documents() == after, number


@pytest.mark.parametrize("name", ["rollback", "rollback_to_expired"])
def test_an_expiry_of_the_engine_at_any_request_leaves_a_snapshot_that_reads(name: str) -> None:
    """It asks for no lease, and takes all but the newest snapshot that it sees; nothing is taken back below that."""
    probe = MovedWorld(name)
    switch = Switch()
    assert probe.undo(probe.move(), switch=switch).status == "done"
    for number in range(1, len(switch.calls) + 1, EVERY * EVERY):
        world = MovedWorld(name)
        run_id = world.move()

        def expire(world: MovedWorld = world) -> None:
            ids = [ref.id for ref in discover(world.store).branches["main"].snapshots]
            live = world.table.live("main", ids[-1])
            tagged = [ref.name for ref in discover(world.store).branches["main"].tags]
            needed = live.union(*(world.table.live("main", tag) for tag in tagged))
            gone = [*world.table.live("main", ids[0]).union(*(world.table.live("main", i) for i in ids)) - needed]
            gone += [world.table.root(i) for i in ids[:-1]]
            world.store.delete([DeleteRequest(path) for path in gone])

        report = world.undo(run_id, switch=Acting(number, expire))
        ids = [ref.id for ref in discover(world.store).branches["main"].snapshots]
        assert ids, (number, switch.calls[number - 1], report)
        read_root(world.store, f"snapshot/snapshot-{ids[-1]}")


def test_a_dry_run_says_what_is_finished_first() -> None:
    """A rollback died; whoever executes the next one finishes it, and less is left to do then than was planned."""
    switch = Switch()
    probe = MovedWorld("rollback")
    probe.maintainer(switch).run("rollback", snapshot=5)
    world = MovedWorld("rollback")
    with suppress(ProcessDeathError):
        died = Switch(switch.calls.index("table delete 1") + 1, "death_after")
        world.maintainer(died).run("rollback", snapshot=5)
    intent = read_lease(ControlArea(world.control, world.store.location)).intent
    assert intent is not None
    said = world.maintainer().run("rollback", execute=False, snapshot=1).all_warnings()
    begun = f"plan {intent.plan_id}, which run {intent.runs[-1]} began, has not ended: "
    assert [begun in warning for warning in said].count(True) == 1
    said = probe.maintainer().run("rollback", execute=False, snapshot=1).all_warnings()
    assert not any("has not ended" in warning for warning in said)


def test_what_no_listing_shows_may_be_gone_when_an_undo_goes_on() -> None:
    """A run dies when it has put a tag's success file back; somebody removes that, and somebody commits on top."""
    probe, world = MovedWorld("rollback"), MovedWorld("rollback")
    switch = Switch()
    probe.undo(probe.move(), switch=switch)
    end = probe.documents()
    path = next(path for path in end if path.startswith("tag/tag-success-file/"))
    run_id = world.move()
    with suppress(ProcessDeathError):
        world.undo(run_id, switch=Switch(switch.calls.index(f"table put {path}") + 1, "death_after"))
    world.store.delete([DeleteRequest(path)])
    assert world.commit() == 9
    world.now_ms += LEASE_MS + DELETE_MARGIN_MS
    world.maintainer().run("delete-tag", tag="nothing")
    assert end.keys() <= world.documents().keys()
