"""Other writers at every moment of a commit."""

import json
from collections.abc import Callable
from copy import copy

import pytest

from lakesweep.commit.environment import Attempt, Known, Prepared
from lakesweep.commit.loop import commit
from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, OutOfTimeError, StorageError
from tests.support.commit_scene import Acting, Failing, Scene, prepared_on
from tests.support.faulty_store import Switch

BEFORE_PUT = [
    ("table list snapshot/", 1),
    ("table read snapshot/snapshot-3", 1),
    ("table list snapshot/", 2),
    ("table read snapshot/snapshot-3", 2),
    ("table put snapshot/snapshot-4", 1),
]
"""Requests of a commit up to the put."""


@pytest.mark.parametrize(("name", "number"), BEFORE_PUT)
def test_a_foreign_commit_is_never_replaced(name: str, number: int) -> None:
    scene = Scene()
    written: list[str] = []
    ended = scene.commit(Acting(name, lambda: written.append(scene.foreign()), number=number))
    assert (ended.status, ended.snapshot_id, ended.replaced) == ("committed", 5, 0)
    assert scene.snapshot(4).uuid == written[0]
    assert scene.snapshot(5).uuid == ended.uuid


def test_a_later_attempt_knows_what_came_since() -> None:
    scene = Scene()

    def foreign() -> None:
        scene.foreign()
        scene.foreign(commitKind="COMPACT")

    ended = scene.commit(Acting("table put snapshot/snapshot-4", foreign))
    first, second = scene.prepared
    assert (first.number, second.number, ended.attempts) == (1, 2, 2)
    assert (first.base.since, first.base.is_restart) == ((), False)
    assert [root.snapshot.commit_kind for root in second.base.since] == ["APPEND", "COMPACT"]
    assert (second.base.since[-1], second.base.is_restart) == (second.base.root, False)
    assert first.uuid != second.uuid
    assert (first.commit_user, second.commit_user) == ("lakesweep-r1-0", "lakesweep-r1-0-2")


def test_a_second_attempt_reads_one_document_three_times() -> None:
    """What won, as such, as base, and as base once more; the lease is as this run left it, and ours is listed."""
    scene = Scene()
    scene.commit()
    switch = Acting("table put snapshot/snapshot-5", scene.foreign)
    scene.commit(switch)
    second = switch.calls[switch.calls.index("table put snapshot/snapshot-5") + 1 :]
    reads = [call for call in second if " read " in call and "LATEST" not in call]
    assert reads == [
        "table read snapshot/snapshot-5",  # what won
        "table read snapshot/snapshot-5",  # as base
        "table read snapshot/snapshot-5",  # the base once more
    ]


@pytest.mark.parametrize(("name", "number"), [("table list snapshot/", 1), ("table list schema/", 2)])
def test_a_new_schema_is_not_missed(name: str, number: int) -> None:
    """From the moment that the schemas were listed first, until they are listed again."""
    scene = Scene()
    ended = scene.commit(Acting(name, scene.alter, number=number))
    assert (ended.status, ended.attempts, scene.snapshot(4).schema_id) == ("committed", 2, 1)
    assert scene.prepared[-1].base.since == ()
    assert not scene.prepared[-1].base.is_restart


@pytest.mark.parametrize(("name", "number"), BEFORE_PUT[1:4])
def test_another_base_of_the_same_id_is_noticed(name: str, number: int) -> None:
    """After a rollback, another writer used the id again."""
    scene = Scene()

    def again() -> None:
        scene.remove(3)
        scene.foreign(3)

    ended = scene.commit(Acting(name, again, number=number))
    assert (ended.status, ended.snapshot_id) == ("committed", 4)
    last = scene.prepared[-1]
    assert last.base.root.body == scene.table.read(scene.path(3)).data
    assert number == 1 or (last.base.is_restart and last.base.since == ())


def test_a_rollback_in_between_means_a_new_beginning() -> None:
    scene = Scene()
    ended = scene.commit(Acting("table list snapshot/", lambda: scene.remove(3), number=2))
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 3, 2)
    assert scene.prepared[-1].base.is_restart


def test_a_base_that_vanished_takes_the_snapshot_with_it() -> None:
    """A rollback between the last look and the put."""
    scene = Scene()
    ended = scene.commit(Acting("table put snapshot/snapshot-4", lambda: scene.remove(3)))
    assert (ended.status, ended.code, ended.attempts) == ("base_vanished", "base_vanished", 1)
    assert scene.ids() == [1, 2]
    assert scene.lease().commits == {}


def test_another_base_after_the_put_takes_the_snapshot_with_it() -> None:
    scene = Scene()
    ended = scene.commit(Acting("table put snapshot/snapshot-4", lambda: scene.foreign(3)))
    assert (ended.status, scene.ids()) == ("base_vanished", [1, 2, 3])


def test_a_snapshot_that_may_not_be_deleted_is_left_and_reported() -> None:
    scene = Scene()
    switch = Acting("table put snapshot/snapshot-4", lambda: scene.remove(3))
    run = switch._run
    deny = Failing("table delete 1", {1: AccessDeniedError("delete: denied")})
    switch._run = lambda name, call: deny._run(name, call) if "delete" in name else run(name, call)  # type: ignore[method-assign]
    ended = scene.commit(switch)
    assert (ended.status, ended.code, scene.ids()) == ("base_vanished", "snapshot_left", [1, 2, 4])
    assert "denied" in ended.warnings[0]
    assert scene.lease().commits["main"].id == 4


def test_a_snapshot_with_a_successor_is_left() -> None:
    """Deleting it would leave a hole below another writer's snapshot."""
    scene = Scene()

    def rollback_and_commit() -> None:
        scene.remove(3)
        scene.foreign(5)

    ended = scene.commit(Acting("table put snapshot/snapshot-4", rollback_and_commit, after=True))
    assert (ended.status, ended.code, scene.ids()) == ("base_vanished", "snapshot_left", [1, 2, 4, 5])


def test_a_snapshot_that_is_the_only_one_left_stays() -> None:
    """The base is replaced while the snapshot is put, and what replaced it expires. A table must keep a snapshot."""
    scene = Scene()

    class Replaced(Acting):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == "table put snapshot/snapshot-4":
                scene.foreign(3)
            return super()._run(name, call)

    ended = scene.commit(Replaced("table read snapshot/snapshot-4", lambda: scene.remove(1, 2, 3)))
    assert (ended.status, ended.code, scene.ids()) == ("base_vanished", "snapshot_left", [4])


def test_a_base_that_expired_is_no_rollback() -> None:
    """Expiry leaves nothing below the newest snapshots."""
    scene = Scene()
    ended = scene.commit(Acting("table put snapshot/snapshot-4", lambda: scene.remove(1, 2, 3), after=True))
    assert (ended.status, ended.warnings, scene.ids()) == ("committed", (), [4])


def test_a_base_that_expired_while_it_was_read_is_no_damage() -> None:
    scene = Scene()

    def prepare(attempt: Attempt) -> Prepared:
        if attempt.number == 1:
            scene.foreign()
            raise ObjectNotFoundError("manifest/manifest-1 does not exist")
        return prepared_on(attempt, scene.table)

    ended = commit(scene.env(), prepare)
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 5, 2)


def test_a_file_that_is_missing_below_the_newest_snapshot_is_damage() -> None:
    scene = Scene()

    def prepare(attempt: Attempt) -> Prepared:
        raise ObjectNotFoundError("manifest/manifest-1 does not exist")

    with pytest.raises(ObjectNotFoundError):
        commit(scene.env(), prepare)


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_snapshot_that_is_replaced_at_once_is_committed_again(has_lock: bool) -> None:
    """A writer that had tested before our put copies its own over it."""
    scene = Scene()
    written: list[str] = []
    act = Acting("table put snapshot/snapshot-4", lambda: written.append(scene.foreign(4)), after=True)
    ended = scene.commit(act, has_lock=has_lock)
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.replaced) == ("committed", 5, 2, 1)
    assert scene.snapshot(4).uuid == written[0]
    (warning,) = ended.warnings
    assert "another writer replaced this snapshot of Lakesweep, commit user flink" in warning


def test_a_snapshot_that_is_replaced_soon_is_committed_again() -> None:
    scene = Scene()
    written: list[str] = []

    def sleep(seconds: float) -> None:
        scene.sleep(seconds)
        if seconds == 5 and not written:
            written.append(scene.foreign(4))

    ended = scene.commit(sleep=sleep, has_lock=False)
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.replaced) == ("committed", 5, 2, 1)
    assert scene.snapshot(4).uuid == written[0]
    (warning,) = ended.warnings
    assert "another writer replaced this snapshot of Lakesweep, commit user flink" in warning


@pytest.mark.parametrize("age_s", [0, 2, 60, -60])
def test_no_commit_stands_on_one_that_a_writer_may_be_about_to_replace(age_s: int) -> None:
    """It looked before our first snapshot was put. With a second one on top, its rows would be lost."""
    scene = Scene()
    scene.commit()
    scene.now_ms += age_s * 1000
    written: list[str] = []

    def sleep(seconds: float) -> None:
        scene.sleep(seconds)
        if scene.ids()[-1] == 4 and not written:
            written.append(scene.foreign(4))

    ended = scene.commit(run="r2", sleep=sleep, has_lock=False)
    if age_s == 60:
        assert (ended.attempts, scene.slept, written) == (1, [5.0], []), "nobody waits for so long"
        return
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 5, 2)
    assert scene.slept[0] == min(5, 5 - age_s)
    assert scene.snapshot(4).uuid == written[0]
    assert scene.prepared[-1].base.root.snapshot.uuid == written[0]


def test_with_a_lock_nobody_waits() -> None:
    scene = Scene()
    scene.commit()
    scene.commit()
    assert scene.slept == []
    scene.foreign()
    scene.commit(has_lock=False)
    assert scene.slept == [5.0]


def test_a_snapshot_that_is_replaced_later_is_noticed_by_the_next_commit() -> None:
    scene = Scene()
    scene.commit()
    uuid = scene.foreign(4)
    for _ in range(2):
        scene.foreign()
    ended = scene.commit(run="r2")
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.replaced) == ("committed", 7, 1, 1)
    assert f"{uuid} of commit user flink; another writer replaced it; docs/operations.md" in ended.warnings[0]
    assert scene.commit(run="r3").replaced == 0


def test_a_replaced_commit_is_noticed_though_nothing_is_left_to_do() -> None:
    scene = Scene()
    scene.commit()
    scene.foreign(4)
    ended = commit(scene.env(run="r2"), lambda attempt: None)
    assert (ended.status, ended.replaced) == ("nothing_to_do", 1)


LOST_ANSWER = Failing("table put snapshot/snapshot-4", {1: StorageError("put: read timeout")}, takes_effect=True)


@pytest.mark.parametrize("skew_ms", [-3_600_000, -20_000, 0, 20_000, 3_600_000])
@pytest.mark.parametrize("then", ["at once", "later"])
@pytest.mark.parametrize("switch", [None, LOST_ANSWER], ids=["answered", "lost answer"])
def test_a_commit_after_a_rollback_replaces_nothing(then: str, switch: Switch | None, skew_ms: int) -> None:
    """Somebody rolled our commit back, and a writer committed: its snapshot was made after ours was written."""
    scene = Scene()
    assert scene.commit(copy(switch)).snapshot_id == 4
    scene.remove(4)
    scene.now_ms += 10_000
    list_name = json.loads(scene.table.read(scene.path(3)).data)["deltaManifestList"]
    scene.table.put("manifest/manifest-list-after-0", scene.table.read(f"manifest/{list_name}").data)
    scene.foreign(4, timeMillis=scene.now_ms + skew_ms, deltaManifestList="manifest-list-after-0")
    if then == "later":
        scene.foreign(5, timeMillis=scene.now_ms)
    ended = scene.commit(run="r2")
    assert (ended.status, ended.replaced, ended.told) == ("committed", 0, ())
    assert "rolled the branch back" in ended.warnings[0]


def test_what_a_pass_told_is_not_counted_again() -> None:
    scene = Scene()
    first = scene.commit()
    assert first.made is not None
    scene.foreign(4)
    told = Known(judged=frozenset({first.made.key}))
    assert scene.commit(run="r2", known=lambda: told).replaced == 0


def test_the_lease_names_what_was_replaced_and_told() -> None:
    """So a pass that comes before the run has ended does not take it for the commit of another writer."""
    scene = Scene()
    act = Acting("table put snapshot/snapshot-4", lambda: scene.foreign(4), after=True)
    ended = scene.commit(act)
    assert (ended.snapshot_id, ended.replaced, len(ended.told)) == (5, 1, 1)
    record = scene.lease().commits["main"]
    assert (record.id, record.state, record.replaced) == (5, "published", tuple(number for _, number in ended.told))
    assert ended.made is not None
    assert record.seen.key == ended.made.key


def test_a_commit_that_expired_is_not_replaced() -> None:
    scene = Scene()
    scene.commit()
    scene.foreign()
    scene.remove(1, 2, 3, 4)
    ended = scene.commit(run="r2")
    assert (ended.status, ended.replaced, ended.warnings) == ("committed", 0, ())


def test_a_caller_without_time_has_committed() -> None:
    """The second look is left to the next commit."""
    scene, switch = Scene(), Switch()

    def check(what: str) -> None:
        if "table put snapshot/snapshot-4" in switch.calls:
            raise OutOfTimeError(what)

    ended = scene.commit(switch, has_lock=False, check_time=check)
    assert (ended.status, len(ended.warnings)) == ("committed", 1)
    assert scene.lease().commits["main"].state == "published"


@pytest.mark.parametrize("after", [False, True], ids=["wins", "replaces"])
def test_a_writer_that_is_always_first_ends_the_commit(after: bool) -> None:
    scene = Scene()

    class Always(Switch):
        def _run(self, name: str, call: object) -> object:
            is_put = name.startswith("table put snapshot/snapshot-")
            if is_put and not after:
                scene.foreign()
            answer = super()._run(name, call)  # type: ignore[arg-type]
            if is_put and after:
                scene.foreign(int(name.rpartition("-")[2]))
            return answer

    ended = scene.commit(Always(), options={"commit.max-retries": "3"})
    status, code = ("replaced", "commit_replaced") if after else ("gave_up", "commit_conflict")
    assert (ended.status, ended.code, ended.attempts, ended.replaced) == (status, code, 4, 4 if after else 0)
    assert "commit.max-retries 3" in ended.message
    assert scene.ids() == list(range(1, 8))
    assert all(scene.snapshot(each).commit_user == "flink" for each in range(4, 8))
    assert scene.lease().expires_ms == 0


def test_a_gap_is_not_filled() -> None:
    """Snapshot 4 would be older than 5, and would belong to no history."""
    scene = Scene()
    ended = scene.commit(Acting("table list snapshot/", lambda: scene.foreign(5), number=2))
    assert (ended.snapshot_id, scene.ids()) == (6, [1, 2, 3, 5, 6])
    assert scene.prepared[-1].base.is_restart
