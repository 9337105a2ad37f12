"""A large plan of orphan files, carried out by as many invocations as it takes."""

from datetime import timedelta

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from lakesweep.aws.messages import Work
from lakesweep.aws.queues import Queues
from lakesweep.control import plans
from lakesweep.control.area import ControlArea
from lakesweep.control.reports import record_undone
from lakesweep.execute.waves import threads
from lakesweep.model.safety import HELD_AGAIN_S, REST_MS
from lakesweep.runs import local_executor
from tests.functions.deployment import PREFIX, Deployment, keys_of
from tests.support.orphan_scene import unique
from tests.support.reader import assert_all_readable
from tests.support.s3_server import seed_moto

COUNT = 600


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred actions are a large plan."""
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 100)
    monkeypatch.setattr(plans, "PART_ROWS", 200)
    monkeypatch.setattr(threads, "WAVE_KEYS", 100)
    monkeypatch.setattr(threads, "SLICE_KEYS", 50)
    monkeypatch.setattr(threads, "LANES", 1)


def deployment() -> tuple[Deployment, set[str], dict[str, object]]:
    """Return a deployment whose table has orphans, their keys, and the message that asks for their removal."""
    deployed = Deployment()
    table = deployed.table()
    orphans = {f"bucket-0/data-{unique(str(number))}-0.parquet" for number in range(COUNT)}
    seed_moto(deployed.bucket, [f"{PREFIX}/sales.db/orders/{key}" for key in orphans])
    for key in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[deployed.bucket].keys.values():
        key.last_modified -= timedelta(days=10)
    words = {"operation": "remove-orphan-files", "table": deployed.location(), "arguments": {}, "execute": True}
    deployed.invoke("on_demand", words)
    (message,) = deployed.waiting("execute")
    assert_all_readable(table)
    return deployed, orphans, message


def test_it_takes_as_many_invocations_as_it_takes() -> None:
    """One that came further hands on a message that counts from the beginning, so its length ends no plan."""
    deployed, orphans, message = deployment()
    message["hop"] = 15  # it could not be handed on once more
    sizes = []
    for _ in range(COUNT):
        answer = deployed.send("execute_batch", message, reads=50)
        assert answer.failed == []
        sizes.append(len(orphans & set(keys_of(deployed.store()))))
        waiting = deployed.waiting("execute")
        if not waiting:
            break
        assert answer.metrics["Continuations"] == 1
        (message,) = waiting
        assert message["hop"] == 1
    assert len(sizes) >= 3  # how often an invocation asks for the time that is left, and so stops, is not fixed
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0
    assert answer.metrics["RunsDone"] == 1
    assert "HopLimitReached" not in answer.metrics


def test_retention_goes_on_between_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the plan holds nobody up: who asks for the lease each minute finds it free once."""
    deployed, orphans, message = deployment()
    delays: list[int | None] = []
    again = Queues.again

    def noting(self: Queues, message: Work, delay_s: int | None = None) -> bool:
        delays.append(delay_s)
        return again(self, message, delay_s)

    monkeypatch.setattr(Queues, "again", noting)
    deployed.send("execute_batch", message, reads=55)
    assert len(orphans & set(keys_of(deployed.store()))) not in (0, COUNT)
    assert delays == [REST_MS // 1000]
    assert delays[0] > HELD_AGAIN_S
    (message,) = deployed.waiting("execute")
    answer = deployed.run(deployed.commit_event(6))[-1]
    assert answer.metrics["RunsDone"] == 1
    assert deployed.snapshots() == [5, 6]
    assert deployed.send("execute_batch", message).metrics["RunsDone"] == 1
    assert orphans.isdisjoint(keys_of(deployed.store()))


def test_a_plan_that_somebody_undid_ends_its_messages() -> None:
    """Whoever did that wants it so, and nobody is alarmed."""
    deployed, orphans, message = deployment()
    deployed.send("execute_batch", message, reads=55)
    (message,) = deployed.waiting("execute")
    left = orphans & set(keys_of(deployed.store()))
    record_undone(ControlArea(deployed.control(), deployed.location()), str(message["plan_id"]), "undoing")
    answer = deployed.send("execute_batch", message)
    assert (answer.failed, answer.metrics.get("RunsRefused"), answer.metrics["RunsSkipped"]) == ([], None, 1)
    assert not deployed.waiting("execute")
    assert orphans & set(keys_of(deployed.store())) == left


def test_a_plan_that_comes_no_further_is_no_circle() -> None:
    """No object goes: somebody hears of it, and the message ends."""
    deployed, orphans, message = deployment()
    answer = deployed.send("execute_batch", message, reads=6)
    assert orphans <= set(keys_of(deployed.store()))
    assert answer.metrics["RunsFailed"] == 1
    assert not deployed.waiting("execute")


def test_a_policy_that_stops_it_ends_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent for what somebody wants left."""
    from lakesweep.errors import HeldBackError
    from lakesweep.runs import execution, run

    deployed, orphans, message = deployment()
    checked: list[None] = []

    def check(*words: object, **more: object) -> None:
        checked.append(None)
        if len(checked) > 4:
            raise HeldBackError("it is paused")

    for module in (run, execution):
        monkeypatch.setattr(module, "check_policy", check)
    answer = deployed.send("execute_batch", message)
    assert len(orphans & set(keys_of(deployed.store()))) not in (0, COUNT)
    assert (answer.failed, answer.metrics.get("RunsFailed"), answer.metrics["RunsSkipped"]) == ([], None, 1)
    assert not deployed.waiting("execute")
