"""Scans for orphan files by functions: asked for, done in turns and tasks, and carried out by somebody else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.aws.messages import OrphanScan, to_body
from lakesweep.aws.queues import Queues
from lakesweep.aws.scans import scans as module
from lakesweep.aws.scans.result import SCANS, result_name
from lakesweep.aws.scans.tasks import ScanOutbox
from lakesweep.control.area import ControlArea
from lakesweep.errors import AccessDeniedError, MaintenanceError, OutOfTimeError, StalePlanError, StorageError
from lakesweep.storage.store import DeleteRequest
from tests.functions.deployment import PREFIX, Deployment, keys_of
from tests.functions.orphan_scans import ORPHAN, age, made, metric, write_policy

DAY_MS = 86_400_000


def ask(deployed: Deployment, table: str = "sales.db/orders", **words: Any) -> dict[str, Any]:
    event = {"operation": "remove-orphan-files", "table": deployed.location(table), **words}
    value: dict[str, Any] = deployed.invoke("on_demand", event).value
    return value


def result_of(deployed: Deployment, answer: dict[str, Any]) -> dict[str, Any]:
    key = answer["result"].removeprefix(deployed.control().location + "/")
    found: dict[str, Any] = json.loads(deployed.control().read(key).data)
    return found


@pytest.mark.parametrize("engine", ["lambda", "auto"])
def test_asked_for_and_carried_out(engine: str) -> None:
    deployed = made()
    before = set(keys_of(deployed.store()))
    answer = ask(deployed, arguments={"engine": engine}, execute=True)
    assert (answer["status"], answer["queued"], answer["plan_id"]) == ("queued", True, None)
    answers = deployed.run()
    assert [each for each in answers if each.failed] == []
    result = result_of(deployed, answer)
    assert (result["status"], result["action_count"], result["refusal"]) == ("planned", 1, None)
    assert before - set(keys_of(deployed.store())) == {ORPHAN}
    assert (metric(answers, "OrphanScansBegun"), metric(answers, "OrphansFound")) == (1, 1)
    assert metric(answers, "OrphanBytesFound") == 4
    assert metric(answers, "ObjectsDeleted") == 1
    assert any(key.endswith(f"reports/{result['plan_id']}.json") for key in deployed.control_keys())
    (key,) = [key for key in deployed.control_keys() if key.endswith("orphan_scans.json")]
    (noted,) = json.loads(deployed.control().read(key).data)["scans"]
    assert (noted["status"], noted["engine"]) == ("planned", "local" if engine == "auto" else engine)


@pytest.mark.parametrize("engine", ["lambda", "local", "spark"])
def test_a_scan_without_execution_only_plans(engine: str) -> None:
    deployed = made()
    before = set(keys_of(deployed.store()))
    scan = scan_message(deployed, {"engine": engine})
    deployed.send("orphan_scan", scan)
    (*on_spark,) = deployed.waiting("spark")
    assert [each["scan_id"] for each in on_spark] == (["s1"] if engine == "spark" else [])
    deployed.run()
    assert set(keys_of(deployed.store())) == before
    results = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    assert bool(results) == (engine != "spark"), "Spark writes it at its end"


def scan_message(deployed: Deployment, arguments: dict[str, object], **words: object) -> dict[str, object]:
    asked = OrphanScan(deployed.location(), "s1", arguments=arguments, manual=True)
    return {**json.loads(to_body(asked)), **words}


def test_a_small_table_is_planned_at_once() -> None:
    """The turn may come twice: one plan, and it is carried out."""
    deployed = made()
    scan = scan_message(deployed, {"engine": "local"}, execute=True)
    deployed.send("orphan_scan", scan)
    deployed.send("orphan_scan", scan)
    sent = deployed.waiting("execute")
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert len([key for key in deployed.control_keys() if key.endswith("header.json")]) == 1
    deployed.send("execute_batch", *sent)
    assert ORPHAN not in keys_of(deployed.store())


def test_a_scan_that_is_asked_for_again_stays_where_it_is() -> None:
    """Another engine might be chosen by now; the tasks that are under way are those of this one."""
    deployed = made()
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, execute=True))
    for engine in ("auto", "spark"):
        answer = deployed.send("orphan_scan", scan_message(deployed, {"engine": engine}, execute=True))
        assert (answer.failed, answer.metrics.get("OrphanScansBegun")) == ([], None)
    assert not deployed.waiting("spark")
    assert not [key for key in deployed.control_keys() if key.endswith("result.json")]
    deployed.run()
    assert ORPHAN not in keys_of(deployed.store())


def test_a_table_too_large_for_one_function_goes_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = made()

    def too_slow(*_: object, **__: object) -> None:
        raise OutOfTimeError("no time")

    deployed.load("orphan_scan")
    monkeypatch.setattr(module, "run_operation", too_slow)
    answer = deployed.send("orphan_scan", scan_message(deployed, {"engine": "local"}, execute=True))
    assert (answer.failed, answer.metrics["Continuations"]) == ([], 1)
    deployed.run()
    assert ORPHAN not in keys_of(deployed.store())


@pytest.mark.parametrize(("mode", "manual", "goes"), [("observe", False, False), ("observe", True, True)])
def test_a_plan_of_spark_meets_the_policy_too(mode: str, manual: bool, goes: bool) -> None:
    """Where nobody asked for the scan, whoever carries its plan out is told so."""
    deployed = made()
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "spark"}, execute=True, manual=manual))
    (asked,) = deployed.waiting("spark")
    assert asked["manual"] == manual
    deployed.send("spark_jobs", asked)
    planned = deployed.send("orphan_scan", scan_message(deployed, {"engine": "local"}, scan_id="s2")).failed
    assert planned == []
    (plan_id,) = {key.split("/")[-2] for key in deployed.control_keys() if key.endswith("header.json")}
    result = {"status": "planned", "plan_id": plan_id, "action_count": 1}
    control = ControlArea(deployed.control(), deployed.location(), SCANS)
    control.put(result_name("s1"), json.dumps(result).encode())
    deployed.job_runs[-1].state = "SUCCESS"
    deployed.send("spark_jobs", {"format_version": 1, "kind": "spark_poll", "hop": 0})
    write_policy(deployed, {"mode": mode})
    deployed.run()
    assert (ORPHAN not in keys_of(deployed.store())) == goes


def test_spark_that_is_not_there() -> None:
    deployed = made()
    del deployed.queues["spark"]
    answer = deployed.send("orphan_scan", scan_message(deployed, {"engine": "spark"}, execute=True))
    assert "has no Spark" in answer.text
    deployed.queues["spark"] = deployed.queues["scan"]
    assert deployed.waiting("orphan")


def test_tasks_that_nobody_does() -> None:
    """Turns in a row that see nothing move on end the scan, and somebody hears of it."""
    deployed = made()
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, execute=True))
    answers, turns = [], 0
    while waiting := deployed.waiting("scan"):
        turns += 1
        assert turns < 40
        deployed.waiting("orphan")
        answers += [deployed.send("orphan_scan", each) for each in waiting]
    assert (metric(answers, "OrphanScansFailed"), metric(answers, "HopLimitReached")) == (1, 1)
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    assert json.loads(deployed.control().read(key).data)["status"] == "failed"
    assert not deployed.waiting("execute")


def test_messages_that_come_again_and_late() -> None:
    """Every message twice, and the first turn once more at the end: one plan, one orphan gone."""
    deployed = made()
    first = scan_message(deployed, {"engine": "lambda"}, execute=True)
    left, rounds = [("orphan_scan", first)], 0
    while left:
        rounds += 1
        assert rounds < 20
        for function, body in left:
            assert deployed.send(function, body, body).failed == []
        pairs = (("scan", "orphan_scan"), ("orphan", "orphan_worker"))
        left = [(function, body) for queue, function in pairs for body in deployed.waiting(queue)]
        left = [each for number, each in enumerate(left) if each not in left[:number]]
    deployed.send("orphan_scan", first)
    assert len({message["plan_id"] for message in deployed.waiting("execute")}) == 1
    assert not deployed.waiting("scan")
    assert not deployed.waiting("orphan")


@pytest.mark.parametrize("step", ["begin", "advance"])
def test_a_request_that_fails(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The turn comes again after a minute, not when the queue gives a worker up; the scan ends as it would have."""
    deployed = made()
    first = scan_message(deployed, {"engine": "lambda"}, execute=True)
    messages = [first]
    if step == "advance":
        deployed.send("orphan_scan", first)
        messages = deployed.waiting("scan")

    def fails(*_: object) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(module.fan_out, step, fails)
    answer = deployed.send("orphan_scan", *messages)
    assert (answer.failed, answer.metrics["RunsFailed"], answer.metrics["Continuations"]) == ([], 1, 1)
    monkeypatch.undo()
    (again,) = deployed.waiting("scan")
    assert (again["step"], again["hop"]) == (messages[0]["step"], 1)
    deployed.send("orphan_scan", again)
    deployed.run()
    assert ORPHAN not in keys_of(deployed.store())


@pytest.mark.parametrize(("error", "failed"), [(StalePlanError("moved"), []), (AccessDeniedError("no"), ["m0"])])
def test_what_may_pass_and_what_may_not(
    monkeypatch: pytest.MonkeyPatch, error: MaintenanceError, failed: list[str]
) -> None:
    """A table that moves is looked at again; a right that lacks somebody has to give, so the message stays."""
    deployed = made()

    def fails(*_: object) -> None:
        raise error

    deployed.load("orphan_scan")
    monkeypatch.setattr(module.fan_out, "begin", fails)
    answer = deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}))
    assert answer.failed == failed
    assert len(deployed.waiting("scan")) == (not failed)


def test_what_lasts_ends_the_scan_at_once() -> None:
    """The roots cannot be understood: no other attempt is made, and the result says why."""
    deployed = made()
    deployed.store().put("snapshot/snapshot-6", b'{"version": 99}')
    answers = [deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"})), *deployed.run()]
    assert [each for each in answers if each.failed] == []
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    result = json.loads(deployed.control().read(key).data)
    assert (result["status"], bool(result["refusal"]["message"])) == ("refused", True)
    assert metric(answers, "RunsRefused") == 1


@pytest.mark.parametrize("engine", ["local", "lambda"])
def test_a_scan_of_a_damaged_table_sets_off_an_alarm(engine: str) -> None:
    """The result says so, whoever did the scan, and an orphan that no root can need goes all the same."""
    deployed = made()
    lost = next(key for key in keys_of(deployed.store()) if "/data-" in key and key != ORPHAN)
    deployed.store().delete([DeleteRequest(lost)])
    message = scan_message(deployed, {"engine": engine}, execute=True)
    answers = [deployed.send("orphan_scan", message), *deployed.run()]
    assert [each for each in answers if each.failed] == []
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    result = json.loads(deployed.control().read(key).data)
    assert (result["status"], result["action_count"]) == ("damaged", 1)
    assert metric(answers, "RunsDamaged") == 1
    assert ORPHAN not in keys_of(deployed.store())


@pytest.mark.parametrize("engine", ["local", "lambda"])
def test_a_scan_of_a_damaged_table_that_finds_nothing_sets_off_an_alarm(engine: str) -> None:
    deployed = made()
    lost = next(key for key in keys_of(deployed.store()) if "/data-" in key and key != ORPHAN)
    deployed.store().delete([DeleteRequest(lost), DeleteRequest(ORPHAN)])
    answers = [deployed.send("orphan_scan", scan_message(deployed, {"engine": engine}, execute=True)), *deployed.run()]
    assert [each for each in answers if each.failed] == []
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    result = json.loads(deployed.control().read(key).data)
    assert (result["status"], result["action_count"]) == ("damaged", 0)
    assert metric(answers, "RunsDamaged") == 1


@pytest.mark.parametrize("engine", ["local", "lambda"])
def test_a_scan_of_a_lost_history_is_refused(engine: str) -> None:
    deployed = made()
    snapshots = [key for key in keys_of(deployed.store()) if key.startswith("snapshot/")]
    deployed.store().put("tag/tag-t", deployed.store().read(max(snapshots)).data)
    deployed.store().delete([DeleteRequest(key) for key in snapshots])
    age(deployed, 10)
    before = set(keys_of(deployed.store()))
    answers = [deployed.send("orphan_scan", scan_message(deployed, {"engine": engine}, execute=True)), *deployed.run()]
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    result = json.loads(deployed.control().read(key).data)
    assert (result["status"], result["refusal"]["code"]) == ("refused", "history_missing")
    assert metric(answers, "RunsRefused") == 1
    assert set(keys_of(deployed.store())) == before


@pytest.mark.parametrize(
    "arguments",
    [{"engine": "lambda", "older_than": "soon"}, {"engine": "cluster"}, {"engine": "lambda", "inventory": "s3://a/b"}],
    ids=str,
)
def test_arguments_that_mean_nothing_end_the_scan(arguments: dict[str, object]) -> None:
    """Of a message that somebody else sent. It would fail again, and whoever waits reads a result."""
    deployed = made()
    answer = deployed.send("orphan_scan", scan_message(deployed, arguments, execute=True))
    assert answer.failed == []
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    result = json.loads(deployed.control().read(key).data)
    assert (result["status"], result["refusal"]["code"]) == ("refused", "bad_argument")
    assert deployed.run() == []


def test_an_id_that_another_scan_has() -> None:
    """That one goes on, and ends as it would have."""
    deployed = made()
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, execute=True))
    other = scan_message(deployed, {"engine": "lambda", "quarantine": "1 d"}, execute=True)
    answer = deployed.send("orphan_scan", other)
    assert (answer.failed, answer.metrics["RunsRefused"]) == ([], 1)
    deployed.run()
    assert ORPHAN not in keys_of(deployed.store())


def test_a_turn_of_a_scan_that_is_gone() -> None:
    """Its documents were removed after a week: a message that is as late as that means nothing."""
    deployed = made()
    answer = deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, step=4))
    assert (answer.failed, answer.metrics["EventsIgnored"]) == ([], 1)
    assert not deployed.waiting("scan")


@pytest.mark.parametrize(
    ("rule", "manual", "goes"),
    [
        ({"mode": "delete"}, False, True),
        ({"mode": "observe"}, False, False),
        ({"mode": "observe"}, True, True),
        ({"mode": "delete", "pause": True}, True, False),
        ({"mode": "delete", "pause": True}, False, False),
        ({"mode": "delete", "pause": {"reason": "x", "until": "2999-01-01T00:00:00Z"}}, False, False),
        ({"mode": "delete", "pause": {"reason": "x", "until": "2001-01-01T00:00:00Z"}}, False, True),
    ],
)
def test_the_policy_is_asked_when_the_plan_is_there(rule: dict[str, object], manual: bool, goes: bool) -> None:
    """As it is by then: whoever asks by hand is only held back by a pause."""
    deployed = made()
    write_policy(deployed, rule)
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, execute=True, manual=manual))
    answers = deployed.run()
    assert (ORPHAN not in keys_of(deployed.store())) == goes
    assert metric(answers, "RunsRefused") == 0, "a pause alarms nobody"
    told = " to observe" in json.dumps([answer.lines for answer in answers])
    assert told == (rule["mode"] == "observe" and not manual)
    paused = [key for key in deployed.control_keys() if key.endswith("s1/scan.json.gz")]
    assert bool(paused) != (not goes and "pause" in rule and not manual), (
        "a scan of a paused table is not begun unasked"
    )


def test_a_deployment_that_observes() -> None:
    deployed = made(mode="observe")
    assert ask(deployed, arguments={"engine": "lambda"}, execute=True)["refusal"]["code"] == "observed"
    deployed.send("orphan_scan", scan_message(deployed, {"engine": "lambda"}, execute=True))
    answers = deployed.run()
    assert "this deployment only observes" in json.dumps([answer.lines for answer in answers])
    assert metric(answers, "RunsFailed") == 0, "nobody was asked to carry it out"
    assert ORPHAN in keys_of(deployed.store())


def test_a_table_that_is_none() -> None:
    """Refused, told of, and over: the message does not come again."""
    deployed = made()
    gone = scan_message(deployed, {"engine": "lambda"}, table=deployed.location("sales.db/nothing"))
    answers = [deployed.send("orphan_scan", gone), *deployed.run()]
    assert [each for each in answers if each.failed] == []
    assert metric(answers, "RunsRefused") == 1
    (key,) = [key for key in deployed.control_keys() if key.endswith("s1/result.json")]
    assert json.loads(deployed.control().read(key).data)["refusal"]["code"]


def test_a_plan_that_somebody_has_to_confirm() -> None:
    deployed = made()
    result = {"status": "planned", "plan_id": "p1", "action_count": 5000}
    for scan_id, needs_confirmation in (("s1", True), ("s2", False)):
        area = ControlArea(deployed.control(), deployed.location(), SCANS)
        document = {**result, "needs_confirmation": needs_confirmation}
        area.put(result_name(scan_id), json.dumps(document).encode())
        answer = deployed.send("orphan_scan", scan_message(deployed, {}, scan_id=scan_id, execute=True))
        assert ("has to confirm it" in answer.text) == needs_confirmation
        assert len(deployed.waiting("execute")) == (not needs_confirmation)


def test_turns_that_come_further_do_not_count() -> None:
    deployed = made()
    runtime = replace(deployed.load("orphan_scan").runtime, queues=Queues(deployed.queues, deployed.sqs))
    outbox = ScanOutbox(runtime, OrphanScan(deployed.location(), "s1", step=7, hop=14))
    outbox.advance(8, 15, progress=True)
    outbox.advance(8, 15, progress=False)
    assert sorted(message["hop"] for message in deployed.waiting("scan")) == [0, 15]
    last = ScanOutbox(runtime, OrphanScan(deployed.location(), "s1", step=8, hop=15))
    last.advance(9, 15, progress=False)
    assert last.is_stuck
    assert not deployed.waiting("scan")


def test_a_table_that_is_paused_is_not_asked_for() -> None:
    deployed = made()
    write_policy(deployed, {"mode": "delete", "pause": True})
    assert ask(deployed, arguments={"engine": "lambda"}, execute=True)["refusal"]["code"] == "paused"
    assert ask(deployed, arguments={"engine": "lambda"})["status"] == "queued"


def test_a_whole_database() -> None:
    deployed = made()
    deployed.table("sales.db/customers")
    deployed.store("sales.db/no-table").put("readme", b"x")
    answer = ask(deployed, "sales.db", arguments={"engine": "lambda"}, execute=True)
    tables = [deployed.location(f"sales.db/{name}") for name in ("customers", "orders")]
    assert [scan["table"] for scan in answer["scans"]] == tables
    deployed.run()
    assert [result_of(deployed, scan)["status"] for scan in answer["scans"]] == ["nothing_to_do", "planned"]
    event = {"operation": "remove-orphan-files", "table": f"s3://{deployed.bucket}/{PREFIX}"}
    whole = deployed.invoke("on_demand", {**event, "arguments": {"engine": "auto"}}).value
    assert [scan["table"] for scan in whole["scans"]] == tables
    assert ask(deployed, "sales.db/no-table", arguments={"engine": "auto"})["refusal"]["code"] == "not_a_table"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"arguments": {"engine": "lambda", "parallelism": 4}}, "bad_argument"),
        ({"arguments": {"engine": "lambda", "dry_run": True}}, "bad_argument"),
        ({"arguments": {"engine": "auto", "objects": "many"}}, "bad_argument"),
        ({"arguments": {"engine": "auto", "nonsense": 1}}, "unknown_argument"),
        ({"arguments": {"engine": "lambda"}, "branch": "rt"}, "bad_argument"),
        ({"arguments": {"engine": "lambda"}, "plan_id": "p"}, "usage"),
        ({"arguments": {"engine": "cluster"}}, "bad_argument"),
    ],
)
def test_what_is_refused_at_once(words: dict[str, Any], code: str) -> None:
    deployed = made()
    assert ask(deployed, **words)["refusal"]["code"] == code
    assert not deployed.waiting("scan")
