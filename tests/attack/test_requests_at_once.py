"""A pass whose requests go together, as on S3: each of them fails, or ends the process, while another is on its way."""

import gc
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from lakesweep.control.lease import read_lease
from lakesweep.errors import MaintenanceError
from lakesweep.runs import execution
from lakesweep.runs.session import Table
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, DyingSwitch, FaultyStore, ProcessDeathError, Switch
from tests.support.reader import read_all
from tests.support.world import World

DOCUMENTS, EARLIEST = "table delete 5", "table put snapshot/EARLIEST"


@pytest.fixture(autouse=True)
def reads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store in memory be one whose answers take time."""
    monkeypatch.setattr(FaultyStore, "reads_wait", True)


def made(*, versioned: bool = False) -> World:
    """Return a table of which a pass expires all snapshots but the newest; one of them has a tag."""
    world = World(options={"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"}, versioned=versioned)
    world.replace_each(6)
    world.table.tag("kept", snapshot=2)
    world.table.hint("EARLIEST", 1)
    world.table.hint("LATEST", 6)
    return world


def keys(world: World) -> set[str]:
    return {entry.key for entry in world.store.list("")}


def no_thread_is_left() -> bool:
    return not any(thread.name.startswith("both") for thread in threading.enumerate())


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_every_call_of_a_pass_breaks(mode: str, versioned: bool) -> None:
    """All roots read at once, and later passes end as if nothing had happened."""
    whole, base = Switch(), made(versioned=versioned)
    done = base.copy()
    assert done.maintain(whole).status == "done"
    assert EARLIEST in whole.calls
    for number in range(1, len(whole.calls) + 1, EVERY):
        world, switch = base.copy(), Switch(number, mode)
        try:
            world.maintain(switch)
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} at call {number}, {switch.calls[number - 1 :][:1]}"
        assert no_thread_is_left(), where
        read_all(world.store)
        world.wait()
        world.maintain()
        world.maintain()
        assert keys(world) == keys(done), where
        read_all(world.store)


@pytest.mark.parametrize("is_refused", [False, True], ids=["written", "refused"])
def test_a_tag_appears_while_the_hint_is_written(is_refused: bool) -> None:
    """The recheck that lists beside it begins when the documents are gone, and sees the tag: its files are kept."""
    world = made()
    document = world.store.read(world.table.root(1)).data

    class Tagging(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == DOCUMENTS:
                found = super()._run(name, call)
                world.store.put("tag/tag-late", document)
                return found
            if name == EARLIEST and is_refused:
                self.calls.append(name)
                raise self._error(name)
            return super()._run(name, call)

    switch = Tagging()
    world.maintain(switch)
    assert EARLIEST in switch.calls
    assert DOCUMENTS in switch.calls
    read_all(world.store)
    world.wait()
    world.maintain()
    read_all(world.store)
    assert "tag/tag-late" in keys(world)


def test_a_hint_that_cannot_be_written_is_an_error() -> None:
    """The recheck beside it finds nothing, which does not hide that; no file is deleted before the hint is there."""
    world = made()
    broken = DyingSwitch(lambda name: name == EARLIEST, "before")
    files = {key for key in keys(world) if key.startswith(("bucket-", "manifest/"))}
    report = world.maintain(broken)
    assert report.status == "partial", report
    assert files <= keys(world)
    world.wait()
    assert world.maintain().status == "done"
    assert world.store.read("snapshot/EARLIEST").data == b"6"


@pytest.mark.parametrize("slow", [True, False], ids=["slow", "quick"])
def test_a_listing_counts_as_a_recheck_only_for_ten_seconds(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache, which is read after the listing, took a minute: before documents are deleted, the roots are listed."""
    monkeypatch.setattr(FaultyStore, "reads_wait", False)
    world = made()

    class Slow(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            world.now_ms += 60_000 if slow and name.endswith("cache.bin") and "read" in name else 0
            return super()._run(name, call)

    switch = Slow()
    assert world.maintain(switch).status == "done"
    lease = next(number for number, name in enumerate(switch.calls) if "put" in name and name.endswith("lease.json"))
    between = switch.calls[lease : switch.calls.index(DOCUMENTS)]
    assert ("table list snapshot/" in between) is slow


def test_a_read_that_fails_leaves_no_thread() -> None:
    """A function that fails again and again would have more threads each time, until it can begin none."""
    base, whole = made(), Switch()
    base.copy().maintain(whole)
    reads = [number for number, name in enumerate(whole.calls, 1) if name.startswith("table read")]
    gc.collect()
    gc.disable()
    try:
        for number in reads:
            with suppress(MaintenanceError):
                base.copy().maintain(Switch(number))
            left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
            assert not [name for name in left if name.startswith("read")], whole.calls[number - 1]
    finally:
        gc.enable()


def test_a_run_that_is_stopped_beside_its_report_says_that_it_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is written, and somebody presses Ctrl-C while the cache still is."""
    world = made()

    def keep(table: Table) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execution, "keep", keep)
        with pytest.raises(KeyboardInterrupt, match="stopped by Ctrl-C when it was done"):
            world.maintain()
    assert no_thread_is_left()
    after = keys(world)
    assert world.maintain().status == "done"
    assert keys(world) == after
    assert read_lease(world.area).intent is None
    read_all(world.store)
