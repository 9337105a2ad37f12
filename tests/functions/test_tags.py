"""Tags in the deployed system: by hand, by passes, and where something comes between."""

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakesweep.aws import execution
from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan
from lakesweep.operations.registry import OPERATIONS
from lakesweep.storage.s3.store import S3Store
from tests.functions.deployment import STATED, Answer, Deployment
from tests.support.reader import read_all, read_root
from tests.support.s3_server import moto_client
from tests.support.table_builder import TableBuilder

AT_ONCE = {"LAKESWEEP_MIN_INTERVAL": "0 ms"}
ORDERS = "sales.db/orders"
DAILY = {**STATED, "tag.automatic-creation": "process-time", "tag.creation-period": "daily"}
UTC_DAILY = {**DAILY, "sink.process-time-zone": "UTC"}
DAY_MS = 86_400_000
SWEEP = {"format_version": 1, "kind": "tag_sweep", "cursor": None, "hop": 0}


class Lake(Deployment):
    """A deployment with a table, and somebody who asks for something."""

    def demand(self, operation: str, execute: bool = False, **arguments: object) -> dict[str, Any]:
        event = {"operation": operation, "table": self.location(), "arguments": arguments, "execute": execute}
        answer = self.invoke("on_demand", event)
        assert "Traceback" not in answer.text
        return answer.value

    def done(self, operation: str, **arguments: object) -> list[Answer]:
        """Ask for something, and have it carried out."""
        value = self.demand(operation, True, **arguments)
        assert (value["status"], value["queued"]) == ("planned", True), value
        answers = self.run()
        assert [answer.failed for answer in answers] == [[]] * len(answers)
        return answers

    def hint(self, **words: object) -> dict[str, object]:
        hint = {"kind": "hint", "table": self.location(), "branch": "main", "snapshot_id": None, "hop": 0}
        return {"format_version": 1, **hint, **words}

    def tags(self) -> dict[str, int]:
        """Return the tags, each with its snapshot."""
        keys = [entry.key for entry in self.store().list("tag/") if entry.key.count("/") == 1]
        found = {key.removeprefix("tag/tag-"): json.loads(self.store().read(key).data)["id"] for key in keys}
        for name in found:
            read_root(self.store(), f"tag/tag-{name}")
        return found

    def area(self) -> ControlArea:
        return ControlArea(self.control(), self.location())


def total(answers: list[Answer], metric: str) -> float:
    return sum(answer.metrics.get(metric, 0) for answer in answers)


def days(deployed: Lake, count: int, options: dict[str, str], first: int = 1) -> TableBuilder:
    """Write a table with a commit a day, early in 1970."""
    table = deployed.table(commits=0, options=options)
    for number in range(first, first + count):
        commit(table, number)
    return table


def commit(table: TableBuilder, number: int) -> None:
    table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []), time_ms=number * DAY_MS + 1)
    table.hint("LATEST", number)


# --- by hand ---


def test_a_tag_from_beginning_to_end() -> None:
    """Made, let name another snapshot, renamed, removed with its files."""
    deployed = Lake(extra=AT_ONCE)
    table = deployed.table(commits=2)
    answers = deployed.done("create-tag", tag="cut", snapshot=1)
    assert deployed.tags() == {"cut": 1}
    assert (total(answers, "TagsCreated"), total(answers, "TagsExpired")) == (1, 0)
    answers = deployed.done("replace-tag", tag="cut", snapshot=2)
    assert (deployed.tags(), total(answers, "TagsCreated")) == ({"cut": 2}, 1)
    answers = deployed.done("rename-tag", tag="cut", target_tag="kept")
    assert (deployed.tags(), total(answers, "TagsCreated")) == ({"kept": 2}, 0)
    for number in range(3, 9):
        table.commit(f"+F{number}", f"-F{number - 1}")
        table.hint("LATEST", number)
    deployed.run(deployed.commit_event(8))
    assert deployed.snapshots()[0] > 2
    files = len(list(deployed.store().list("bucket-0/")))
    answers = deployed.done("delete-tag", tag="kept")
    assert deployed.tags() == {}
    assert len(list(deployed.store().list("bucket-0/"))) == files - 1, "what only the tag had"
    assert total(answers, "ObjectsDeleted") > 1
    assert total(answers, "TagsExpired") == 0, "nobody's time was over"
    read_all(deployed.store())


def test_a_plan_says_what_would_be_written_and_writes_nothing() -> None:
    deployed = Lake()
    deployed.table()
    value = deployed.demand("create-tag", tag="cut", time_retained="1 d")
    assert (value["status"], value["queued"], value["run_id"]) == ("planned", False, None)
    (put,) = load_plan(deployed.area(), value["plan_id"]).actions
    assert put.path == "tag/tag-cut"
    assert deployed.tags() == {} and deployed.waiting("execute") == []


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if "tag" in name])
def test_a_deployment_that_observes_carries_nothing_out(operation: str) -> None:
    deployed = Lake(mode="observe")
    deployed.table().tag("cut")
    arguments = {"create-tag": {"tag": "new"}, "rename-tag": {"tag": "cut", "target_tag": "new"}}
    others = {"replace-tag": {"tag": "cut"}, "delete-tag": {"tag": "cut"}}
    value = deployed.demand(operation, True, **{**arguments, **others}.get(operation, {}))
    assert value["refusal"]["code"] == "observed"
    assert deployed.tags().keys() == {"cut"} and deployed.waiting("execute") == []


def test_a_tag_that_was_made_and_removed_is_not_made_again_by_a_late_message() -> None:
    """Messages come twice, and the second may come when somebody has changed their mind."""
    deployed = Lake(extra=AT_ONCE)
    deployed.table()
    deployed.demand("create-tag", True, tag="cut")
    (message,) = deployed.waiting("execute")
    assert deployed.send("execute_batch", message).failed == []
    deployed.done("delete-tag", tag="cut")
    assert deployed.send("execute_batch", message).failed == []
    deployed.run()
    assert deployed.tags() == {}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("create-tag", {"tag": "cut"}),
        ("create-tag", {"tag": "a/b"}),
        ("create-tag", {"tag": ""}),
        ("create-tag", {"tag": "new", "snapshot": 99}),
        ("create-tag", {"tag": "new", "time_retained": "0 s"}),
        ("create-tag", {"tag": "new", "time_zone": "Mars/Olympus"}),
        ("create-tag", {}),
        ("rename-tag", {"tag": "none", "target_tag": "new"}),
        ("rename-tag", {"tag": "cut", "target_tag": "cut"}),
        ("replace-tag", {"tag": "none"}),
        ("expire-tags", {"keep_daily": 3}),
        ("tag-schedule", {"backfill": "perhaps"}),
    ],
)
def test_a_demand_that_cannot_be_met_is_answered(operation: str, arguments: dict[str, object]) -> None:
    """With a code and a sentence; nobody is alarmed, and nothing is queued."""
    deployed = Lake()
    deployed.table().tag("cut")
    value = deployed.demand(operation, True, **arguments)
    assert (value["status"], value["queued"]) == ("refused", False), value
    assert value["refusal"]["code"] and value["refusal"]["message"]
    assert deployed.tags().keys() == {"cut"} and deployed.waiting("execute") == []


def test_a_trigger_plans_both_steps() -> None:
    deployed = Lake()
    days(deployed, 3, UTC_DAILY)
    value = deployed.demand("tag-schedule")
    assert (value["status"], value["queued"], value["plan_id"]) == ("planned", False, None)
    assert [step["operation"] for step in value["steps"]] == ["auto-tags", "expire-tags"]
    assert deployed.tags() == {}


def test_a_trigger_that_is_carried_out_asks_for_a_pass() -> None:
    deployed = Lake(extra=AT_ONCE)
    days(deployed, 3, UTC_DAILY)
    value = deployed.demand("tag-schedule", True)
    assert value["queued"] is True
    (message,) = deployed.waiting("execute")
    assert (message["kind"], message["table"]) == ("maintain", deployed.location())
    assert deployed.send("execute_batch", message).failed == []
    assert deployed.tags() == {"1970-01-01": 1, "1970-01-02": 2, "1970-01-03": 3}


def test_a_trigger_that_is_carried_out_takes_no_arguments() -> None:
    """The pass goes by the table's own options, and would do something else than what was planned."""
    deployed = Lake()
    days(deployed, 3, DAILY)
    for arguments in ({"time_zone": "UTC"}, {"backfill": True}):
        value = deployed.demand("tag-schedule", True, **arguments)
        assert value["refusal"]["code"] == "usage", value
    assert deployed.waiting("execute") == []


# --- by passes ---


def test_a_commit_makes_its_tags_and_removes_those_whose_time_is_over() -> None:
    """Before the snapshots expire that they are of."""
    deployed = Lake(extra=AT_ONCE)
    table = days(deployed, 6, {**UTC_DAILY, "tag.num-retained-max": "4"})
    (answer,) = [each for each in deployed.run(deployed.commit_event(6)) if "TagsCreated" in each.metrics]
    assert deployed.tags() == {f"1970-01-0{number}": number for number in (3, 4, 5, 6)}
    assert (answer.metrics["TagsCreated"], answer.metrics["TagsExpired"]) == (6, 2)
    assert answer.metrics["RunsDone"] == 1
    assert deployed.snapshots() == [5, 6]
    commit(table, 7)
    answers = deployed.run(deployed.commit_event(7))
    assert (total(answers, "TagsCreated"), total(answers, "TagsExpired")) == (1, 1)
    assert deployed.tags() == {f"1970-01-0{number}": number for number in (4, 5, 6, 7)}
    read_all(deployed.store())


def test_a_commit_that_comes_while_tags_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps after see it, and say so in the state. Its event must not be taken for one that was handled."""
    deployed = Lake(extra=AT_ONCE)
    table = days(deployed, 4, {**UTC_DAILY, "tag.num-retained-max": "2"})
    put = S3Store.put

    def writing(store: S3Store, key: str, *args: Any, **words: Any) -> str:
        etag = put(store, key, *args, **words)
        if key == "tag/tag-1970-01-04":
            commit(table, 5)
        return etag

    with monkeypatch.context() as patched:
        patched.setattr(S3Store, "put", writing)
        deployed.run(deployed.commit_event(4))
    deployed.run(deployed.commit_event(5))
    assert deployed.tags() == {"1970-01-04": 4, "1970-01-05": 5}


def test_a_sweep_has_a_tag_made_that_no_commit_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits today, and none tomorrow; five minutes are left for one."""
    deployed = Lake(extra=AT_ONCE)
    table = deployed.table(commits=0, options=UTC_DAILY)
    now_ms = deployed.store().now_ms()
    for number in (1, 2):
        table.commit(f"+F{number}", time_ms=now_ms)
        table.hint("LATEST", number)
    deployed.run(deployed.commit_event(2))
    (yesterday,) = deployed.tags()
    day = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    assert deployed.tags() == {f"{day - timedelta(days=1)}": 1}
    midnight_ms = (now_ms // DAY_MS + 1) * DAY_MS
    for minutes, due in ((-1, 0), (4, 0), (6, 1)):
        later_ms = midnight_ms + minutes * 60_000 - now_ms
        with monkeypatch.context() as later:
            clock = S3Store.now_ms
            later.setattr(S3Store, "now_ms", lambda store, by_ms=later_ms, clock=clock: clock(store) + by_ms)
            own_s = time.time() + later_ms / 1000
            later.setattr(
                "lakesweep.storage.clock.time", SimpleNamespace(**{**vars(time), "time": lambda own_s=own_s: own_s})
            )
            tour = deployed.send("tag_schedule", SWEEP)
            assert tour.metrics["TablesWithTagsDue"] == due, minutes
            answers = deployed.run()
            again = deployed.send("tag_schedule", SWEEP)
        assert again.metrics["TablesWithTagsDue"] == 0
        assert total(answers, "TagsCreated") == due
    assert deployed.tags() == {yesterday: 1, f"{day}": 2}


@pytest.mark.parametrize("mode", ["observe", "delete"])
def test_sweeps_over_tables_that_need_nothing_ask_for_nothing(mode: str) -> None:
    """However often: what is due in a deployment that observes is told once."""
    deployed = Lake(mode=mode, extra=AT_ONCE)
    days(deployed, 3, UTC_DAILY)
    deployed.run(deployed.commit_event(3))
    asked = []
    for _ in range(4):
        asked.append(deployed.send("tag_schedule", SWEEP).metrics["TablesWithTagsDue"])
        deployed.run()
    assert sum(asked) <= 1, asked
    assert asked[-2:] == [0, 0]


def test_removal_that_is_too_large_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every plan of a pass: the larger executor carries it out, and the rest of the pass goes on."""
    monkeypatch.setattr(execution, "MAX_ACTIONS_IN_PLACE", 1)
    deployed = Lake(extra=AT_ONCE)
    days(deployed, 4, {**UTC_DAILY, "tag.num-retained-max": "1"})
    answer = deployed.send("expire", deployed.hint())
    assert answer.failed == [] and answer.metrics["TagsCreated"] == 4
    assert len(deployed.tags()) == 4
    works = deployed.waiting("execute")
    plans = [load_plan(deployed.area(), each["plan_id"]).header.operation for each in works]
    assert plans[0] == "expire-tags"
    answers = [deployed.send("execute_batch", each) for each in works]
    assert total(answers, "TagsExpired") == 3
    assert deployed.tags() == {"1970-01-04": 4}
    deployed.run()
    read_all(deployed.store())


def test_tags_that_are_refused_alarm_and_keep_the_snapshots() -> None:
    """Nobody declares a zone, and writers of this table make no tags."""
    deployed = Lake(extra=AT_ONCE)
    days(deployed, 6, {**DAILY, "write-only": "true"})
    answers = deployed.run(deployed.commit_event(6))
    assert total(answers, "RunsRefused") == 1
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6] and deployed.tags() == {}
    assert "sink.process-time-zone" in "".join(answer.text for answer in answers)


def test_a_snapshot_that_is_just_going_is_asked_for_again() -> None:
    """Another run is about to remove it. A minute later the table is in order, and nobody is alarmed."""
    deployed = Lake(extra=AT_ONCE)
    days(deployed, 4, UTC_DAILY)
    area = deployed.area()
    now_ms = area.store.now_ms()
    intent = {"plan_id": "p", "branch": "main", "end_id": 4, "runs": ["r"], "created_ms": now_ms, "grace_ms": 0}
    store = deployed.store()
    held: dict[str, object] = {"run_id": "r", "token": 9, "expires_at_ms": now_ms + 600_000, "intent": intent}
    # The pass finds nobody at work, and somebody begins before it looks at the lease again.
    begins = _Begins(deployed, json.dumps(held).encode())
    with begins:
        answer = deployed.send("expire", deployed.hint())
    assert answer.failed == []
    assert begins.has_begun
    assert "RunsRefused" not in answer.metrics and "RunsFailed" not in answer.metrics, answer.text
    assert deployed.waiting("commits") or deployed.waiting("execute")
    area.put("lease.json", json.dumps({**held, "expires_at_ms": 1, "intent": None}).encode())
    deployed.send("expire", deployed.hint(hop=1))
    deployed.run()
    assert deployed.tags()["1970-01-04"] == 4
    read_all(store)


class _Begins:
    """Writes a lease as soon as a tag was written."""

    def __init__(self, deployed: Lake, lease: bytes) -> None:
        self.has_begun = False
        self._deployed, self._lease = deployed, lease
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        put = S3Store.put

        def writing(store: S3Store, key: str, *args: Any, **words: Any) -> str:
            etag = put(store, key, *args, **words)
            if key.startswith("tag/") and not self.has_begun:
                self.has_begun = True
                area = self._deployed.area()
                put(area.store, area.path("lease.json").partition("/lakesweep/")[2], self._lease)  # type: ignore[arg-type]
            return etag

        self._patch.setattr(S3Store, "put", writing)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def test_a_tag_document_that_does_not_parse_protects_and_stays() -> None:
    deployed = Lake(extra=AT_ONCE)
    days(deployed, 4, {**UTC_DAILY, "tag.num-retained-max": "1"})
    moto_client().put_object(Bucket=deployed.bucket, Key=f"warehouse/{ORDERS}/tag/tag-odd", Body=b"{")
    answers = deployed.run(deployed.commit_event(4))
    assert [answer.failed for answer in answers] == [[]] * len(answers)
    assert deployed.store().read("tag/tag-odd").data == b"{"
    deployed.store().read("bucket-0/" + next(deployed.store().list("bucket-0/")).key.rpartition("/")[2])
