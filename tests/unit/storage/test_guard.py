"""Each attempt to change something is asked about, and time goes on while a process stands still."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lakesweep.errors import LeaseLostError
from lakesweep.storage.clock import Clocks, Stopwatch
from lakesweep.storage.guard import GuardedStore, LateDeleteError, TimeLimit, current_guard, guarded_by
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest, Store, UndeleteRequest, delete_all
from tests.support.memory_store import MemoryStore
from tests.support.stub_s3 import Answer, Request, error, stub_s3


class Clock:
    """Clocks that a test turns."""

    def __init__(self) -> None:
        self.boot_s, self.wall_s = 50.0, 1_800_000_000.0

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.boot_s, lambda: self.wall_s)


@pytest.mark.parametrize(
    ("boot_s", "wall_s", "elapsed_ms"),
    [(0, 0, 0), (2, 2, 2000), (700, 0, 700_000), (0, 700, 700_000), (3, -3600, 3000), (3, 3600, 3_600_000)],
    ids=["none", "both", "asleep", "thawed", "wall set back", "wall set forward"],
)
def test_the_clock_that_says_more_is_believed(boot_s: float, wall_s: float, elapsed_ms: int) -> None:
    """A machine that slept counts the sleep; a sandbox that was frozen has the wall clock alone."""
    clock = Clock()
    watch = Stopwatch(clock.clocks)
    clock.boot_s += boot_s
    clock.wall_s += wall_s
    assert watch.elapsed_ms() == elapsed_ms


def test_a_wall_clock_that_jumps_forth_and_back_costs_no_time() -> None:
    """It refuses for as long as it is ahead, and the other clock counts on."""
    clock = Clock()
    limit = TimeLimit(Stopwatch(clock.clocks), 10_000, "the lease ended")
    clock.wall_s += 3600
    with pytest.raises(LeaseLostError, match="the lease ended; that was 3590 s ago, so Lakesweep sent no further"):
        limit()
    clock.wall_s -= 7200
    clock.boot_s += 9
    limit()
    clock.boot_s += 1
    with pytest.raises(LeaseLostError):
        limit()


def test_the_real_clocks_agree() -> None:
    """Both are there, and neither runs away."""
    assert 0 <= Stopwatch().elapsed_ms() < 60_000


class Asked:
    """Refuses from some question on."""

    def __init__(self, allowed: int = 0) -> None:
        self.left = allowed
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.left -= 1
        if self.left < 0:
            raise LeaseLostError("too late")


def stores(folder: Path) -> Sequence[Store]:
    return MemoryStore(versioned=True), LocalStore(str(folder))


def test_a_refused_change_changes_nothing(tmp_path: Path) -> None:
    """Neither a put nor a delete, with or without conditions."""
    for store in stores(tmp_path):
        etag = store.put("a/x", b"1")
        guarded = GuardedStore(store, Asked())
        for change in (
            lambda guarded=guarded: guarded.put("a/x", b"2"),
            lambda guarded=guarded: guarded.put("a/y", b"2", if_absent=True),
            lambda guarded=guarded, etag=etag: guarded.put("a/x", b"2", if_match=etag),
            lambda guarded=guarded: guarded.delete(delete_all(["a/x"])),
            lambda guarded=guarded, etag=etag: guarded.delete([DeleteRequest("a/x", etag)]),
        ):
            with pytest.raises(LeaseLostError, match="too late"):
                change()  # type: ignore[no-untyped-call]
        assert [(entry.key, store.read(entry.key).data) for entry in store.list("")] == [("a/x", b"1")]


def test_what_was_deleted_before_is_told(tmp_path: Path) -> None:
    """Of two objects one went before the guard refused; the other was not tried."""
    for store in stores(tmp_path):
        store.put("a", b"1")
        store.put("b", b"1")
        with pytest.raises(LateDeleteError) as raised:
            GuardedStore(store, Asked(1)).delete(delete_all(["a", "b"]))
        assert [(answer.key, answer.code) for answer in raised.value.answers] == [("a", "deleted"), ("b", "not_tried")]


def test_a_refused_undelete_restores_nothing() -> None:
    """The delete marker stays."""
    store = MemoryStore(versioned=True)
    store.put("a", b"1")
    (gone,) = store.delete(delete_all(["a"]))
    with pytest.raises(LeaseLostError):
        GuardedStore(store, Asked()).undelete([UndeleteRequest("a", gone.version_id)])
    assert list(store.list("")) == []


def test_reads_are_not_asked_about(tmp_path: Path) -> None:
    """Whoever may not change anything may still look."""
    for store in stores(tmp_path):
        store.put("a", b"1")
        guarded = GuardedStore(store, Asked())
        assert guarded.read("a").data == b"1"
        assert [entry.key for entry in guarded.list("")] == ["a"]


def test_guards_add_up() -> None:
    """Each that the thread has brought along is asked; behind the block none is."""
    outer, inner = Asked(5), Asked(1)
    with guarded_by(outer), guarded_by(inner):
        current_guard()()
        with pytest.raises(LeaseLostError):
            current_guard()()
    current_guard()()
    assert (outer.count, inner.count) == (2, 2)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between attempts."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)


Change = Callable[[Store], object]
CHANGES: dict[str, Change] = {
    "delete": lambda store: store.delete(delete_all(["a", "b"])),
    "delete of one version": lambda store: store.delete([DeleteRequest("a", "etag")]),
    "put": lambda store: store.put("a", b"1"),
    "conditional put": lambda store: store.put("a", b"1", if_match="etag"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_each_attempt_on_s3_is_asked_about(change: Change, allowed: int) -> None:
    """The server fails with 500, and botocore would send the request five times."""
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return error(500, "InternalError")

    with stub_s3(answer) as stub, pytest.raises(LeaseLostError, match="too late") as raised:
        change(GuardedStore(stub.store, Asked(allowed)))
    assert len(asked) == allowed
    if isinstance(raised.value, LateDeleteError):  # of what was sent once nobody knows what became of it
        assert bool(raised.value.answers) == (allowed == 0)
        assert all(answer.code == "not_tried" for answer in raised.value.answers)


def test_others_of_a_window_keep_their_answers() -> None:
    """Of single deletes that go at once, those that were answered are told, and the one that was lost is not."""

    each_was_sent = threading.Barrier(3)

    def answer(request: Request) -> Answer:
        each_was_sent.wait(10)
        return error(500, "InternalError") if request.path.endswith("/b") else Answer(204)

    retried = Asked(3)
    with stub_s3(answer) as stub, pytest.raises(LateDeleteError) as raised:
        GuardedStore(stub.store, retried).delete([DeleteRequest(key, "etag") for key in ("a", "b", "c")])
    assert {answer.key: answer.code for answer in raised.value.answers} == {"a": "deleted", "c": "deleted"}
