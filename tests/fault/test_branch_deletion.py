"""Deleting a branch while others use it, and dying over it: it goes whole, or it stays and reads.

What others do to main or to other branches is no reason to stop, and none of their roots comes to harm.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lakesweep.errors import LeaseHeldError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import delete_all
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.process import Call, Process
from tests.support.reader import all_roots, read_root
from tests.support.world import World

FOLDER = "branch/branch-b/"


def delete(maintainer: Maintainer) -> RunReport:
    return maintainer.run("delete-branch", branch="b")


def run(operation: str, **arguments: Any) -> Call:
    return lambda maintainer: maintainer.run(operation, **arguments)


def on_branch(operation: str, **arguments: Any) -> Call:
    def call(maintainer: Maintainer) -> RunReport:
        maintainer.branch = "b"
        return maintainer.run(operation, **arguments)

    return call


def staged() -> World:
    """A branch with two commits of its own, beside another one that shares a file with it."""
    stage = World(options={"write-only": "true", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    stage.replace_each(3)
    stage.table.tag("t", 2)
    branch = stage.table.branch("b", from_tag="t")
    branch.commit("+G")
    branch.commit("-F2", "+H")
    branch.hint("LATEST", 4)
    stage.table.branch("other", from_tag="t").commit("+I")
    stage.now_ms += 7 * 86_400_000
    return stage


def documents(stage: World) -> dict[str, bytes]:
    return {entry.key.removeprefix(FOLDER): stage.store.read(entry.key).data for entry in stage.store.list(FOLDER)}


def assert_all_read(stage: World) -> None:
    """Read every root; the reader asks the branch's schema, which goes last."""
    left = documents(stage)
    is_half = bool(left) and "schema/schema-0" not in left
    lent = f"{FOLDER}schema/schema-0"
    if is_half:
        stage.store.put(lent, stage.store.read("schema/schema-0").data)
    for root in all_roots(stage.store):
        read_root(stage.store, root)
    if is_half:
        stage.store.delete(delete_all([lent]))


def later(stage: World, call: Call) -> RunReport:
    """Let a later run do something, after finishing what was left."""
    stage.wait()
    stage.switch = Switch()
    return call(stage.maintainer())


def places(stage_of: Callable[[], World]) -> range:
    return range(0, Process(stage_of(), delete).go() + 1, EVERY)


def became_of(stage: World, deletion: Process, before: dict[str, bytes]) -> str:
    """Return what became of the branch: it is gone, or has all that it had."""
    if isinstance(deletion.error, LeaseHeldError):
        assert before.items() <= documents(stage).items()
        return "lease_held"
    report = deletion.report
    assert report is not None, deletion.error
    if report.status == "done":
        return "done"
    assert report.status in ("stale", "refused"), report.refusal
    assert report.refusal is not None
    hints = {key: body for key, body in before.items() if key.endswith("LATEST")}
    assert before.items() - hints.items() <= documents(stage).items(), report.refusal
    return report.refusal.code


def saw(deletion: Process, snapshot_id: int) -> bool:
    """Tell whether the plan takes a snapshot that a test committed."""
    plan = deletion.report and deletion.report.plan
    return bool(plan) and any(d.path.endswith(f"snapshot-{snapshot_id}") for d in plan.deletes)


def test_a_commit_to_the_branch_at_every_request() -> None:
    """Up to the last look it stands on a history that is whole again; after that its writer was not stopped in time."""
    seen: Counter[str] = Counter()
    for at in places(staged):
        stage = staged()
        before = documents(stage)
        deletion = Process(stage, delete)
        deletion.go(at)
        rest = documents(stage)
        stage.table.on_branch("b").commit("+J")
        deletion.go()
        word = became_of(stage, deletion, before)
        seen[word] += 1
        assert word != "done" or rest == {} or saw(deletion, 5), at
        assert_all_read(stage)
    assert seen["done"], seen
    assert seen["stale"] > len(places(staged)) // 2, seen


def test_a_writer_that_lists_at_every_request() -> None:
    """One that finds the newest snapshot by listing commits on the half-way history; that is what stands then."""
    seen: Counter[str] = Counter()
    for at in places(staged):
        stage = staged()
        deletion = Process(stage, delete)
        deletion.go(at)
        there = [int(key.rpartition("-")[2]) for key in documents(stage) if key.startswith("snapshot/snapshot-")]
        if not there:
            continue
        copy = stage.table.on_branch("b")
        newest = copy.document(f"{FOLDER}snapshot/snapshot-{max(there)}")
        if max(there) < 4:  # it is built on what it found
            lost = [f"{FOLDER}snapshot/snapshot-{number}" for number in range(max(there) + 1, 5)]
            for path in lost:
                copy.remove(path)
        assert newest["id"] == max(there)
        copy.commit("+J")
        deletion.go()
        report = deletion.report
        assert report is not None, deletion.error
        if report.status == "done":
            assert max(there) == 4
            assert saw(deletion, 5)
            continue
        assert report.status == "stale", report.status
        seen["stale"] += 1
        ids = sorted(int(key.rpartition("-")[2]) for key in documents(stage) if key.startswith("snapshot/snapshot-"))
        assert ids == list(range(2, max(there) + 2)), (at, ids)
        assert "schema/schema-0" in documents(stage)
        assert_all_read(stage)
    assert seen["stale"] > 40 // EVERY, seen


@pytest.mark.parametrize(
    "call",
    [
        on_branch("create-tag", tag="mine"),
        on_branch("create-tag", tag="mine", snapshot=3),
        on_branch("delete-tag", tag="t"),
        on_branch("expire-snapshots", retain_max=1, retain_min=1),
        on_branch("rollback", snapshot=3),
        run("fast-forward", branch="b"),
        run("create-branch", branch="b", tag="t"),
    ],
    ids=["tag", "old tag", "delete tag", "expiry", "rollback", "fast-forward", "create"],
)
def test_others_use_the_branch(call: Call) -> None:
    """Whoever comes second finds the lease held, or the branch gone; nothing is left half done."""
    seen: Counter[str] = Counter()
    for at in list(places(staged))[:: 2 * EVERY - 1]:
        stage = staged()
        before = documents(stage)
        deletion, other = Process(stage, delete), Process(stage, call)
        deletion.go(at)
        other.go()
        deletion.go()
        assert other.report is not None or isinstance(other.error, LeaseHeldError), other.error
        changed = other.report is not None and other.report.status == "done"
        word = became_of(stage, deletion, {} if changed else before)
        seen[word] += 1
        if word == "done" and not changed:
            assert documents(stage) == {}
        assert_all_read(stage)
        later(stage, run("expire-snapshots", retain_max=1, retain_min=1))
        assert_all_read(stage)
    assert seen["done"], seen


@pytest.mark.parametrize(
    "call",
    [
        run("expire-snapshots", retain_max=1, retain_min=1),
        run("remove-orphan-files"),
        run("create-tag", tag="mine"),
        run("delete-tag", tag="t"),
    ],
    ids=["expiry", "orphans", "tag", "delete tag"],
)
def test_others_use_main(call: Call) -> None:
    """A commit to main, an expiry, a scan: the branch goes, and what it needs stays until then."""
    for at in list(places(staged))[:: 2 * EVERY - 1]:
        stage = staged()
        deletion, other = Process(stage, delete), Process(stage, call)
        deletion.go(at)
        stage.table.commit("-F3", "+K")
        other.go()
        deletion.go()
        assert other.report is not None or isinstance(other.error, LeaseHeldError), other.error
        assert deletion.report is not None, deletion.error
        assert deletion.report.status == "done", deletion.report.refusal
        assert documents(stage) == {}
        assert_all_read(stage)


@pytest.mark.parametrize("mode", ["death", "death_after"])
def test_a_run_that_dies(mode: str) -> None:
    """The next run, whichever it is, ends what was begun; until then each root that is left reads."""
    nexts: list[Call] = [
        run("expire-snapshots", retain_max=1, retain_min=1),
        run("remove-orphan-files"),
        run("delete-tag", tag="t"),
        run("maintain"),
        delete,
    ]
    for at in range(1, 200, EVERY):
        stage = staged()
        before = documents(stage)
        stage.switch = Switch(at, mode)
        calls = stage.switch.calls
        with suppress(ProcessDeathError):
            delete(stage.maintainer())
        assert_all_read(stage)
        stage.switch = Switch()
        # A branch that is half deleted has a schema and no snapshot.
        scanned = run("remove-orphan-files", execute=False, no_history="it is being deleted")(stage.maintainer())
        assert scanned.status in ("planned", "nothing_to_do"), scanned.refusal
        if len(calls) < at:
            return
        report = later(stage, nexts[at // EVERY % len(nexts)])
        assert report.status in ("done", "nothing_to_do") or report.refusal is not None, report.refusal
        assert documents(stage) in ({}, before)
        assert_all_read(stage)
        later(stage, delete)
        assert documents(stage) == {}
        later(stage, nexts[0])
        assert_all_read(stage)
    raise AssertionError("expected fewer requests")


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_fault_at_every_request(mode: str) -> None:
    """The call fails, and the same call again ends it."""
    for at in range(1, 200, EVERY):
        stage = staged()
        stage.switch = Switch(at, mode)
        calls = stage.switch.calls
        with suppress(StorageError):
            delete(stage.maintainer())
        if len(calls) < at:
            assert documents(stage) == {}
            return
        assert_all_read(stage)
        later(stage, delete)
        assert documents(stage) == {}, calls[-1]
        assert_all_read(stage)
    raise AssertionError("expected fewer requests")


def test_a_pass_over_all_branches_after_a_death() -> None:
    """It finishes the deletion in the turn of main, and the branch that it listed before has no turn then."""
    for at in range(10, 60, 3 * EVERY):
        stage = staged()
        stage.switch = Switch(at, "death")
        with suppress(ProcessDeathError):
            delete(stage.maintainer())
        report = later(stage, run("maintain", all_branches=True))
        assert report.status in ("done", "nothing_to_do"), (at, report.refusal)
        assert_all_read(stage)


def test_an_undo_and_a_scan_at_once() -> None:
    """A scan takes what only the branch held, an undo brings the branch back: it comes whole, or not at all."""
    seen: Counter[str] = Counter()

    def gone() -> tuple[World, Call]:
        stage = staged()
        report = delete(stage.maintainer())
        assert report.status == "done"
        stage.now_ms += 7 * 86_400_000
        return stage, run("undo", run_id=report.run_id)

    stage, undo = gone()
    requests = Process(stage, undo).go()
    scans = Process(gone()[0], run("remove-orphan-files")).go()
    for at, other in [(at, scans) for at in range(0, requests + 1, 2 * EVERY)] + [
        (requests, at) for at in range(0, scans + 1, 2 * EVERY)
    ]:
        stage, undo = gone()
        one, two = Process(stage, undo), Process(stage, run("remove-orphan-files"))
        if other < scans:
            two.go(other)
            one.go()
            two.go()
        else:
            one.go(at)
            two.go()
            one.go()
        assert two.report is not None or isinstance(two.error, LeaseHeldError), two.error
        if one.report is None:
            assert isinstance(one.error, LeaseHeldError), one.error
            seen["lease_held"] += 1
        else:
            seen[one.report.status] += 1
            if one.report.status == "done":
                assert "snapshot/snapshot-4" in documents(stage)
            else:
                assert documents(stage) == {}
        assert_all_read(stage)
        later(stage, run("remove-orphan-files"))
        assert_all_read(stage)
    assert seen["done"] and seen["refused"] + seen["stale"], seen
