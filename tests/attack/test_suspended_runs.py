"""Processes that stood still in the middle of a request change nothing when they wake after their lease.

Meanwhile another run finished what they had begun, and somebody took it back: what they would still do is meant by
nobody any more.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.execute import tags as tag_writing
from lakesweep.execute.waves.slices import NOT_BEGUN, Assignment, Site, Slice, work
from lakesweep.storage.clock import Clocks
from lakesweep.storage.open import open_store
from lakesweep.table.stores import TableStores
from tests.support.lake import PREFIX, Lake, lake_in, lake_on
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import FOLDER, S3Scene, unique
from tests.support.reader import all_roots, read_all
from tests.support.s3_server import S3Server, moto_server, moto_settings, seed_moto
from tests.support.suspension import LEASE_MS, MARGIN_MS, Ended, Sleeper, shorten, stall, stalling_endpoint
from tests.support.table_builder import TableBuilder
from tests.support.waves import planned

EXPIRE = ("--retain-max", "2", "--retain-min", "1", "--execute")


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long when a lease has ended. Those of this process last for minutes, as it may be slow."""
    shorten(monkeypatch.setattr, 480_000)


@pytest.fixture
def start() -> Iterator[Callable[..., Sleeper]]:
    """Starts processes, and ends those that are left."""
    sleepers: list[Sleeper] = []

    def begin(*given: object, **more: object) -> Sleeper:
        sleepers.append(Sleeper(*given, **more))  # type: ignore[arg-type]
        return sleepers[-1]

    yield begin
    for sleeper in sleepers:
        sleeper.close()


def objects(count: int = 7) -> dict[str, bytes]:
    """Return a table of some snapshots, each of which holds a file alone."""
    store = MemoryStore()
    table = TableBuilder(store)
    table.commit("+A")
    for old, new in islice(pairwise("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), count - 1):
        table.commit(f"-{old}", f"+{new}")
    table.hint("EARLIEST", 1)
    table.hint("LATEST", count)
    return {entry.key: store.read(entry.key).data for entry in store.list("")}


def s3_lake(count: int = 7) -> Lake:
    """Put the table into a versioned bucket; the process that will stand still has another endpoint."""
    return lake_on(moto_server(), objects(count), versioned=True)


def words_of(lake: Lake, command: str, *words: str) -> list[str]:
    """Return a command line for the process that will stand still."""
    assert isinstance(lake.server, S3Server)
    return replace(lake, server=replace(lake.server, endpoint=stalling_endpoint())).words(command, *words)


def wait_for_lease() -> None:
    time.sleep((LEASE_MS + MARGIN_MS) / 1000 + 1.5)  # the store's clock has whole seconds


def finish(lake: Lake, *words: str) -> str:
    """Have another run finish what was begun; return its id."""
    answer = lake.call(*(words or ("expire-snapshots", *EXPIRE)))  # type: ignore[arg-type]
    assert answer.exit_code == 0, answer.messages
    return str(answer.document["run_id"])


def undo(lake: Lake, run_id: str) -> str:
    """Undo a run and return how that ended."""
    answer = lake.call("undo", run_id, "--execute")
    assert answer.exit_code == 0, answer.messages
    return str(answer.document["status"])


def assert_reads(lake: Lake) -> None:
    store = lake.store
    assert len(read_all(store)) == len(all_roots(store)) > 0


def assert_refused(ended: Ended) -> None:
    assert ended.status == 4, ended
    assert "lease" in ended.errors or "lease" in str(ended.document), ended


def is_delete(method: str, path: str) -> bool:
    """Tell whether a request deletes something of the table."""
    return PREFIX in path and method == "DELETE"


def deletes_many(method: str, path: str) -> bool:
    """Tell whether a request deletes many objects at once."""
    return method == "POST" and "delete" in path


@pytest.mark.parametrize(
    ("matches", "count", "retain"),
    [
        pytest.param(is_delete, 7, 6, id="a document"),
        pytest.param(deletes_many, 22, 2, id="twenty documents", marks=pytest.mark.long),
        pytest.param(deletes_many, 7, 2, id="files"),
    ],
)
def test_an_expiry_that_wakes_deletes_nothing(
    matches: Callable[[str, str], bool], count: int, retain: int, start: Callable[..., Sleeper]
) -> None:
    """Another run finished its plan and was undone; the request that it stood still in is not sent again."""
    lake = s3_lake(count)
    before = lake.keys()
    words = ("--retain-max", str(retain), "--retain-min", str(retain), "--execute")
    held = stall(matches)
    sleeper = start(words_of(lake, "expire-snapshots", *words))
    sleeper.suspend(held)
    wait_for_lease()
    run_id = finish(lake, "expire-snapshots", *words)
    assert before - lake.keys()
    assert undo(lake, run_id) == "done"
    assert lake.keys() == before
    assert_refused(sleeper.wake())
    assert lake.keys() == before
    assert_reads(lake)
    assert undo(lake, run_id) == "nothing_to_do"


@pytest.mark.long
def test_the_ledger_says_what_was_answered_before(start: Callable[..., Sleeper]) -> None:
    """Of five documents one request was held. The other four have answers, so all of them can be undone."""
    lake = s3_lake()
    before = lake.keys()
    held = stall(is_delete)
    sleeper = start(words_of(lake, "expire-snapshots", *EXPIRE))
    sleeper.suspend(held)
    wait_for_lease()
    run_id = finish(lake)
    after = lake.keys()
    assert_refused(sleeper.wake())
    assert lake.keys() == after
    assert undo(lake, run_id) == "done"
    assert lake.keys() == before
    assert_reads(lake)


def test_an_undo_looks_at_what_is_there() -> None:
    """Deletions that arrived after the undo, by whatever way, are taken back by the same undo once more."""
    lake = s3_lake()
    before = lake.keys()
    run_id = finish(lake)
    lost = sorted(before - lake.keys())
    assert undo(lake, run_id) == "done"
    assert lake.server is not None
    for key in (*lost[:3], *lost[-3:]):
        lake.server.client.delete_object(Bucket=lake.bucket, Key=f"{PREFIX}/{key}")
    planned = lake.call("undo", run_id)
    assert planned.document["status"] == "planned", planned.messages
    assert undo(lake, run_id) == "done"
    assert lake.keys() == before
    assert_reads(lake)
    answer = lake.call("undo", run_id, "--execute")
    assert answer.document["status"] == "nothing_to_do"
    assert "nothing is left to restore" in answer.messages


@pytest.mark.long
def test_an_undo_that_wakes_writes_no_hint(start: Callable[..., Sleeper]) -> None:
    """Another run undid the same, and the table has expired again: EARLIEST stays what that made it."""
    lake = s3_lake()
    run_id = finish(lake)
    held = stall(lambda method, path: method == "PUT" and "EARLIEST" in path)
    sleeper = start(words_of(lake, "undo", run_id, "--execute"))
    sleeper.suspend(held)
    wait_for_lease()
    assert undo(lake, run_id) == "done"
    finish(lake)
    after = lake.bodies()
    assert_refused(sleeper.wake())
    assert lake.bodies() == after
    assert_reads(lake)


def test_a_rollback_that_wakes_deletes_no_snapshot(start: Callable[..., Sleeper]) -> None:
    """Another run finished the rollback, and it was undone: the snapshots have the same ETags, and stay."""
    lake = s3_lake()
    before = lake.bodies()
    held = stall(lambda method, path: is_delete(method, path) and "snapshot-7" in path)
    sleeper = start(words_of(lake, "rollback", "--snapshot", "4", "--execute"))
    sleeper.suspend(held)
    wait_for_lease()
    finish(lake, "expire-snapshots", "--retain-max", "100", "--retain-min", "100", "--execute")
    runs = lake.call("runs").document["runs"]
    run_id = next(run["run_id"] for run in runs if run["operation"] == "rollback")
    assert undo(lake, run_id) == "done"
    assert lake.bodies() == before
    assert_refused(sleeper.wake())
    assert lake.bodies() == before
    assert_reads(lake)


@pytest.mark.parametrize("call", ["delete:1", pytest.param("delete:2", marks=pytest.mark.long), "put:1"])
def test_a_local_run_that_wakes_changes_nothing(call: str, tmp_path: Path, start: Callable[..., Sleeper]) -> None:
    """Another run finished its plan, and somebody copied the table back."""
    lake = lake_in(tmp_path, objects())
    before = lake.bodies()
    sleeper = start(lake.words("expire-snapshots", *EXPIRE), stop_at=call)
    sleeper.wait_until_stopped()
    wait_for_lease()
    finish(lake)
    after = lake.bodies()
    for key, data in before.items():
        if after.get(key) != data:
            lake.store.put(key, data)
    assert_refused(sleeper.wake())
    assert lake.bodies() == before
    assert_reads(lake)


class _Clock:
    """Clocks of a machine that a test lets stand still."""

    def __init__(self) -> None:
        self.boot_s = self.wall_s = 1_000.0

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.boot_s, lambda: self.wall_s)


@pytest.mark.parametrize("clock", ["boot", "wall"])
def test_a_slice_of_a_process_that_wakes_deletes_nothing(clock: str) -> None:
    """An executor knows the end of the lease alone. It stands still before it sends a lost request again."""
    scene = S3Scene()
    scene.table.commit("+A")
    keys = [f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(30)]
    seed_moto(scene.bucket, [f"db.db/t/{key}" for key in keys])
    scene.age()
    header = planned(scene)
    now = _Clock()

    def stand_still(method: str, path: str) -> bool:
        if scene.bucket in path and deletes_many(method, path):
            setattr(now, f"{clock}_s", getattr(now, f"{clock}_s") + 700)
            return True
        return False

    stall(stand_still).go.set()
    settings = replace(moto_settings(), endpoint_url=stalling_endpoint())
    table = open_store(scene.store.location, settings=settings)
    area = ControlArea(scene.control, scene.store.location)
    lane = Assignment(header.plan_id, header.plan_id, area.store.now_ms() + 480_000, 2000, 0, (Slice(0, 0, 0, 30),))
    site = Site(TableStores(table), area, clocks=now.clocks)
    before = scene.listed()
    assert [result.code for result in work(site, lane)] == [NOT_BEGUN]
    assert scene.listed() == before
    # Whoever does it again, under a lease that lasts, goes on from there.
    again = list(work(Site(TableStores(table), area), lane))
    assert [(result.code, result.deleted) for result in again] == [("", 30)]
    assert before - scene.listed() == set(keys)


def test_a_tag_is_not_written_by_a_process_that_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are written without the lease: no attempt is sent later than any should be."""
    lake = lake_on(moto_server(), objects())
    monkeypatch.setattr(tag_writing, "DELETE_MARGIN_MS", 0)
    before = lake.keys()
    answer = lake.call("create-tag", "late", "--snapshot", "6", "--execute")
    assert answer.exit_code == 4, answer.messages
    assert "took longer than it may" in answer.messages
    assert lake.keys() == before
