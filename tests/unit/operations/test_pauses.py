"""Pauses at work: who changes the policy at the same time, and who respects a pause until when."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lakesweep.api.fleet_change import TRIES, change_policy
from lakesweep.errors import PreconditionFailedError, StorageError, UsageError
from lakesweep.model.fleet_document import parse_fleet_policy
from lakesweep.model.fleet_edit import Edit, with_pause, without_pause
from lakesweep.model.pause import EVERY_TABLE, Pause, utc_text
from lakesweep.operations.registry import OPERATIONS
from lakesweep.runs.fleet import in_force, read_policy
from lakesweep.storage.location import spell
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.interleaving import Turns
from tests.support.memory_store import MemoryStore
from tests.support.paged_store import PagedStore
from tests.support.ruled_world import POLICY, TABLE, RuledWorld

BODY = b'{"version": 1,\n "rules": [{"tables": "memory://lake", "mode": "delete"}]}\n'
PLACE = "memory://ops/policy.json"


def stored(body: bytes = BODY) -> MemoryStore:
    store = MemoryStore("memory://ops")
    store.put("policy.json", body)
    return store


def pausing(folder: str, reason: str = "why") -> Callable[[bytes], Edit]:
    return lambda body: with_pause(body, PLACE, spell, folder, Pause(reason), 0)


def resuming(folder: str) -> Callable[[bytes], Edit]:
    return lambda body: without_pause(body, PLACE, spell, folder, 0)


def change(store: Store, edit: Callable[[bytes], Edit], *, execute: bool = True) -> tuple[Edit, bool]:
    return change_policy(store, "policy.json", PLACE, edit, execute=execute)


def pauses(store: Store) -> Mapping[str, object]:
    return read_policy(lambda _: store, PLACE).pauses


# --- changes at the same time ----------------------------------------------------------------------------------------


def orders(first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Yield every order in which two calls can take so many turns."""
    for chosen in itertools.combinations(range(first + second), first):
        yield tuple(0 if number in chosen else 1 for number in range(first + second))


@pytest.mark.parametrize("order", list(orders(3, 3)))
@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (("memory://lake/a", "memory://lake/b"), {"memory://lake/a", "memory://lake/b"}),
        (("memory://lake/a", "memory://lake/a"), {"memory://lake/a"}),
        ((EVERY_TABLE, "memory://lake/a"), {EVERY_TABLE, "memory://lake/a"}),
    ],
)
def test_two_pausers_at_once(order: tuple[int, ...], edits: tuple[str, str], expected: set[str]) -> None:
    """In every order of their requests, both pauses hold afterwards."""
    store = stored()
    calls = [
        Turns(lambda turn, edit=edit: change(PagedStore(store, lambda _: turn.pause()), pausing(edit)))  # type: ignore[misc]
        for edit in edits
    ]
    for number in order:
        next(calls[number], None)
    for each in calls:
        assert sum(1 for _ in each) <= 3
    assert pauses(store).keys() == expected


@pytest.mark.parametrize("at", [1, 2])
def test_somebody_edits_by_hand_meanwhile(at: int) -> None:
    """Before any request: the other's change is kept, whatever it is, and an invalid one stops the pause."""
    for body, is_valid in (
        (BODY.replace(b'"delete"', b'"observe"'), True),
        (b"  " + BODY.replace(b"]", b', {"tables": "memory://lake/c", "min_snapshots": 5}]'), True),
        (b"{", False),
    ):
        store, seen = stored(), list[str]()

        def before(request: str, store: MemoryStore = store, seen: list[str] = seen, body: bytes = body) -> None:
            seen.append(request)
            if len(seen) == at:
                store.put("policy.json", body)

        if not is_valid:
            with pytest.raises(UsageError, match=r"policy memory://ops/policy\.json"):
                change(PagedStore(store, before), pausing("memory://lake/a"))
            assert store.read("policy.json").data == body
            continue
        change(PagedStore(store, before), pausing("memory://lake/a"))
        assert store.read("policy.json").data == pausing("memory://lake/a")(body).body
        assert seen == ["read policy.json", "put policy.json"] * at, "the requests, and no more"


def test_somebody_removes_the_policy() -> None:
    """It is not written anew: whoever removed it meant something."""
    store = stored()
    entry = store._objects

    def before(request: str) -> None:
        if request.startswith("put"):
            entry.clear()

    with pytest.raises(UsageError, match="found nothing there"):
        change(PagedStore(store, before), pausing("memory://lake/a"))
    assert not entry


def test_others_always_come_first() -> None:
    """After eight tries it gives up, and says that nothing is changed."""
    store, numbers = stored(), itertools.count()

    def before(request: str) -> None:
        if request.startswith("put"):
            store.put("policy.json", BODY + b" " * next(numbers))

    with pytest.raises(StorageError, match=f"others changed it {TRIES} times in a row; nothing is changed") as refused:
        change(PagedStore(store, before), pausing("memory://lake/a"))
    assert (refused.value.code, next(numbers), pauses(store)) == ("contended", TRIES, {})


@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_failure_at_every_request(mode: str, at: int) -> None:
    """The policy is as before or as wanted, never anything else; the same command again does the rest."""
    store = stored()
    wanted = pausing("memory://lake/a")(BODY).body
    with pytest.raises((StorageError, ProcessDeathError)) as failed:
        change(FaultyStore(store, Switch(at, mode), "policy"), pausing("memory://lake/a"))
    assert store.read("policy.json").data == (wanted if (at, "after" in mode) == (2, True) else BODY)
    if at == 2 and isinstance(failed.value, StorageError):
        assert "may have been changed, or not" in str(failed.value)
    change(store, pausing("memory://lake/a"))
    assert store.read("policy.json").data == wanted


class _AnswerLost(WrappingStore):
    """A write that took effect is answered as if somebody else had been first."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        super().put(key, data, if_absent=if_absent, if_match=if_match)
        raise PreconditionFailedError("the answer was lost, and the repetition found this")


def test_its_own_change_counts_as_done() -> None:
    """It is not made twice, and not taken for another's."""
    store = stored()
    found, is_written = change(_AnswerLost(store), pausing("memory://lake/a"))
    assert (is_written, [each for each, _, _ in found.changes]) == (True, ["memory://lake/a"])
    assert pauses(store) == {"memory://lake/a": Pause("why")}


def test_a_dry_run_only_reads() -> None:
    """One request; and a change that is there already is none."""
    store, seen = stored(), list[str]()
    watched = PagedStore(store, seen.append)
    found, is_written = change(watched, pausing("memory://lake/a"), execute=False)
    assert (is_written, len(found.changes), seen) == (False, 1, ["read policy.json"])
    assert store.read("policy.json").data == BODY
    found, is_written = change(watched, resuming("memory://lake/a"))
    assert (is_written, found.changes, seen) == (False, [], ["read policy.json"] * 2)


# --- who respects it -------------------------------------------------------------------------------------------------


def gate(world: RuledWorld, operation: str) -> str:
    """Run an operation as far as the policy, and return the code with which it is refused; empty for another end."""
    try:
        report = world.maintainer().run(operation, **ARGUMENTS.get(operation, {}))
    except UsageError as error:
        return error.code
    return "" if report.refusal is None else report.refusal.code


ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "reset-consumer": {"consumer_id": "c", "next_snapshot_id": 1},
    "create-tag": {"tag": "t"},
    "replace-tag": {"tag": "t"},
    "rename-tag": {"tag": "t", "target_tag": "u"},
    "delete-tag": {"tag": ["t"]},
    "drop-partition": {"partition": [{"dt": "1"}]},
    "delete-rows": {"where": "k = 1"},
    "erase": {"where": "k = 1"},
    "rollback": {"snapshot": 5},
    "create-branch": {"branch": "b"},
    "delete-branch": {"branch": "b"},
    "fast-forward": {"branch": "b"},
    "undo": {"run_id": "20260131T120000Z-1f2e3d4c"},
}


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_is_refused_until_the_end_and_not_after(operation: str) -> None:
    """By the clock of the table's store, to the millisecond; whatever this machine's clock says."""
    world = RuledWorld()
    end_ms = world.now_ms + 3_600_000
    world.rule(mode="delete", pause={"reason": "incident 5", "until": utc_text(end_ms), "by": "ann"})
    for now_ms, is_refused in ((world.now_ms, True), (end_ms - 1, True), (end_ms, False), (end_ms + 1, False)):
        world.now_ms = now_ms
        assert (gate(world, operation) == "paused") == is_refused, (operation, now_ms - end_ms)


def test_the_refusal_says_why_and_until_when() -> None:
    """Also of a folder around, and of all tables."""
    world = RuledWorld()
    said = {"reason": "incident 5", "until": utc_text(world.now_ms + 5000), "by": "ann"}
    document = {"version": 1, "pause": said, "rules": [{"tables": TABLE, "mode": "delete"}]}
    world.policies.put("policy.json", json.dumps(document).encode())
    report = world.maintain()
    assert report.refusal is not None
    end = said["until"]
    assert report.refusal.message.endswith(
        f"is paused: policy {POLICY} says so of all tables: incident 5, until {end}, by ann"
    )
    world.now_ms += 5000
    assert world.maintain().status == "done"


def test_a_run_that_rests_notices_a_new_pause_and_an_ended_one_stops_nothing() -> None:
    """`check_policy` is asked again within a run; it reads the policy and the clock anew."""
    world = RuledWorld()
    table = world.rule(mode="delete").maintainer().table
    from lakesweep.errors import HeldBackError
    from lakesweep.runs.fleet import check_policy

    check_policy(table, manual=True)
    world.rule(mode="delete", pause={"reason": "x", "until": utc_text(world.now_ms + 1000)})
    with pytest.raises(HeldBackError, match="is paused"):
        check_policy(table, manual=True)
    world.now_ms += 1000
    check_policy(table, manual=False)


class _Doubtful(WrappingStore):
    @property
    def clock_is_doubtful(self) -> bool:
        return True


def test_a_clock_in_doubt_ends_no_pause() -> None:
    """On a share whose time cannot be asked, the pause lasts until somebody resumes. No time is asked without need."""
    body = json.dumps(
        {
            "version": 1,
            "rules": [{"tables": "memory://lake", "pause": {"reason": "x", "until": "2001-01-01T00:00:00Z"}}],
        }
    )
    policy = parse_fleet_policy(body.encode(), PLACE, spell)
    store = MemoryStore("memory://lake/t")
    assert in_force(policy, store).pauses == {}
    assert in_force(policy, _Doubtful(store)).pauses.keys() == {"memory://lake"}

    def no_clock() -> int:
        raise AssertionError

    for elsewhere in ("memory://other/t", "memory://lake2"):
        assert in_force(policy, MemoryStore(elsewhere, clock=no_clock)) == policy


def test_a_clock_that_does_not_answer_stops_the_run() -> None:
    """It is no end of the pause."""

    class NoClock(WrappingStore):
        def now_ms(self) -> int:
            raise StorageError("no Date header", code="no_date")

    pause = {"reason": "x", "until": "2001-01-01T00:00:00Z"}
    policy = parse_fleet_policy(json.dumps({"version": 1, "pause": pause, "rules": []}).encode(), PLACE, spell)
    with pytest.raises(StorageError, match="no Date header"):
        in_force(policy, NoClock(MemoryStore("memory://lake/t")))
