"""Manifests that are written while a snapshot is prepared: few at a time, all of them before the lists."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.commit import early
from lakesweep.commit.early import EarlyFiles
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.loop import commit
from lakesweep.errors import ObjectNotFoundError, OutOfTimeError, RefusedError, StorageError
from tests.support.commit_scene import Acting, Scene, prepared_on
from tests.support.memory_store import MemoryStore


class SlowStore(MemoryStore):
    """Puts wait until the test lets them go on, so that it sees how many are on their way."""

    reads_wait = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.begun: list[str] = []
        self.most = self.now = self.most_bytes = self.now_bytes = 0
        self.go_on = threading.Event()
        self.fails: set[str] = set()
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes, **conditions: Any) -> str:
        with self._lock:
            self.begun.append(key)
            self.now, self.now_bytes = self.now + 1, self.now_bytes + len(data)
            self.most, self.most_bytes = max(self.most, self.now), max(self.most_bytes, self.now_bytes)
        self.go_on.wait(0.01)
        with self._lock:
            self.now, self.now_bytes = self.now - 1, self.now_bytes - len(data)
        if key in self.fails:
            raise StorageError(f"{key}: broken on purpose", code="broken")
        return super().put(key, data, **conditions)


def test_few_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_WAITING_BYTES", 1000)
    store, asked = SlowStore(), []
    with EarlyFiles(store, lambda: asked.append(1)) as files:
        for number in range(100):
            files.write(f"manifest-u-{number}", b"x" * 30)
        files.finish()
    assert len(asked) == len(store.begun) == 100
    assert 1 < store.most <= 16
    store = SlowStore()
    with EarlyFiles(store, lambda: None) as files:
        for number in range(20):
            files.write(f"manifest-u-{number}", b"x" * 400)
        files.write("manifest-u-large", b"x" * 5000)
        files.finish()
    assert store.most <= 2, "by their bytes; one that is larger than the limit is written alone"
    assert len(list(store.list("manifest/"))) == 21


@pytest.mark.parametrize("store", [SlowStore, MemoryStore])
def test_an_error_comes_out(store: Any) -> None:
    """At a later file, or at the end."""
    broken = SlowStore()
    broken.fails = {"manifest/manifest-u-3"}
    with EarlyFiles(broken, lambda: None) as files:
        files.write("manifest-u-3", b"x")
        with pytest.raises(StorageError, match="broken on purpose"):
            files.finish()
    taken = store()
    taken.put("manifest/manifest-u-0", b"other")
    with EarlyFiles(taken, lambda: None) as files, pytest.raises(RefusedError, match="no file of this new name"):
        files.write("manifest-u-0", b"x")
        files.finish()


def test_what_was_begun_has_ended_when_it_is_left() -> None:
    store = SlowStore()
    with pytest.raises(ZeroDivisionError), EarlyFiles(store, lambda: None) as files:
        for number in range(10):
            files.write(f"manifest-u-{number}", b"x")
        raise ZeroDivisionError
    assert store.now == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("manifests")]


@pytest.mark.parametrize("name", ["manifest-list-u-0", "index-manifest-u-0", "a/manifest-u-0", "snapshot-1"])
def test_only_manifests_come_early(name: str) -> None:
    with EarlyFiles(MemoryStore(), lambda: None) as files, pytest.raises(ValueError, match="no name of a new manifest"):
        files.write(name, b"")


def writing(scene: Scene, attempt: Attempt) -> Prepared:
    for number in range(1, 4):
        attempt.write(f"manifest-{attempt.uuid}-{number}", b"early %d" % number)
    return prepared_on(attempt, scene.table)


def test_all_are_there_before_the_lists() -> None:
    store = SlowStore("memory://bucket/t")
    store.go_on.set()
    scene = Scene(store)
    store.go_on.clear()
    store.begun.clear()
    ended = commit(scene.env(), lambda attempt: writing(scene, attempt))
    assert ended.status == "committed"
    kinds = ["list" if "-list-" in key else key.split("-")[0] for key in store.begun]
    assert kinds[:6] == ["manifest/manifest"] * 4 + ["list"] * 2


def test_nothing_is_published_if_one_could_not_be_written() -> None:
    store = SlowStore("memory://bucket/t")
    scene = Scene(store)

    def prepare(attempt: Attempt) -> Prepared:
        store.fails.add(f"manifest/manifest-{attempt.uuid}-2")
        return writing(scene, attempt)

    with pytest.raises(StorageError, match="broken on purpose"):
        commit(scene.env(), prepare)
    assert scene.ids() == [1, 2, 3]
    assert not [key for key in store.begun if "-list-" in key and "lakesweep" in key]


def test_none_is_begun_when_the_time_is_over() -> None:
    scene = Scene()

    def over(what: str) -> None:
        if scene.prepared:
            raise OutOfTimeError(what)

    def prepare(attempt: Attempt) -> Prepared:
        scene.prepared.append(attempt)
        return writing(scene, attempt)

    with pytest.raises(OutOfTimeError):
        commit(scene.env(check_time=over), prepare)
    assert not [key for key in scene.builder.present() if "early" in key]
    assert scene.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "number", "may_reuse"),
    [("table list snapshot/", 2, True), ("table put snapshot/snapshot-5", 1, False)],
    ids=["looked", "sent"],
)
def test_a_later_attempt_may_name_them_if_no_snapshot_was_sent(name: str, number: int, may_reuse: bool) -> None:
    scene = Scene()
    scene.commit(run="r0")
    scene.prepared.clear()
    scene.commit(Acting(name, scene.foreign, number=number))
    assert [attempt.may_reuse for attempt in scene.prepared] == [True, may_reuse]


def test_a_later_attempt_names_none_of_one_that_lost_its_base() -> None:
    """Not all of its files may exist."""
    scene = Scene()

    def prepare(attempt: Attempt) -> Prepared:
        if not scene.prepared:
            scene.prepared.append(attempt)
            scene.foreign()
            raise ObjectNotFoundError("a manifest of the base")
        return scene.prepare(attempt)

    assert commit(scene.env(), prepare).status == "committed"
    assert [attempt.may_reuse for attempt in scene.prepared] == [True, False]


def test_an_attempt_is_as_old_as_the_files_that_it_uses_again() -> None:
    scene = Scene()

    class Old:
        def elapsed_ms(self) -> int:
            return 1 << 60

    def prepare(attempt: Attempt) -> Prepared:
        return replace(scene.prepare(attempt), since=Old())

    ended = commit(scene.env(options={"commit.max-retries": "1"}), prepare)
    assert (ended.status, ended.code, ended.attempts) == ("gave_up", "commit_conflict", 2)
