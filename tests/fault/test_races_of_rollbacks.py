"""Rollbacks, fast-forwards and deleted branches that other engines begin during a run: each of their steps is placed by
itself, and some never go on after the first.
"""

from collections.abc import Callable, Iterator

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import Interleaved
from tests.support.others import SETTINGS, BusyWorld, play, roll_back
from tests.support.reader import all_roots, assert_all_readable, read_all


def passes_end(stage: BusyWorld, count: int = 3) -> None:
    """Let the next passes run; each must end, and everything must read."""
    for _ in range(count):
        stage.wait()
        stage.maintain()
        stage.check()


def place(setting: str, act: Callable[[BusyWorld], Iterator[None]], *at: int) -> BusyWorld:
    """Run the pass; step `n` of an act comes before request `at[n]`, those beyond the last at once after it."""
    stage = BusyWorld(setting)

    def before(call: int) -> None:
        if call == at[0]:
            stage.steps = act(stage)
        for number in at:
            if number == call:
                next(stage.steps, None)
        if call == at[-1]:
            for _ in stage.steps:
                pass

    try:
        stage.maintain(Interleaved(before))
    except MaintenanceError:
        pass
    for _ in stage.steps:
        pass
    return stage


@pytest.mark.parametrize("target", [1, 2, 4])
def test_each_step_of_a_rollback_anywhere(target: int) -> None:
    """LATEST is written before one request, the first document goes before another, the rest right after it."""
    _, requests = play("plain", None, 0, 0)

    def act(stage: BusyWorld) -> Iterator[None]:
        if stage.snapshot_is_there(target):
            yield from roll_back(stage, target)

    for first in range(1, requests + 1):
        for second in range(first, requests + 1, 17):
            stage = place("plain", act, first, second)
            try:
                stage.check()
            except AssertionError as error:
                raise AssertionError(f"LATEST before request {first}, documents before {second}: {error}") from error


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_rollback_that_writes_latest_and_dies(setting: str) -> None:
    """Nobody goes on with it. The table is what it was, readers find its newest snapshot, and passes end."""
    _, requests = play(setting, None, 0, 0)
    for target in (1, 3, 4):
        for at in range(1, requests + 1, 3 if setting == "plain" else 9):

            def act(stage: BusyWorld, target: int = target) -> Iterator[None]:
                if stage.snapshot_is_there(target):
                    stage.table.hint("LATEST", target)
                yield

            stage, _ = play(setting, act, at, 0)
            try:
                stage.check()
                passes_end(stage)
            except (AssertionError, MaintenanceError) as error:
                raise AssertionError(f"LATEST={target} before request {at} of {requests}: {error}") from error


@pytest.mark.parametrize("pace", [0, 1, 4])
@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize("first", [1, 3, 5])
def test_a_fast_forward_during_an_expiry(first: int, downwards: bool, pace: int) -> None:
    """LATEST goes, then main's snapshots from the branch's first on, then the branch's documents are copied.

    Args:
        first: The first snapshot of the branch.
        downwards: In which order main's go.
    """
    bodies: dict[str, bytes] = {}

    def act(stage: BusyWorld) -> Iterator[None]:
        stage.store.delete([DeleteRequest("snapshot/LATEST")])
        yield
        for number in sorted((i for i in stage.ids() if i >= first), reverse=downwards):
            stage.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
            yield
        for path, body in bodies.items():
            stage.store.put(path, body)
            yield

    def build(stage: BusyWorld) -> None:
        tag = stage.main.tag("from", snapshot=first)
        branch = stage.main.branch("c", from_tag="from")
        branch.commit("+Y")
        stage.main.remove(tag)
        for number in (first, first + 1):
            document = stage.store.read(f"branch/branch-c/snapshot/snapshot-{number}").data
            bodies[f"snapshot/snapshot-{number}"] = document

    _, requests = play("plain", None, 0, 0, build)
    for at in range(1 + pace % 3, requests + 1, 1 if pace == 0 and first == 3 else 4):
        stage, _ = play("plain", act, at, pace, build)
        try:
            read_all(stage.store)
            assert stage.ids()[-1:] == [first + 1], f"expected the branch's last, found {stage.ids()}"
            there = {path: stage.store.read(path).data for path in bodies if path in all_roots(stage.store)}
            assert there.items() <= bodies.items()
            stage.wait()
            stage.maintain()
            read_all(stage.store)
            assert stage.ids() == [first + 1]
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"fast-forward before request {at} of {requests}: {error}") from error


@pytest.mark.parametrize("pace", [0, 1, 4])
@pytest.mark.parametrize("downwards", [False, True])
def test_a_branch_that_is_deleted_while_it_is_maintained(downwards: bool, pace: int) -> None:
    """Its objects go one by one. It does not come back: no document of it, which would be a root for ever."""
    _, requests = play("branch", None, 0, 0)

    def drop(stage: BusyWorld) -> Iterator[None]:
        for key in sorted((e.key for e in stage.store.list("branch/branch-b/")), reverse=downwards):
            stage.store.delete([DeleteRequest(key)])
            yield

    for at in range(1 + pace % 3, requests + 1, 3):
        stage, _ = play("branch", drop, at, pace)
        # LATEST is removed before the snapshots where names go in ascending order, as by a bulk request on S3. In the
        # other order a deletion cannot be told from a rollback by an engine without LATEST, which needs its target.
        left = [root for root in all_roots(stage.store) if root.startswith("branch/branch-b/")]
        where = f"deletion before request {at} of {requests}"
        assert left == [] or (downwards and pace), where
        for root in left:
            stage.store.delete([DeleteRequest(root)])
        try:
            read_all(stage.store)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error


def test_a_rollback_to_a_tag_below_everything() -> None:
    """LATEST, every document from the newest down, then the snapshot of the tag is written."""
    _, requests = play("plain", None, 0, 0)
    for pace in (0, 1, 3):
        for at in range(1, requests + 1, 1 if pace == 0 else 3):
            stage, _ = play("plain", to_the_tag, at, pace)
            where = f"rollback to a tag before request {at} of {requests}, a step every {pace} requests"
            try:
                assert_all_readable(stage.main)
                assert stage.ids() == [1], stage.ids()
                stage.wait()
                stage.maintain()
                assert_all_readable(stage.main)
                assert stage.ids() == [1]
            except (AssertionError, MaintenanceError) as error:
                raise AssertionError(f"{where}: {error}") from error


def to_the_tag(stage: BusyWorld) -> Iterator[None]:
    """As the engine does it."""
    body = stage.store.read("tag/tag-old").data
    stage.table.hint("LATEST", 1)
    yield
    for number in range(5, 1, -1):
        stage.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
        yield
    if 1 not in stage.ids():
        stage.store.put("snapshot/snapshot-1", body)
        yield
        stage.table.hint("EARLIEST", 1)


def test_a_tag_that_is_written_long_after_its_snapshot_was_read() -> None:
    """A writer reads a snapshot that is going, and writes the tag when its document has gone, before any file has.

    The look before the first file sees it. (Later nobody can help: see the limits.)
    """
    gone_at = _first_request_after_the_documents()
    for read_at in range(1, gone_at + 1):
        stage = BusyWorld("plain")
        body = b""

        def before(call: int, stage: BusyWorld = stage, read_at: int = read_at) -> None:
            nonlocal body
            if call == read_at:
                body = stage.store.read("snapshot/snapshot-2").data if stage.snapshot_is_there(2) else b""
            if call == gone_at and body:
                stage.store.put("tag/tag-late", body)

        stage.maintain(Interleaved(before))
        assert stage.ids() == [5]
        assert_all_readable(stage.main)
        assert bool(body) is (read_at < gone_at)
        if body:
            assert read_all(stage.store)["tag/tag-late"].live, f"read before request {read_at}"
        passes_end(stage, 1)


def _first_request_after_the_documents() -> int:
    stage, found = BusyWorld("plain"), 0

    def before(call: int) -> None:
        nonlocal found
        if not found and not stage.snapshot_is_there(1):
            found = call

    stage.maintain(Interleaved(before))
    assert found
    return found
