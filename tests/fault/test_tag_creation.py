"""Making a tag while others take what it is made of: the tag reads completely, or it was not made and is not there.

Two calls take turns, request by request. One makes a tag; the other is an expiry of ours, one as the engine does it
(files first), or takes a tag away.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any

import pytest

from lakesweep.errors import LeaseHeldError, LeaseLostError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import Store, delete_all
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.process import Call, Process
from tests.support.reader import all_roots, read_root
from tests.support.world import World

TAG = "tag/tag-now"


def create(**arguments: Any) -> Call:
    return lambda maintainer: maintainer.run("create-tag", tag="now", **arguments)


def expire(maintainer: Maintainer) -> RunReport:
    return maintainer.expire()


def staged() -> World:
    """Four snapshots of one file each."""
    stage = World()
    stage.replace_each(4)
    return stage


def engine_expires(store: Store) -> Iterator[None]:
    """Expire all but the newest snapshot as the engine does: list tags once, then files, then documents."""
    roots = all_roots(store)
    ids = sorted(int(root.rpartition("-")[2]) for root in roots if root.startswith("snapshot/"))
    going = [f"snapshot/snapshot-{snapshot_id}" for snapshot_id in ids[:-1]]
    needed = {path for root in roots if root not in going for path in read_root(store, root).paths}
    files = {path for root in going for path in read_root(store, root).paths} - needed - set(going)
    yield
    for path in (*sorted(files, key=lambda path: (path.startswith("manifest/"), path)), *going):
        store.delete(delete_all([path]))
        yield


def became_of(stage: World, creation: Process, *, may_warn: bool = False) -> str:
    """Return what became of the tag, which reads completely or is not there."""
    report = creation.report
    assert report is not None, creation.error
    if report.status == "refused":
        assert report.refusal is not None
        assert TAG not in all_roots(stage.store) or report.refusal.code == "tag_exists"
        return report.refusal.code
    assert report.status == "done", report.refusal
    if may_warn and any("files of tag" in warning for warning in report.all_warnings()):
        return "not promised"
    read_root(stage.store, TAG)
    return "done"


SOURCES: list[dict[str, object]] = [{}, {"snapshot": 2}]
CREATION = 9
"""A creation makes no more requests than this."""
SCHEMA = 2
"""The first ones ask for no root, so it is all the same when they are made."""


def cuts(others: int, whole: bool) -> Sequence[int]:
    """Return how far a creation comes before the other acts: each place that it can be at, or two of them by lot."""
    places = range(SCHEMA, CREATION + 1)
    return places if whole else Random(others).sample(places, 2)


def interleavings(
    stage_of: Callable[[], World], first: Call, other: Call, whole: bool
) -> Iterator[tuple[World, Process, Process]]:
    """Let the other come so far and the first so far, for each pair; then the first ends, then the other."""
    requests = 0
    for others in range(1000):
        for own in cuts(others, whole):
            stage = stage_of()
            one, two = Process(stage, first), Process(stage, other)
            one.go(own)
            stage.table.commit("-F4", "+F5")
            stage.now_ms += 3_600_000
            requests = two.go(others)
            one.go()
            two.go()
            yield stage, one, two
        if requests < others:
            return


@pytest.mark.parametrize("whole", [EVERY == 1])
@pytest.mark.parametrize("source", SOURCES)
def test_an_expiry_of_ours_at_every_request(source: dict[str, object], whole: bool) -> None:
    """A commit comes in between, so that what was the newest snapshot when the creation began may go as well."""
    seen: Counter[str] = Counter()
    for stage, creation, expiry in interleavings(staged, create(**source), expire, whole):
        assert expiry.report is not None, expiry.error
        seen[became_of(stage, creation)] += 1
        for root in all_roots(stage.store):
            read_root(stage.store, root)
    assert seen["done"] and seen["snapshot_vanished"], seen
    if source:
        assert seen["snapshot_is_going"], seen


@pytest.mark.parametrize("source", SOURCES)
def test_an_expiry_that_takes_files_first(source: dict[str, object]) -> None:
    """Either the tag reads, or there is none, or the call says that it cannot promise."""
    seen: Counter[str] = Counter()
    for others in range(1000):
        left = 0
        for own in cuts(others, whole=True):
            stage = staged()
            creation = Process(stage, create(**source))
            creation.go(own)
            stage.table.commit("-F4", "+F5")
            engine = engine_expires(stage.store)
            left = len(list(islice(engine, others)))
            creation.go()
            for _ in engine:
                pass
            seen[became_of(stage, creation, may_warn=True)] += 1
        if left < others:
            break
    assert seen["done" if not source else "not promised"] and seen["snapshot_vanished"], seen


def test_a_snapshot_that_stays_the_newest_is_safe_from_any_expiry() -> None:
    """The engine that begins when the tag is there finds it; and nothing is said about promises."""
    for own in range(CREATION + 1):
        stage = staged()
        creation = Process(stage, create())
        creation.go(own)
        engine = engine_expires(stage.store)
        next(engine)
        creation.go()
        assert became_of(stage, creation) == "done"
        assert creation.report is not None
        assert not creation.report.all_warnings()
        stage.table.commit("-F4", "+F5")
        for expiry in (engine, engine_expires(stage.store)):
            for _ in expiry:
                pass
        read_root(stage.store, TAG)


def test_two_creators_of_one_name() -> None:
    """One makes the tag, the other finds it; both want another snapshot."""
    for own in range(CREATION + 1):
        for others in range(CREATION + 1):
            stage = staged()
            one, two = Process(stage, create(snapshot=2)), Process(stage, create())
            one.go(own)
            two.go(others)
            one.go()
            two.go()
            words = sorted((became_of(stage, one), became_of(stage, two)))
            assert words == ["done", "tag_exists"], (own, others)
            winner = one if one.report is not None and one.report.status == "done" else two
            assert json.loads(stage.store.read(TAG).data)["id"] == (2 if winner is one else 4)


def test_two_creators_of_the_same() -> None:
    """Both want the same tag of the same snapshot: the bytes are the same, and still one of them is told."""
    for own in range(CREATION + 1):
        stage = staged()
        one, two = Process(stage, create(snapshot=2)), Process(stage, create(snapshot=2))
        one.go(own)
        two.go()
        one.go()
        assert sorted((became_of(stage, one), became_of(stage, two))) == ["done", "tag_exists"]
        read_root(stage.store, TAG)


@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
@pytest.mark.parametrize("arguments", [{}, {"snapshot": 2}, {"time_retained": "1 d"}])
@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_a_fault_at_every_request(mode: str, arguments: dict[str, Any], operation: str) -> None:
    """What is left is a tag that reads completely, or what was there before; the same call again does the rest."""
    for at in range(1, 20):
        stage = staged()
        if operation == "replace-tag":
            stage.table.tag("now", 1)
        before = stage.store.read(TAG).data if operation == "replace-tag" else None
        stage.switch = Switch(at, mode)
        try:
            report = stage.maintainer().run(operation, tag="now", **arguments)
        except (StorageError, ProcessDeathError) as error:
            died = isinstance(error, ProcessDeathError)
            report = None
        else:
            died = False
        calls, stage.switch = stage.switch.calls, Switch()
        if TAG in all_roots(stage.store):
            read_root(stage.store, TAG)
        else:
            assert before is None
        if not died and (report is None or report.status != "done") and not calls[-1].startswith("control put"):
            assert (stage.store.read(TAG).data if TAG in all_roots(stage.store) else None) == before, calls
        again = stage.maintainer().run(operation, tag="now", **arguments)
        assert again.status in ("done", "nothing_to_do") or (
            again.refusal is not None and again.refusal.code == "tag_exists"
        )
        read_root(stage.store, TAG)
        if len(calls) < at:
            assert report is not None
            assert report.status == "done"
            return
    raise AssertionError("expected fewer requests")


@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_a_stored_plan_that_is_carried_out_again(operation: str) -> None:
    """Whoever has died over it says so to nobody: the next one finds its tag, and ends the plan."""
    for at in range(1, 20):
        stage = staged()
        if operation == "replace-tag":
            stage.table.tag("now", 1)
        plan = stage.maintainer().run(operation, execute=False, tag="now", snapshot=2, time_retained="1 d").plan
        assert plan is not None
        stage.switch = Switch(at, "death")
        with suppress(ProcessDeathError):
            stage.maintainer().execute(plan.header.plan_id)
        calls, stage.switch = stage.switch.calls, Switch()
        report = stage.maintainer().execute(plan.header.plan_id)
        assert report.status == ("nothing_to_do" if len(calls) < at else "done")
        assert stage.maintainer().execute(plan.header.plan_id).status == "nothing_to_do"
        assert read_root(stage.store, TAG).document["id"] == 2
        if len(calls) < at:
            return
    raise AssertionError("expected fewer requests")


def with_a_tag_of_what_expired() -> World:
    """Snapshot 2 has expired, and tag `old` holds it."""
    stage = staged()
    stage.table.tag("old", 2)
    assert stage.maintainer().expire().status == "done"
    stage.switch = Switch()
    return stage


@pytest.mark.parametrize("whole", [EVERY == 1])
@pytest.mark.parametrize(
    ("source", "operation"),
    [({"from_tag": "old"}, "delete-tag"), ({"snapshot": 2}, "delete-tag"), ({"from_tag": "old"}, "rename-tag")],
)
def test_the_tag_that_it_is_made_of_goes(source: dict[str, object], operation: str, whole: bool) -> None:
    """The files of the snapshot go with its last tag, so a new one comes in time, or not at all."""
    arguments = {"target_tag": "new"} if operation == "rename-tag" else {}

    def leave(maintainer: Maintainer) -> RunReport:
        return maintainer.run(operation, tag="old", **arguments)

    seen: Counter[str] = Counter()
    for stage, creation, leaving in interleavings(with_a_tag_of_what_expired, create(**source), leave, whole):
        assert leaving.report is not None, leaving.error
        assert leaving.report.status in ("done", "nothing_to_do", "stale"), leaving.report.refusal
        seen[became_of(stage, creation)] += 1
        for root in all_roots(stage.store):
            read_root(stage.store, root)
    assert seen["done"] and seen["snapshot_vanished"], seen


@pytest.mark.parametrize("whole", [EVERY == 1])
def test_replacing_while_an_expiry_runs(whole: bool) -> None:
    """A tag that is replaced reads at every moment: as what it was, or as what it is."""

    def replaced() -> World:
        stage = staged()
        stage.table.tag("now", 1)
        return stage

    def replace(maintainer: Maintainer) -> RunReport:
        return maintainer.run("replace-tag", tag="now", snapshot=2)

    seen: Counter[str] = Counter()
    for stage, replacing, expiry in interleavings(replaced, replace, expire, whole):
        assert expiry.report is not None, expiry.error
        report = replacing.report
        assert report is not None, replacing.error
        seen[report.refusal.code if report.refusal else report.status] += 1
        for root in all_roots(stage.store):
            read_root(stage.store, root)
        assert json.loads(stage.store.read(TAG).data)["id"] == (2 if report.status == "done" else 1)
    assert seen["done"] and len(seen) > 1, seen


def test_a_run_that_died_over_the_last_tags_of_a_snapshot() -> None:
    """Two tags hold snapshot 2, and a run that removes both dies: nobody makes a third of the one that is left."""
    codes: Counter[str] = Counter()
    for at in range(1, 100):
        stage = staged()
        stage.table.tag("old", 2)
        stage.table.tag("other", 2)
        assert stage.maintainer().expire().status == "done"
        stage.switch = Switch(at, "death")
        try:
            stage.maintainer().run("delete-tag", tag=["old", "other"])
        except ProcessDeathError:
            pass
        else:
            break
        stage.switch = Switch()
        report = stage.maintainer().run("create-tag", tag="now", from_tag="other")
        codes[report.refusal.code if report.refusal else report.status] += 1
        stage.wait()
        stage.maintainer().maintain()
        for root in all_roots(stage.store):
            read_root(stage.store, root)
        assert (TAG in all_roots(stage.store)) == (report.status == "done")
    assert codes["snapshot_is_going"] and codes["no_such_tag"] and codes["done"], codes


@pytest.mark.parametrize("seed", range(60))
def test_several_at_once(seed: int) -> None:
    """Makers of tags, an expiry and whoever takes a tag away, in any order."""
    random = Random(seed)
    stage = with_a_tag_of_what_expired() if random.random() < 0.5 else staged()
    if TAG not in all_roots(stage.store) and random.random() < 0.3:
        stage.table.tag("now", 4)
    there = [ref.rpartition("tag-")[2] for ref in all_roots(stage.store) if ref.startswith("tag/")]
    calls: list[Call] = [create(**random.choice(SOURCES))]
    calls.append(lambda maintainer: maintainer.run("create-tag", tag="second", snapshot=random.choice((2, 3, 4))))
    for name in there:
        calls.append(lambda maintainer, name=name: maintainer.run("create-tag", tag="third", from_tag=name))
        calls.append(lambda maintainer, name=name: maintainer.run("delete-tag", tag=name))
        calls.append(lambda maintainer, name=name: maintainer.run("rename-tag", tag=name, target_tag="fourth"))
        calls.append(lambda maintainer, name=name: maintainer.run("replace-tag", tag=name))
    calls = random.sample(calls, min(3, len(calls)))
    processes = [Process(stage, call) for call in (expire, *calls)]
    going = list(processes)
    while going:
        if random.random() < 0.05:
            stage.table.commit(f"+G{random.randrange(1 << 60)}")
            stage.now_ms += 3_600_000
        process = random.choice(going)
        wanted = random.choice((1, 1, 2, 5, 20))
        if process.go(wanted) < wanted:
            going.remove(process)
    for process in processes:
        assert process.report is not None or isinstance(process.error, LeaseHeldError | LeaseLostError), process.error
    for root in all_roots(stage.store):
        read_root(stage.store, root)


def test_a_write_that_fails_over_another_tag() -> None:
    """What is there is somebody else's, so the call fails and leaves it."""
    stage = staged()
    stage.table.tag("now", 1)
    before = stage.store.read(TAG)
    stage.switch = Switch(5, "before")
    with pytest.raises(StorageError, match="broken on purpose"):
        stage.maintainer().run("create-tag", tag="now")
    assert stage.switch.calls[4:] == [f"table put {TAG}", f"table read {TAG}"]
    assert stage.store.read(TAG) == before


def test_a_report_that_cannot_be_written() -> None:
    """The tag stands, and the sentence says so."""
    stage = staged()
    stage.switch = Switch(7, "before")
    with pytest.raises(
        StorageError, match=r"tag/tag-now is written and kept; the report of run .* could not be written"
    ):
        stage.maintainer().run("create-tag", tag="now")
    read_root(stage.store, TAG)
