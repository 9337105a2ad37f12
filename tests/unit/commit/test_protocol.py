"""One commit without trouble: what is written, in which order, and in how many requests."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.loop import commit
from lakesweep.control.intent import Intent
from lakesweep.control.lease import acquire
from lakesweep.errors import HeldBackError, LeaseHeldError, OutOfTimeError, RefusedError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.wrappers.remembering import MetadataCache, RememberingStore
from tests.support.commit_scene import Acting, Scene, prepared_on
from tests.support.faulty_store import Switch


def intent(plan_id: str) -> Intent:
    return Intent(plan_id=plan_id, branch="main", end_id=3, runs=("r1",), created_ms=0, grace_ms=0)


@pytest.mark.parametrize("branch", ["main", "b"])
def test_a_snapshot_follows_the_newest(branch: str) -> None:
    scene = Scene(branch=branch)
    newest = scene.ids()[-1]
    ended = scene.commit()
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.replaced) == ("committed", newest + 1, 1, 0)
    assert (ended.warnings, ended.message, ended.code) == ((), "", "")
    snapshot = scene.snapshot(newest + 1)
    assert (snapshot.uuid, snapshot.commit_user) == (ended.uuid, "lakesweep-r1-0")
    assert scene.table.read(f"{scene.folder}snapshot/LATEST").data == str(newest + 1).encode()
    assert scene.lease().expires_ms == 0
    record = scene.lease().commits[branch]
    assert (record.id, record.uuid, record.run_id, record.state) == (newest + 1, ended.uuid, "r1", "published")


def test_a_commit_on_a_local_disk(tmp_path: Path) -> None:
    scene = Scene(LocalStore(str(tmp_path / "t")), LocalStore(str(tmp_path / "control")))
    switch = Acting("table put snapshot/snapshot-4", scene.foreign)
    ended = scene.commit(switch)
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.warnings) == ("committed", 5, 2, ())
    assert (scene.snapshot(5).uuid, scene.lease().commits["main"].uuid) == (ended.uuid, ended.uuid)
    assert scene.table.read("snapshot/LATEST").data == b"5"
    assert scene.commit(Acting("table put snapshot/snapshot-6", lambda: scene.remove(5))).status == "base_vanished"
    assert scene.ids()[-1] == 4


def test_manifests_come_before_lists_and_all_before_the_snapshot() -> None:
    scene, switch = Scene(), Switch()
    scene.commit(switch)
    puts = [call.removeprefix("table put ") for call in switch.calls if call.startswith("table put ")]
    kinds = ["list" if "/manifest-list-" in path else path.split("-")[0] for path in puts]
    # The second manifest is the probe of the first commit to a table.
    expected = ["manifest/manifest", "list", "list", "manifest/manifest", "snapshot/snapshot", "snapshot/LATEST"]
    assert kinds == expected


def test_six_requests_lead_from_prepared_to_visible() -> None:
    scene = Scene()
    scene.commit()
    switch = Switch()
    scene.commit(switch, first=scene.base())
    written = max(place for place, call in enumerate(switch.calls) if call.startswith("table put manifest/"))
    visible = switch.calls.index("table put snapshot/snapshot-5")
    assert switch.calls[written + 1 : visible + 1] == [
        "control put " + scene.area.prefix + "lease.json",
        "table list schema/",
        "table list snapshot/",
        "table read snapshot/snapshot-4",
        "table put snapshot/snapshot-5",
    ]
    # Listed with its base; then the hint and the end of the lease.
    assert switch.calls[visible + 1 :] == [
        "table list snapshot/",
        "table read snapshot/LATEST",  # in memory, an ETag does not tell what the hint says
        "table put snapshot/LATEST",
        "control put " + scene.area.prefix + "lease.json",
    ]


def test_a_later_commit_does_not_probe_again() -> None:
    scene = Scene()
    puts = []
    for _ in range(2):
        switch = Switch()
        scene.commit(switch)
        puts.append(sum(call.startswith("table put manifest/") for call in switch.calls))
    assert puts == [4, 3]


def test_what_the_caller_has_read_is_not_read_again() -> None:
    scene, switch = Scene(), Switch()
    scene.commit()
    scene.commit(switch, first=scene.base(), lease=scene.lease())
    before = switch.calls[: switch.calls.index("control put " + scene.area.prefix + "lease.json")]
    assert not [call for call in before if "read" in call or ("list " in call and "put" not in call)]


def test_nothing_to_do_leaves_no_trace() -> None:
    scene, switch = Scene(), Switch()
    ended = commit(scene.env(switch), lambda attempt: None)
    assert (ended.status, ended.attempts, ended.snapshot_id) == ("nothing_to_do", 1, None)
    assert not [call for call in switch.calls if " put " in call]


def test_a_table_without_snapshot_has_nothing_to_commit_on() -> None:
    scene = Scene()
    scene.remove(1, 2, 3)
    ended = scene.commit()
    assert (ended.status, ended.code, scene.prepared) == ("nothing_to_do", "no_snapshot", [])


def test_a_stale_hint_decides_nothing() -> None:
    scene = Scene()
    scene.table.put("snapshot/LATEST", b"1")
    assert scene.commit().snapshot_id == 4
    assert scene.table.read("snapshot/LATEST").data == b"4"


@pytest.mark.parametrize(("found", "left"), [(b"9", b"9"), (b"garbage", b"4"), (b"2", b"4")])
def test_the_hint_is_written_only_if_it_names_less(found: bytes, left: bytes) -> None:
    scene = Scene()
    scene.table.put("snapshot/LATEST", found)
    scene.commit()
    assert scene.table.read("snapshot/LATEST").data == left


def test_the_earliest_hint_is_never_written() -> None:
    scene, switch = Scene(), Switch()
    scene.commit(switch)
    assert not [call for call in switch.calls if "EARLIEST" in call]


@pytest.mark.parametrize(("written", "left"), [(b"5", b"5"), (b"2", b"4")])
def test_a_hint_that_another_writer_has_just_written_never_goes_back(written: bytes, left: bytes) -> None:
    scene = Scene()
    ended = scene.commit(Acting("table put snapshot/LATEST", lambda: scene.table.put("snapshot/LATEST", written)))
    assert (ended.status, ended.warnings) == ("committed", ())
    assert scene.table.read("snapshot/LATEST").data == left


def test_the_commit_time_is_never_before_the_base() -> None:
    scene = Scene()
    scene.foreign(timeMillis=scene.now_ms + 60_000)
    scene.commit()
    assert scene.snapshot(5).time_ms == scene.now_ms + 60_000


def test_a_cached_base_does_not_hide_a_rollback() -> None:
    """Caches answer by the ETags of an earlier listing, so a commit reads past them."""
    scene = Scene()
    etags = {entry.key: entry.etag for entry in scene.table.list("snapshot/")}
    cached = RememberingStore(scene.table, MetadataCache(is_loaded=True), etags)
    cached.read("snapshot/snapshot-3")
    uuids: list[str] = []

    def prepare(attempt: Attempt) -> Prepared:
        if not uuids:
            uuids.append(scene.foreign(3))
        return prepared_on(attempt, scene.table)

    ended = commit(replace(scene.env(), store=cached), prepare)
    assert (ended.status, ended.attempts) == ("committed", 2)


def test_a_paused_table_gets_no_snapshot() -> None:
    scene = Scene()

    def paused() -> None:
        assert scene.lease().expires_ms > 0, "asked under the lease"
        raise HeldBackError("paused")

    with pytest.raises(HeldBackError):
        scene.commit(check_policy=paused)
    assert scene.ids() == [1, 2, 3]
    assert (scene.lease().expires_ms, scene.lease().commits) == (0, {})


def test_a_caller_without_time_gets_no_snapshot() -> None:
    scene, calls = Scene(), []

    def check(what: str) -> None:
        calls.append(what)
        if len(calls) > 3:
            raise OutOfTimeError(what)

    with pytest.raises(OutOfTimeError):
        scene.commit(check_time=check)
    assert scene.ids() == [1, 2, 3]
    assert scene.commit().status == "committed"


def test_a_plan_that_a_dead_run_left_is_finished_first() -> None:
    """Its intent stays as it is."""
    scene = Scene()
    acquire(scene.area, "dead", intent("p1")).release(ended=False)
    with pytest.raises(LeaseHeldError, match="p1"):
        scene.commit()
    assert scene.prepared == []
    left = scene.lease().intent
    assert left is not None
    assert left.plan_id == "p1"


def test_a_plan_that_began_meanwhile_is_not_waited_for() -> None:
    scene = Scene()
    act = Acting("table list schema/", lambda: acquire(scene.area, "r2", intent("p1")))
    with pytest.raises(LeaseHeldError, match="r2"):
        scene.commit(act)
    assert scene.slept == []
    assert scene.ids() == [1, 2, 3]


def test_another_commit_is_waited_for() -> None:
    scene = Scene()
    other = acquire(scene.area, "r2")

    def sleep(seconds: float) -> None:
        scene.sleep(seconds)
        if len(scene.slept) == 3:
            other.release(ended=True)

    ended = scene.commit(sleep=sleep)
    assert (ended.status, ended.attempts, len(scene.slept)) == ("committed", 1, 3)


def test_a_holder_that_stays_ends_the_commit() -> None:
    scene = Scene()
    acquire(scene.area, "r2")
    with pytest.raises(LeaseHeldError, match="r2"):
        scene.commit(options={"commit.max-retries": "3"})
    assert len(scene.slept) == 3
    assert scene.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"id": 7}, "id"),
        ({"uuid": "x"}, "uuid"),
        ({"commit_user": "flink"}, "commit user"),
        ({"operation": "TRUNCATE"}, "operation"),
        ({"base_manifest_list": "manifest-list-of-the-base"}, "base list"),
        ({"delta_manifest_list_size": 1}, "delta list"),
        ({"time_ms": 0}, "time"),
    ],
)
def test_a_snapshot_that_does_not_follow_its_base_is_refused(change: dict[str, Any], word: str) -> None:
    scene, switch = Scene(), Switch()
    scene.foreign(timeMillis=5)

    def prepare(attempt: Attempt) -> Prepared:
        prepared = prepared_on(attempt, scene.table)
        return replace(prepared, snapshot=replace(prepared.snapshot, **change))

    with pytest.raises(RefusedError, match=word):
        commit(scene.env(switch), prepare)
    assert not [call for call in switch.calls if " put " in call]


def test_a_file_of_the_same_name_is_not_replaced() -> None:
    scene = Scene()

    def prepare(attempt: Attempt) -> Prepared:
        scene.table.put(f"manifest/manifest-{attempt.uuid}-0", b"another")
        return prepared_on(attempt, scene.table)

    with pytest.raises(RefusedError, match="other content"):
        commit(scene.env(), prepare)
