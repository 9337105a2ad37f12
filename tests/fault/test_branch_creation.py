"""Making a branch while others take what it is made of: it reads completely, or it was not made and is not there.

Two calls take turns, request by request. One makes a branch; the other is an expiry of ours, one as the engine does it
(files first), takes a tag away, scans for orphan files, or moves main. Whoever finds the lease held says so and does
nothing, and the next run goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any

import pytest

from lakesweep.errors import LeaseHeldError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import Store, delete_all
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.process import Call, Process
from tests.support.reader import all_roots, read_root
from tests.support.world import World

FOLDER = "branch/branch-b/"
SOURCES: dict[str, dict[str, object]] = {"tag": {"tag": "t"}, "snapshot": {"snapshot": 2}, "newest": {"snapshot": 4}}
AFTER_LAST_LOOK = 8
"""So many requests at the end of a creation come after it has looked for files: a look, and what it writes down."""
TAKE_BACK_CODES = ("stale", "target_lost_files", "no_such_snapshot", "no_such_tag", "vanished", "plan_stale")


def create(**arguments: Any) -> Call:
    return lambda maintainer: maintainer.run("create-branch", branch="b", **arguments)


def expire(maintainer: Maintainer) -> RunReport:
    return maintainer.expire()


def run(operation: str, **arguments: Any) -> Call:
    return lambda maintainer: maintainer.run(operation, **arguments)


def staged() -> World:
    """Four snapshots of one file each, the second of them tagged, and a file that nothing refers to."""
    stage = World(options={"write-only": "true", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    stage.replace_each(4)
    stage.table.tag("t", 2)
    stage.store.put("bucket-0/data-00000000-0000-0000-0000-000000000000-0.parquet", b"x")
    stage.now_ms += 7 * 86_400_000
    return stage


def staged_without_snapshot() -> World:
    """Snapshot 2 has expired, and tag `t` holds it."""
    stage = staged()
    assert stage.maintainer().expire().status == "done"
    stage.switch = Switch()
    return stage


def in_folder(stage: World) -> list[str]:
    return [entry.key.removeprefix(FOLDER) for entry in stage.store.list(FOLDER)]


def assert_all_read(stage: World) -> None:
    """Read every root. The reader asks the branch's schema, which follows its roots while it is made."""
    lent = f"{FOLDER}schema/schema-0"
    is_half = bool(in_folder(stage)) and "schema/schema-0" not in in_folder(stage)
    if is_half:
        stage.store.put(lent, stage.store.read("schema/schema-0").data)
    for root in all_roots(stage.store):
        read_root(stage.store, root)
    if is_half:
        stage.store.delete(delete_all([lent]))


def became_of(stage: World, creation: Process) -> str:
    """Return what became of the branch, which reads completely or is not there at all."""
    if isinstance(creation.error, LeaseHeldError):
        assert in_folder(stage) == []
        return "lease_held"
    report = creation.report
    assert report is not None, creation.error
    if report.status == "done":
        assert "schema/schema-0" in in_folder(stage)
        return "done"
    assert report.refusal is not None
    assert report.refusal.code in TAKE_BACK_CODES, report.refusal
    assert in_folder(stage) == [], report.refusal
    return report.refusal.code


def requests_of(stage: World, call: Call) -> int:
    return Process(stage, call).go()


def goes_on(stage: World) -> None:
    """Let a later run finish what was left, and expire main."""
    stage.wait()
    stage.switch = Switch()
    assert stage.maintainer().expire().status in ("done", "nothing_to_do")


def interleavings(
    stage_of: Callable[[], World], first: Call, other: Call, count: int
) -> Iterator[tuple[World, Process, Process]]:
    """Let each come so far, in each of `count` pairs by lot; then one of the two ends, then the other.

    The pairs at the edges are always among them: one call wholly before the other begins, at some of its requests and
    near its end, where it holds the lease.
    """
    own, others = requests_of(stage_of(), first), requests_of(stage_of(), other)
    random = Random(f"{own} {others}")
    step = 2 * EVERY  # each place is one of two that differ by a request of our own documents, as a rule
    pairs = [(at, 0) for at in range(0, own + 1, step)] + [(0, at) for at in range(0, others + 1, step)]
    pairs += [(own - 2, 0), (0, others - 2)]
    pairs += [(random.randrange(own), random.randrange(others)) for _ in range(count)]
    for at, other_at in pairs:
        stage = stage_of()
        one, two = Process(stage, first), Process(stage, other)
        one.go(at)
        stage.table.commit("-F4", "+F5")
        stage.now_ms += 1000
        two.go(other_at)
        for process in (two, one) if other_at <= at else (one, two):
            process.go()
        yield stage, one, two


@pytest.mark.parametrize("source", ["tag", "snapshot", "newest"])
def test_an_expiry_of_ours(source: str) -> None:
    """Whatever the order, each root of each branch reads, and the expiry's end changes nothing about that."""
    seen: Counter[str] = Counter()
    for stage, creation, expiry in interleavings(staged, create(**SOURCES[source]), expire, 20):
        assert expiry.report is not None or isinstance(expiry.error, LeaseHeldError), expiry.error
        seen[became_of(stage, creation)] += 1
        assert_all_read(stage)
        goes_on(stage)
        assert_all_read(stage)
    assert seen["done"] and seen["lease_held"], seen
    if source == "snapshot":
        assert seen["no_such_snapshot"] + seen["stale"], seen


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("delete-tag", {"tag": "t"}),
        ("rename-tag", {"tag": "t", "target_tag": "u"}),
        ("replace-tag", {"tag": "t", "snapshot": 5}),
    ],
)
def test_the_tag_that_it_is_made_of_goes(operation: str, arguments: dict[str, Any]) -> None:
    """Its files go with it, so the branch comes in time, or not at all."""
    seen: Counter[str] = Counter()
    for stage, creation, leaving in interleavings(
        staged_without_snapshot, create(**SOURCES["tag"]), run(operation, **arguments), 12
    ):
        if operation != "replace-tag":  # that one writes over the tag without the lease, and takes no file
            assert leaving.report is not None or isinstance(leaving.error, LeaseHeldError), leaving.error
        seen[became_of(stage, creation)] += 1
        assert_all_read(stage)
        goes_on(stage)
        assert_all_read(stage)
    assert seen["done"] and len(seen) > 1, seen


@pytest.mark.parametrize(
    ("operation", "arguments", "source"),
    [
        ("remove-orphan-files", {}, "tag"),
        ("rollback", {"snapshot": 3}, "newest"),
        ("rollback", {"snapshot": 1}, "tag"),
    ],
)
def test_others_move_what_it_is_made_of(operation: str, arguments: dict[str, Any], source: str) -> None:
    """A scan, and a rollback below or above the source."""
    for stage, creation, other in interleavings(staged, create(**SOURCES[source]), run(operation, **arguments), 6):
        assert other.report is not None or isinstance(other.error, LeaseHeldError), other.error
        became_of(stage, creation)
        assert_all_read(stage)
        goes_on(stage)
        assert_all_read(stage)


def engine_takes(store: Store, going: list[str], *, documents_first: bool) -> Iterator[None]:
    """Take roots of main and the files that no other root of main needs, as the engine does, which asks no branch."""
    roots = [root for root in all_roots(store) if not root.startswith("branch/")]
    needed = {path for root in roots if root not in going for path in read_root(store, root).paths}
    files = {path for root in going for path in read_root(store, root).paths} - needed - set(going)
    ordered = sorted(files, key=lambda path: (path.startswith("manifest/"), path))
    yield
    for path in (*going, *ordered) if documents_first else (*ordered, *going):
        store.delete(delete_all([path]))
        yield


def engine_expires(store: Store) -> Iterator[None]:
    """Expire all but the newest snapshot."""
    ids = sorted(int(root.rpartition("-")[2]) for root in all_roots(store) if root.startswith("snapshot/"))
    return engine_takes(store, [f"snapshot/snapshot-{number}" for number in ids[:-1]], documents_first=False)


def engine_deletes_tag(store: Store) -> Iterator[None]:
    """Delete tag `t`, whose snapshot has expired."""
    return engine_takes(store, ["tag/tag-t"], documents_first=True)


@pytest.mark.parametrize("source", ["tag", "snapshot", "newest"])
def test_what_the_engine_takes_without_asking(source: str) -> None:
    """It asks no branch. What it has taken before the branch is made is found out, and the branch is taken back."""
    stage_of = staged_without_snapshot if source == "tag" else staged
    sources = {**SOURCES, "snapshot": {"snapshot": 3}}  # no tag holds that one
    executor_of = engine_deletes_tag if source == "tag" else engine_expires
    seen: Counter[str] = Counter()
    requests = requests_of(stage_of(), create(**sources[source]))
    steps = len(list(executor_of(stage_of().store)))
    pairs = [(at, steps + 1) for at in range(requests + 1)]  # all of what it does, at each request
    pairs += [(at, begun) for at in (0, requests // 2) for begun in range(1, steps)]  # a part, early on
    for at, begun in pairs:
        stage = stage_of()
        creation = Process(stage, create(**sources[source]))
        creation.go(at)
        stage.table.commit("-F4", "+F5")
        engine = executor_of(stage.store)
        list(islice(engine, begun))
        creation.go()
        word = became_of(stage, creation)
        seen[word] += 1
        if word == "done" and at < requests - AFTER_LAST_LOOK:
            for root in all_roots(stage.store):
                if root.startswith("branch/"):
                    read_root(stage.store, root)
    assert seen["done"] and len(seen) > 1, seen


@pytest.mark.parametrize("mode", ["death", "death_after"])
@pytest.mark.parametrize("source", ["tag", "empty"])
def test_a_maker_that_dies(source: str, mode: str) -> None:
    """The next run, whichever it is, makes the rest, and takes nothing that the branch needs; or nothing was made."""
    arguments = SOURCES.get(source, {})
    nexts: list[Call] = [
        expire,
        run("remove-orphan-files", no_history="empty"),
        run("delete-tag", tag="t"),
        run("maintain"),
    ]
    for at in range(1, 200, EVERY):
        stage = staged()
        stage.switch = Switch(at, mode)
        calls = stage.switch.calls
        with suppress(ProcessDeathError):
            stage.maintainer().run("create-branch", branch="b", **arguments)
        if len(calls) < at:
            return
        stage.switch = Switch()
        stage.maintainer().run(
            "expire-snapshots", retain_max=1, retain_min=1, execute=False
        )  # half a branch is no harm
        stage.wait()
        report = nexts[at // EVERY % len(nexts)](stage.maintainer())
        assert report.status in ("done", "nothing_to_do"), report.refusal
        assert_all_read(stage)
        goes_on(stage)
        assert_all_read(stage)
        left = in_folder(stage)
        whole = ["schema/schema-0", *(["snapshot/snapshot-2", "tag/tag-t"] if source == "tag" else [])]
        assert left in ([], whole), left
    raise AssertionError("expected fewer requests")


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_fault_at_every_request(mode: str) -> None:
    """The call fails; after it, the same call again makes the branch, or finds it made."""
    for at in range(1, 200, EVERY):
        stage = staged()
        stage.switch = Switch(at, mode)
        calls = stage.switch.calls
        try:
            report = stage.maintainer().run("create-branch", branch="b", tag="t")
        except StorageError:
            report = None
        if len(calls) < at:
            assert report is not None
            assert report.status == "done"
            return
        assert_all_read(stage)
        stage.switch = Switch()
        stage.wait()
        again = stage.maintainer().run("create-branch", branch="b", tag="t")
        assert again.status == "done" or (again.refusal is not None and again.refusal.code == "branch_exists")
        assert in_folder(stage) == ["schema/schema-0", "snapshot/snapshot-2", "tag/tag-t"]
        assert_all_read(stage)
    raise AssertionError("expected fewer requests")


def test_two_makers_of_one_name() -> None:
    """One makes it; the other finds the lease held, or the branch there; nobody takes the other's back."""
    seen: Counter[str] = Counter()
    for stage, one, two in interleavings(staged, create(tag="t"), create(snapshot=3), 20):
        words = set()
        for process in (one, two):
            if process.report is not None and process.report.status == "done":
                words.add("done")
            elif process.report is not None:
                assert process.report.refusal is not None
                words.add(process.report.refusal.code)
            else:
                assert isinstance(process.error, LeaseHeldError)
                words.add("lease_held")
        seen.update(words)
        assert "done" in words, words
        assert in_folder(stage)
        assert_all_read(stage)
    assert seen["branch_exists"] and seen["lease_held"], seen


def test_the_engine_makes_a_branch_of_that_name() -> None:
    """At each request of ours, and of the same: it stays what it is by then, a commit on it included."""
    seen: Counter[str] = Counter()
    requests = requests_of(staged(), create(tag="t"))
    for at in range(0, requests + 1, EVERY):
        stage = staged()
        creation = Process(stage, create(tag="t"))
        creation.go(at)
        if in_folder(stage):
            continue  # the engine would refuse
        stage.table.branch("b", from_tag="t").commit("+G")
        before = {key: stage.store.read(FOLDER + key).data for key in in_folder(stage)}
        creation.go()
        report = creation.report
        assert report is not None, creation.error
        seen[report.status if report.refusal is None else report.refusal.code] += 1
        assert {key: stage.store.read(FOLDER + key).data for key in in_folder(stage)} == before, at
        assert_all_read(stage)
    assert seen["branch_exists"] and seen["stale"], seen
