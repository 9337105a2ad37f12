"""Each function, run under its role: what it asked for is allowed, and nothing more than that is."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from lakesweep.aws import committer, execution, housekeeping
from lakesweep.aws.messages import OrphanScan, OrphanTask, to_body
from lakesweep.aws.scans.result import SCANS, result_name
from lakesweep.control.area import ControlArea
from tests.functions.deployment import PREFIX
from tests.functions.housekept import CONTROL, MESSAGE, write_old
from tests.functions.stacked import FUNCTIONS, Stacked, role, stacked
from tests.support.iam import Call, assert_allowed, recorded, unused_permissions

DECOUPLED = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 h",
    "changelog.num-retained.min": "3",
    "changelog.num-retained.max": "3",
    "changelog.time-retained": "2 h",
    "consumer.expiration-time": "1 d",
}
TAGGED = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 h",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "daily",
    "tag.create-success-file": "true",
    "tag.num-retained-max": "2",
    "sink.process-time-zone": "UTC",
}
EXPIRING = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "commit.max-retries": "0",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyyMMdd",
}
PLANNERS = ("on_snapshot_written", "sweep", "tag_schedule", "orphan_scan", "orphan_worker", "on_demand", "spark_jobs")
EXECUTORS = ("expire", "execute_batch")


def asked(deployed: Stacked) -> Iterator[tuple[str, list[Call]]]:
    """Make each function do everything that it does, and yield what it asked AWS for."""
    table = deployed.table(commits=8, options=DECOUPLED, primary_keys=("id",))
    table.consumer("old", 8)
    plain = deployed.table("sales.db/plain")

    def run(function: str, *bodies: object, reads: int | None = None) -> tuple[str, list[Call]]:
        with recorded() as calls:
            answer = deployed.send(function, *bodies, reads=reads)
        assert answer.failed == []
        return function, calls

    def hint(name: str = "sales.db/orders", **words: object) -> dict[str, object]:
        return {
            "format_version": 1,
            "kind": "hint",
            "table": deployed.location(name),
            "branch": "main",
            "snapshot_id": None,
            "hop": 0,
            **words,
        }

    def demand(**words: object) -> tuple[str, list[Call]]:
        event = {"operation": "expire-snapshots", "table": deployed.location("sales.db/plain"), **words}
        with recorded() as calls:
            answer = deployed.invoke("on_demand", event)
        assert answer.value["status"] != "refused", answer.value
        return "on_demand", calls

    yield run("on_snapshot_written", deployed.commit_event(8))
    yield run("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0})
    yield run("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}, reads=0)
    tags = {"format_version": 1, "kind": "tag_sweep", "cursor": None, "hop": 0}
    yield run("tag_schedule", tags)
    yield run("expire", hint(), reads=3)
    yield run("execute_batch", *deployed.waiting("execute"))
    plain.commit("+G1", "-F6")
    plain.hint("LATEST", 7)
    yield run("expire", hint("sales.db/plain"))
    for number in (8, 9, 10):
        plain.commit(f"+G{number}")
        plain.hint("LATEST", number)
    yield run("on_snapshot_written", deployed.commit_event(10, "sales.db/plain"))
    yield run("on_snapshot_written", deployed.commit_event(3, "sales.db/plain"))
    yield demand(arguments={"retain_max": 1, "retain_min": 1})
    fresh = deployed.table("sales.db/fresh", options={"snapshot.time-retained": "50000 d"})
    yield run("expire", hint("sales.db/fresh"))
    keys = [key for key in deployed.control_keys() if "db-fresh" in key and key.endswith("state.json")]
    state = json.loads(deployed.control().read(keys[0]).data)
    state["branches"]["main"]["checked_ms"] -= 600_000
    deployed.control().put(keys[0], json.dumps(state).encode())
    fresh.commit("+F7")
    fresh.hint("LATEST", 7)
    yield run("on_snapshot_written", deployed.commit_event(7, "sales.db/fresh"))
    yield demand(operation="maintain", table=deployed.location("sales.db/fresh"))
    yield demand(arguments={"retain_max": 2, "retain_min": 1}, execute=True)
    execution.MAX_ACTIONS_IN_PLACE, before = 1, execution.MAX_ACTIONS_IN_PLACE
    try:
        yield run("expire", hint("sales.db/plain"))
    finally:
        execution.MAX_ACTIONS_IN_PLACE = before
    for message in deployed.waiting("execute"):
        yield run("execute_batch", message)
    for key in (key for key in deployed.control_keys() if key.endswith("state.json")):
        state = json.loads(deployed.control().read(key).data)
        for branch in state["branches"].values():
            branch["tags_due_ms"] = 1
        deployed.control().put(key, json.dumps(state).encode())
    yield run("tag_schedule", tags)
    assert deployed.waiting("expire")
    yield run("tag_schedule", tags, reads=0)
    changing = deployed.table("sales.db/again", options=DECOUPLED, primary_keys=("id",))
    changing.consumer("old", 6)
    yield run("expire", hint("sales.db/again"))
    cut = deployed.table("sales.db/cut")
    assert cut
    maintain = {"format_version": 1, "kind": "maintain", "branch": "main", "hop": 0}
    lease = {**maintain, "table": deployed.location("sales.db/cut")}
    # A lease that somebody holds: the message comes again.
    yield run("expire", hint("sales.db/cut"), reads=40)
    for message in deployed.waiting("execute"):
        yield run("execute_batch", message)
    control = deployed.control()
    (key,) = [key for key in deployed.control_keys() if "db-cut" in key and key.endswith("lease.json")]
    held = b'{"run_id": "x", "token": 9, "expires_at_ms": %d, "intent": null}' % (control.now_ms() + 60_000)
    control.put(key, held)
    more = deployed.table("sales.db/cut", commits=8)
    assert more
    yield run("expire", hint("sales.db/cut"))
    yield run("execute_batch", lease)
    yield demand(operation="remove-orphan-files", arguments={"engine": "spark"}, execute=True)
    (scan,) = deployed.waiting("spark")
    yield run("spark_jobs", scan)
    (job_run,) = deployed.job_runs
    job_run.state = "SUCCESS"
    result = {"status": "planned", "plan_id": "p", "action_count": 1}
    scans = ControlArea(deployed.control(), scan["table"], SCANS)
    scans.put(result_name(scan["scan_id"]), json.dumps(result).encode())
    yield run("spark_jobs", {"format_version": 1, "kind": "spark_poll", "hop": 0})
    yield run("spark_jobs", {**scan, "scan_id": "other", "plan_id": "p"})
    assert "p" in [message.get("plan_id") for message in deployed.waiting("execute")]
    rows = {"where_file": "s3://control/conditions/forget.sql"}
    yield demand(operation="delete-rows", arguments=rows, execute=True)
    yield run("spark_jobs", *deployed.waiting("spark"))
    yield from tagged(deployed, run, demand)
    yield from committed(deployed, run, demand)
    yield from scanned(deployed, run, demand)
    yield from compacted(deployed, run, hint)
    deployed.rule(control=CONTROL)
    write_old(deployed, "sales.db/plain")
    housekeeping.TABLE_RESERVE_MS, before = 1, housekeeping.TABLE_RESERVE_MS
    try:
        yield run("execute_batch", MESSAGE)
    finally:
        housekeeping.TABLE_RESERVE_MS = before


def tagged(
    deployed: Stacked,
    run: Callable[..., tuple[str, list[Call]]],
    demand: Callable[..., tuple[str, list[Call]]],
) -> Iterator[tuple[str, list[Call]]]:
    """Have tags made and removed by passes and by hand, of main and of a branch."""
    name = "sales.db/tagged"
    table = deployed.table(name, commits=0, options=TAGGED)
    for number in range(1, 6):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []), time_ms=number * 86_400_000)
        table.hint("LATEST", number)
    table.tag("cut", snapshot=5)
    table.branch("rt", from_tag="cut")
    location = deployed.location(name)
    for branch in ("main", "rt"):
        hint = {"format_version": 1, "kind": "hint", "table": location, "branch": branch, "snapshot_id": None, "hop": 0}
        yield run("expire", hint)
    keys = [entry.key for entry in deployed.store(name).list("")]
    for start in ("", "branch/branch-rt/"):
        assert [key for key in keys if key.startswith(f"{start}tag/tag-19")], keys
        assert [key for key in keys if key.startswith(f"{start}tag/tag-success-file/")], keys
    for operation, arguments in (
        ("create-tag", {"tag": "new"}),
        ("replace-tag", {"tag": "new", "snapshot": 4}),
        ("rename-tag", {"tag": "new", "target_tag": "kept"}),
        ("delete-tag", {"tag": "kept"}),
        ("tag-schedule", {}),
    ):
        yield demand(operation=operation, table=location, arguments=arguments, execute=True)
        (message,) = deployed.waiting("execute")
        yield run("execute_batch", message)


def committed(
    deployed: Stacked,
    run: Callable[..., tuple[str, list[Call]]],
    demand: Callable[..., tuple[str, list[Call]]],
) -> Iterator[tuple[str, list[Call]]]:
    """Have partitions go by passes and by hand, of main and of a branch, and meet a lease that somebody holds."""
    name = "sales.db/visits"
    table = deployed.table(name, commits=0, options=EXPIRING, partition_keys=["dt"])
    for day in ("20200101", "20200102", "29990101"):
        table.hint("LATEST", table.commit(f"+F{day}", partition=(day,)))
    table.tag("cut", snapshot=3)
    table.branch("rt", from_tag="cut")
    location = deployed.location(name)
    hint = {"format_version": 1, "kind": "hint", "table": location, "branch": "rt", "snapshot_id": None, "hop": 0}
    yield run("expire", hint)
    yield run("execute_batch", {**hint, "kind": "maintain", "branch": "main"})
    arguments = {"partition": ["dt=29990101"]}
    yield demand(operation="drop-partition", table=location, arguments=arguments, execute=True)
    messages = deployed.waiting("committer")
    assert [message["operation"] for message in messages] == [*["expire-partitions"] * 2, "drop-partition"]
    for message in messages[:2]:
        yield run("committer", message)
    control = deployed.control()
    (key,) = [key for key in deployed.control_keys() if "db-visits" in key and key.endswith("lease.json")]
    held = {"run_id": "x", "expires_at_ms": control.now_ms() + 60_000}
    control.put(key, json.dumps({**json.loads(control.read(key).data), **held}).encode())
    committer.HELD_AGAIN_S, before = 0, committer.HELD_AGAIN_S
    try:
        yield run("committer", messages[2])
    finally:
        committer.HELD_AGAIN_S = before
    assert [message["hop"] for message in deployed.waiting("committer")] == [1]


def compacted(
    deployed: Stacked, run: Callable[..., tuple[str, list[Call]]], hint: Callable[..., dict[str, object]]
) -> Iterator[tuple[str, list[Call]]]:
    """Have a job asked for by passes that compacts data files."""
    deployed.rule(compaction={"partition_idle_time": "1 ms"})
    for name in ("sales.db/small", "sales.db/tiny"):
        table = deployed.table(name, commits=0, options={"snapshot.num-retained.min": "9"})
        for number in range(6):
            table.hint("LATEST", table.commit(f"+F{number}", time_ms=1_700_000_000_000 + number))
    yield run("expire", hint("sales.db/small"))
    yield run("execute_batch", {**hint("sales.db/tiny"), "kind": "maintain"})
    assert [message["operation"] for message in deployed.waiting("spark")] == ["compact"] * 2


def scanned(
    deployed: Stacked,
    run: Callable[..., tuple[str, list[Call]]],
    demand: Callable[..., tuple[str, list[Call]]],
) -> Iterator[tuple[str, list[Call]]]:
    """Have a table scanned by functions, one on Spark, and make a tour."""
    lost = "bucket-0/data-5b0c1d2e-0000-4000-8000-000000000001-0.parquet"
    deployed.store("sales.db/plain").put(lost, b"lost")
    for key in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[deployed.bucket].keys.values():
        key.last_modified -= timedelta(days=10)
    yield demand(operation="remove-orphan-files", arguments={"engine": "lambda"}, execute=True)
    taken = 0
    while left := [
        (function, message)
        for queue, function in (("scan", "orphan_scan"), ("orphan", "orphan_worker"))
        for message in deployed.waiting(queue)
    ]:
        for function, message in left:
            taken += 1
            assert taken < 200
            if message.get("task", {}).get("id") == "list-0":
                message["task"]["budget"] = 1  # so that there is a rest, which is another task
            yield run(function, message)
    assert [message["kind"] for message in deployed.waiting("execute")] == ["execute"]
    on_spark = OrphanScan(deployed.location("sales.db/plain"), "on-spark", arguments={"engine": "spark"}, manual=True)
    yield run("orphan_scan", json.loads(to_body(on_spark)))
    with recorded() as calls:
        decode = {"kind": "decode", "id": "decode-0", "document": "scan.json.gz"}
        task = OrphanTask(deployed.location("sales.db/plain"), "no-scan", decode)
        assert deployed.send("orphan_worker", json.loads(to_body(task))).failed == []
    yield "orphan_worker", calls
    assert deployed.waiting("spark")
    yield run("orphan_scan", {"format_version": 1, "kind": "orphan_sweep", "cursor": None, "hop": 0})


@pytest.fixture(scope="module")
def deployed() -> Stacked:
    return stacked()


@pytest.fixture(scope="module")
def calls(deployed: Stacked) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {name: [] for name in FUNCTIONS}
    for function, made in asked(deployed):
        found[function] += made
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_allows_what_its_function_does(deployed: Stacked, calls: dict[str, list[Call]], function: str) -> None:
    assert len(calls[function]) > 3
    assert_allowed(role(deployed, function), calls[function])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_allows_nothing_more(deployed: Stacked, calls: dict[str, list[Call]], function: str) -> None:
    """What no call of the code needed is listed with who does need it (`tests/support/iam.py`)."""
    assert unused_permissions(role(deployed, function), calls[function]) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_no_function_may(deployed: Stacked, function: str) -> None:
    of, bucket, control = role(deployed, function), deployed.bucket, deployed.control_bucket
    orders = f"arn:aws:s3:::{bucket}/{PREFIX}/sales.db/orders"
    denied = [
        ("s3:DeleteObject", f"{orders}/schema/schema-0"),
        ("s3:PutObject", f"{orders}/schema/schema-0"),
        ("s3:DeleteObject", f"arn:aws:s3:::{bucket}/elsewhere/t/snapshot/snapshot-1"),
        ("s3:DeleteObject", f"arn:aws:s3:::{bucket}/{PREFIX}2/t/snapshot/snapshot-1"),
        ("s3:GetObject", f"arn:aws:s3:::{bucket}/elsewhere/t/snapshot/snapshot-1"),
        ("s3:GetObject", "arn:aws:s3:::another/warehouse/t/snapshot/snapshot-1"),
        ("s3:ListBucket", "arn:aws:s3:::another"),
        ("s3:DeleteObject", f"arn:aws:s3:::{control}/lakesweep/tables/t/lease.json"),
        ("s3:PutObject", f"{orders}/bucket-0/data-1.parquet"),
        ("s3:PutObject", f"{orders}/snapshot/snapshot-9"),
        ("s3:DeleteObjectVersion", f"{orders}/snapshot/snapshot-1"),
        ("s3:PutBucketNotification", f"arn:aws:s3:::{bucket}"),
        ("s3:DeleteBucket", f"arn:aws:s3:::{bucket}"),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:another"),
        ("iam:PassRole", "*"),
        ("lambda:InvokeFunction", "*"),
    ]
    assert {call: of.decide(*call) for call in denied if of.decide(*call) == "allowed"} == {}


@pytest.mark.parametrize("function", PLANNERS)
def test_a_planner_changes_no_table(deployed: Stacked, function: str) -> None:
    of = role(deployed, function)
    orders = f"arn:aws:s3:::{deployed.bucket}/{PREFIX}/sales.db/orders"
    for action in ("s3:DeleteObject", "s3:PutObject"):
        for path in (
            "snapshot/snapshot-1",
            "snapshot/EARLIEST",
            "bucket-0/data-1.parquet",
            "consumer/consumer-x",
            "tag/tag-x",
        ):
            assert of.decide(action, f"{orders}/{path}") != "allowed"


@pytest.mark.parametrize("function", EXECUTORS)
def test_an_executor_may_what_it_is_for(deployed: Stacked, function: str) -> None:
    """So that the denials above say something."""
    of = role(deployed, function)
    orders = f"arn:aws:s3:::{deployed.bucket}/{PREFIX}/sales.db/orders"
    assert of.decide("s3:DeleteObject", f"{orders}/dt=a/bucket-0/data-1.parquet") == "allowed"
    assert of.decide("s3:PutObject", f"{orders}/snapshot/EARLIEST") == "allowed"
    assert of.decide("s3:PutObject", f"{orders}/branch/branch-rt/tag/tag-x") == "allowed"
