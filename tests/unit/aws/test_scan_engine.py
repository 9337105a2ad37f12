"""A scan by functions, from the side of whoever asks for it and waits."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.aws.emr import SIZES
from lakesweep.aws.messages import OrphanScan, message_of, to_body
from lakesweep.aws.scans.remote import LambdaScan, emr_facts, sqs_client
from lakesweep.control.area import ControlArea
from lakesweep.control.scan_history import read_history
from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.model.roots import TableRef
from lakesweep.model.safety import SCAN_BEGIN_WITHIN_S, SCAN_SILENT_FOR_S
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.costs import note_fan_out
from lakesweep.operations.orphans.fan_out import scan
from lakesweep.operations.orphans.fan_out.worker import work
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.operations.registry import run_operation
from lakesweep.runs.parameters.signatures import NO_WRITERS, OLDER_THAN, QUARANTINE, REMOVE_ORPHAN_FILES
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import RemoteBackend, Table
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import stable_uuid
from tests.support.table_builder import TableBuilder

LOCATION = "s3://lake/db.db/t"
START_MS = 1_800_000_000_000
DAY_MS = 24 * 3_600_000


class Deployment:
    """A table, and functions that take what lies in their queue while somebody sleeps."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.store = MemoryStore(LOCATION, clock=lambda: self.now_ms)
        self.control = MemoryStore("s3://ops/lakesweep", clock=lambda: self.now_ms)
        builder = TableBuilder(self.store, start_ms=START_MS)
        for number in range(1, 5):
            builder.commit(f"+F{number}")
        builder.hint("LATEST", 4)
        self.orphans = [f"bucket-0/data-{stable_uuid(label)}-0.parquet" for label in "ab"]
        for key in self.orphans:
            self.store.put(key, b"orphan")
        self.now_ms += 10 * DAY_MS
        self.asked: list[OrphanScan] = []
        self.tasks_waiting: list[Mapping[str, object]] = []
        self.step: int | None = None
        self.slept_s = 0.0
        self.said: list[str] = []
        self.is_working = True
        self.on_sleep: Callable[[], None] = lambda: None

    @property
    def table(self) -> Table:
        area = ControlArea(self.control, LOCATION)
        return Table(
            TableRef(LOCATION), self.store, area, MemoryStore, clock_ms=self.store.now_ms, sleep=self.sleep,
            say=self.said.append,
        )  # fmt: skip

    def engine(self, **more: Any) -> LambdaScan:
        return LambdaScan("https://sqs.eu-central-1.amazonaws.com/1/scan", queues=self, **more)  # type: ignore[arg-type]

    def ask_for_orphan_scan(self, message: OrphanScan, delay_s: int = 0) -> None:
        """Stand in for the queues."""
        found = message_of(json.loads(to_body(message)), "message")
        assert isinstance(found, OrphanScan)
        self.asked.append(found)

    def tasks(self, tasks: Sequence[Mapping[str, object]]) -> None:
        self.tasks_waiting += tasks

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        self.step = step

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.now_ms += int(seconds * 1000)
        self.on_sleep()
        if self.is_working and self.asked:
            self._work(self.asked[0])

    def _work(self, message: OrphanScan) -> None:
        table = replace(self.table, sleep=lambda seconds: None)
        if self.step is None:
            words = {name: value for name, value in message.arguments.items() if name != "engine"}
            call = REMOVE_ORPHAN_FILES.parse(words)
            arguments = OrphanArguments(call[OLDER_THAN], call[NO_WRITERS], call[QUARANTINE])
            try:
                scan.begin(table, message.scan_id, arguments, self)
            except RefusedError:
                self.is_working = False
        elif self.tasks_waiting:
            work(table, message.scan_id, self.tasks_waiting.pop(0), self)
        else:
            ended = scan.advance(table, message.scan_id, self.step, self)
            if ended is not None:
                note_fan_out(table, ended.result, ended.plan)

    def run(self, engine: LambdaScan | None = None, *, execute: bool = False, **arguments: object) -> Any:
        table = replace(self.table, scan_backends={"lambda": engine or self.engine()})
        return run_operation(table, "remove-orphan-files", {"engine": "lambda", **arguments}, execute=execute)


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


def test_asks_waits_and_returns_the_plan(deployment: Deployment) -> None:
    """The plan of one process; it is stored, and what it took over there is said."""
    expected = plan_remove_orphan_files(deployment.table, OrphanArguments())
    report = deployment.run()
    assert report.status == "planned"
    assert report.plan is not None
    assert report.plan.header.content_hash == expected.header.content_hash
    assert {delete.path for delete in report.plan.deletes} == set(deployment.orphans)
    (message,) = deployment.asked
    assert (message.table, message.arguments, message.execute) == (LOCATION, {"engine": "lambda"}, False)
    assert deployment.said[0] == (
        f"scan {message.scan_id} is requested; --scan-id {message.scan_id} waits for it again"
    )
    assert deployment.said[1].startswith("engine lambda: estimated ")
    engine = report.to_json()["engine"]
    assert engine["name"] == engine["estimate"]["engine"] == engine["happened"]["engine"] == "lambda"
    assert engine["reason"] is None
    (noted,) = read_history(ControlArea(deployment.control, LOCATION))
    assert (noted.engine, noted.objects) == ("lambda", len(list(deployment.store.list(""))))


def test_executes_what_came_back(deployment: Deployment) -> None:
    """Here, under this process's lease."""
    report = deployment.run(execute=True)
    assert (report.status, report.outcome.deleted) == ("done", 2)
    assert not {entry.key for entry in deployment.store.list("")} & set(deployment.orphans)
    again = Deployment()
    again.store, again.control, again.now_ms = deployment.store, deployment.control, deployment.now_ms
    assert again.run(execute=True).status == "nothing_to_do"


def test_arguments_go_along(deployment: Deployment) -> None:
    """In the words of the operation."""
    report = deployment.run(quarantine="1 d", older_than=str(deployment.now_ms - DAY_MS), no_writers="none")
    assert report.status == "nothing_to_do"
    assert report.plan.header.kept["quarantine"] == 2
    assert deployment.asked[0].arguments == {
        "engine": "lambda",
        "older_than": say_time(START_MS + 9 * DAY_MS),
        "quarantine": f"{DAY_MS} ms",
        "no_writers": "none",
    }


def test_waiting_can_be_taken_up_again(deployment: Deployment) -> None:
    """Who stops waiting stops nothing; nobody asks twice."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    deployment.on_sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        deployment.run()
    (message,) = deployment.asked
    assert deployment.said[-1] == f"scan {message.scan_id} continues; --scan-id {message.scan_id} waits for it again"
    deployment.on_sleep = lambda: None
    report = deployment.run(deployment.engine(scan_id=message.scan_id))
    assert report.status == "planned"
    assert len(deployment.asked) == 1


def test_a_refusal_over_there_is_one_here(deployment: Deployment) -> None:
    """With its code and its sentence."""
    report = deployment.run(older_than=str(deployment.now_ms))
    assert report.status == "refused"
    assert report.refusal.code == "cutoff_too_young"
    assert LOCATION in report.refusal.message


@pytest.mark.parametrize("begun", [False, True])
def test_silence_ends_the_wait(deployment: Deployment, begun: bool) -> None:
    """Sooner where nobody began: then the queue or the control location is another's."""
    if begun:
        deployment.on_sleep = lambda: setattr(
            deployment, "is_working", len(list(deployment.control.list("scans/"))) < 3
        )
    else:
        deployment.is_working = False
    with pytest.raises(MaintenanceError) as caught:
        deployment.run()
    assert caught.value.code == "scan_silent"
    assert ("wrote nothing new for 60 min" if begun else "did not begin within 15 min") in str(caught.value)
    least = SCAN_SILENT_FOR_S if begun else SCAN_BEGIN_WITHIN_S
    assert least < deployment.slept_s < least + 100


def test_a_scan_that_failed(deployment: Deployment) -> None:
    """Its result says why; without figures there is nothing to compare."""
    scans = ControlArea(deployment.control, LOCATION, "scans")
    result = {"status": "failed", "plan_id": None, "refusal": {"code": "given_up", "message": "no worker"}}
    scans.put("s-1/result.json", json.dumps(result).encode())
    engine = deployment.engine(scan_id="s-1")
    with pytest.raises(MaintenanceError, match="scan s-1: no worker") as caught:
        engine.plan(deployment.table, OrphanArguments())
    assert caught.value.code == "given_up"
    assert engine.happened is None
    odd = {"status": "nothing_to_do", "objects": 7, "requests": {"get": "many"}, "began_ms": None}
    scans.put("s-1/result.json", json.dumps(odd).encode())
    plan = engine.plan(deployment.table, OrphanArguments())
    assert plan.is_empty
    assert plan.header.findings == {"listed": {"objects": 7}}
    scans.put("s-1/result.json", b'{"status": "odd"}')
    with pytest.raises(RefusedError, match="it ended as odd"):
        engine.plan(deployment.table, OrphanArguments())


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        ({"area": None}, OrphanArguments(), "control"),
        ({"ref": TableRef("/data/t")}, OrphanArguments(), "functions can only reach tables on S3"),
        ({}, OrphanArguments(inventory="s3://i/manifest.json"), "functions list the table themselves"),
    ],
)
def test_what_functions_cannot_do(
    deployment: Deployment, change: dict[str, Any], arguments: OrphanArguments, says: str
) -> None:
    """Is said before anything is asked for."""
    with pytest.raises(UsageError, match=says):
        deployment.engine().plan(replace(deployment.table, **change), arguments)
    assert deployment.asked == []


@pytest.mark.parametrize("scan_id", ["", "a/b", "../x", "x" * 101])
def test_ids_that_are_none(deployment: Deployment, scan_id: str) -> None:
    """They become a part of keys."""
    with pytest.raises(UsageError):
        deployment.engine(scan_id=scan_id).plan(deployment.table, OrphanArguments())


def test_functions_need_the_control_location_of_their_deployment(deployment: Deployment) -> None:
    """Nobody asked to execute anything, so the sentence is not about that."""
    with pytest.raises(UsageError, match="in the control location of their deployment") as error:
        deployment.engine().plan(replace(deployment.table, area=None), OrphanArguments())
    assert error.value.code == "control_missing"
    assert deployment.asked == []


def test_clients_go_where_the_queue_is() -> None:
    """The URL names region and service; another service is found by its host."""
    aws: Any = sqs_client("https://sqs.eu-west-3.amazonaws.com/111122223333/scan", None)
    assert aws.meta.region_name == "eu-west-3"
    own: Any = sqs_client("http://127.0.0.1:5000/1/scan", "us-east-1")
    assert own.meta.endpoint_url == "http://127.0.0.1:5000"
    for url in ("", "scan", "ftp://x/y", "https://sqs.eu-west-3.amazonaws.com/", "https:///x"):
        with pytest.raises(UsageError, match="URL of a queue"):
            sqs_client(url, "us-east-1")


def test_what_emr_has() -> None:
    """A size by the number of objects."""
    assert [emr_facts(size.objects).executors for size in SIZES] == [size.max_executors for size in SIZES]
    assert emr_facts(1).is_emr
    assert isinstance(LambdaScan("u"), RemoteBackend)
