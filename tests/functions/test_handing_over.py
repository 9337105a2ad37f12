"""Work that outgrows a function goes on in another message, and ends the same."""

import pytest

from lakesweep.aws import execution
from lakesweep.aws.work import MINUTES
from lakesweep.errors import LeaseHeldError
from lakesweep.execute import batches
from lakesweep.model.safety import EPOCH_MS, HELD_AGAIN_S, REST_MS
from tests.functions.deployment import Deployment, keys_of
from tests.support.every import EVERY
from tests.support.maintenance import assert_roots_readable

HINT = {"format_version": 1, "kind": "hint", "branch": "main", "snapshot_id": 6, "hop": 0}


def hint(deployed: Deployment, **words: object) -> dict[str, object]:
    return {**HINT, "table": deployed.location(), **words}


def end_state() -> set[str]:
    deployed = Deployment()
    deployed.table()
    deployed.run(deployed.commit_event(6))
    return set(keys_of(deployed.store()))


@pytest.mark.long
def test_time_may_run_out_at_any_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is done at a time, the end is the same, and no message goes in circles."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    expected = end_state()
    cuts, step = 0, 2 * EVERY + 1
    for reads in range(1, 200, step):
        deployed = Deployment()
        table = deployed.table()
        answer = deployed.send("expire", hint(deployed), reads=reads)
        assert answer.failed == []
        assert_roots_readable(table)
        (*went_on,) = deployed.waiting("execute")
        if not went_on:
            break
        cuts += 1
        assert [(message["kind"], message["hop"]) for message in went_on] == [("maintain", 1)]
        assert answer.metrics["Continuations"] == 1
        deployed.send("execute_batch", *went_on)
        deployed.run()
        assert set(keys_of(deployed.store())) == expected, reads
    assert cuts * step > 35, "a run looks at the clock at many places"


def test_a_large_plan_is_stored_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """`expire` plans it, `execute_batch` carries it out; the run has the plan's id."""
    monkeypatch.setattr(execution, "MAX_ACTIONS_IN_PLACE", 3)
    deployed = Deployment()
    deployed.table()
    deployed.send("expire", hint(deployed))
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    (message,) = deployed.waiting("execute")
    assert message["kind"] == "execute"
    answer = deployed.send("execute_batch", message)
    assert deployed.snapshots() == [5, 6]
    assert answer.metrics["RunsDone"] == 1
    assert any(key.endswith(f"reports/{message['plan_id']}.json") for key in deployed.control_keys())
    again = deployed.send("execute_batch", message)
    assert (again.failed, again.metrics["RunsSkipped"]) == ([], 1)


def test_a_table_too_large_to_plan_for_ends() -> None:
    """Where even the larger function has no time to plan, nothing goes in circles, and somebody hears of it."""
    deployed = Deployment()
    deployed.table()
    message = {"format_version": 1, "kind": "maintain", "table": deployed.location(), "branch": "main", "hop": 1}
    answer = deployed.send("execute_batch", message, reads=2)
    assert answer.failed == []
    assert answer.metrics["RunsFailed"] == 1
    assert not deployed.waiting("execute")
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]


def test_hops_end() -> None:
    deployed = Deployment()
    deployed.table()
    answer = deployed.send("expire", hint(deployed, hop=15), reads=2)
    assert answer.metrics["HopLimitReached"] == 1
    assert not deployed.waiting("execute")


def test_a_held_lease_is_waited_for() -> None:
    """The message comes again later, through the commits, with a hop more."""
    deployed = Deployment()
    deployed.table()
    deployed.run(deployed.commit_event(6))
    (lease,) = [key for key in deployed.control_keys() if key.endswith("lease.json")]
    control = deployed.control()
    control.put(
        lease,
        b'{"run_id": "somebody", "token": 99, "expires_at_ms": %d, "intent": null}' % (control.now_ms() + 60_000),
    )
    table = deployed.table("sales.db/orders")  # written anew: all is due again
    answer = deployed.send("expire", hint(deployed, snapshot_id=None))
    assert (answer.failed, answer.metrics["LeaseHeld"]) == ([], 1)
    (message,) = deployed.waiting("commits")
    assert (message["hop"], message["snapshot_id"]) == (1, None)
    assert_roots_readable(table)


@pytest.mark.parametrize(("hop", "delay_s"), [(0, 60), (11, 60), (12, 900), (14, 900)])
def test_a_held_lease_is_asked_for_every_minute(monkeypatch: pytest.MonkeyPatch, hop: int, delay_s: int) -> None:
    """Whoever has it for long lets others have it for longer than that, every ten minutes; later there is no haste."""
    deployed = Deployment()
    deployed.table()
    queues = deployed.load("expire").runtime.queues
    delays: list[int | None] = []
    monkeypatch.setattr(type(queues), "again", lambda self, message, delay: delays.append(delay) or True)

    def held(*words: object, **more: object) -> None:
        raise LeaseHeldError("others have it")

    monkeypatch.setattr(execution, "maintain", held)
    assert deployed.send("expire", hint(deployed, hop=hop)).failed == []
    assert delays == [delay_s]
    assert REST_MS > 1000 * HELD_AGAIN_S
    assert MINUTES * HELD_AGAIN_S * 1000 > EPOCH_MS + REST_MS


def test_a_commit_right_after_a_pass_waits() -> None:
    """Passes are a minute apart; the commit in between is not forgotten."""
    deployed = Deployment()
    table = deployed.table()
    deployed.run(deployed.commit_event(6))
    for number in (7, 8, 9):
        table.commit(f"+F{number}", f"-F{number - 1}")
        table.hint("LATEST", number)
    deployed.send("on_snapshot_written", deployed.commit_event(9))
    assert not deployed.waiting("expire")
    (message,) = deployed.waiting("commits")
    assert (message["kind"], message["snapshot_id"], message["hop"]) == ("hint", 9, 1)
    late = deployed.send("expire", hint(deployed, snapshot_id=9))
    assert late.failed == []
    assert deployed.snapshots() == [5, 6, 7, 8, 9], "a hint that was sent before that pass waits as well"
    assert [m["snapshot_id"] for m in deployed.waiting("commits")] == [9]
    assert not deployed.send("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}).failed
    deployed.run()
    assert deployed.snapshots() == [8, 9]


def test_a_sweep_goes_on() -> None:
    """A sweep whose time is over sends the rest, and each table is asked once."""
    deployed = Deployment()
    names = [f"sales.db/t{number:03}" for number in range(70)]
    source = deployed.table(names[0], commits=1)
    bodies = {key: source.store.read(key).data for key in keys_of(deployed.store(names[0]))}
    for name in names[1:]:
        store = deployed.store(name)
        for key, body in bodies.items():
            store.put(key, body)
    message: dict[str, object] = {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}
    swept, parts = 0.0, 0
    while True:
        parts += 1
        answer = deployed.send("sweep", message, reads=20)
        swept += answer.metrics.get("TablesSwept", 0)  # the last part may find no table
        rest = deployed.waiting("sweep")
        if not rest:
            break
        (message,) = rest
        assert message["hop"] == parts
    assert (swept, parts > 1) == (70, True)
    assert sorted(message["table"] for message in deployed.waiting("expire")) == sorted(map(deployed.location, names))
