"""From an event to a smaller table: the functions' own code, on real queues and buckets."""

import json
import time

from lakesweep.control.area import ControlArea
from lakesweep.control.receipts import receipts_of
from lakesweep.model.prices import request_units, usd_of
from lakesweep.model.receipt import function_usd_per_second
from tests.functions.deployment import STATED, Deployment
from tests.support.iam import recorded
from tests.support.maintenance import assert_roots_readable


def test_a_commit_is_maintained() -> None:
    """The event of a commit expires what the table's options let go, and nothing else."""
    deployed = Deployment()
    table = deployed.table()
    answers = deployed.run(deployed.commit_event(6))
    assert deployed.snapshots() == [5, 6]
    assert_roots_readable(table)
    assert [answer.failed for answer in answers] == [[], []]
    total = answers[-1].metrics
    assert (total["Runs"], total["RunsDone"]) == (1, 1)
    assert total["ObjectsDeleted"] > 4
    assert answers[-1].dimensions == {"service"}


def test_what_the_invocations_cost() -> None:
    """Requests and seconds of each, whether or not it made a run; the run's report has its own share of both."""
    deployed = Deployment()
    deployed.table()
    for answer in deployed.run(deployed.commit_event(6)):
        kinds = {kind: int(answer.metrics.get(f"{kind.title()}Requests", 0)) for kind in ("get", "list", "put")}
        seconds = answer.metrics["UsdSpent"] - usd_of(request_units(kinds))
        assert 0 <= seconds < 120 * function_usd_per_second(10_240)
    (key,) = (key for key in deployed.control_keys() if "/reports/" in key)
    control = deployed.control()
    report = json.loads(control.read(key[key.index("tables/") :]).data)["report"]
    receipt = report["receipt"]
    assert receipt["usd"] > receipt["requests_usd"] > 0, "the seconds of a function cost something"
    assert receipt["freed_bytes"] == report["outcome"]["bytes"] > 0
    assert receipt["freed_usd_month"] > 0
    (sums,) = receipts_of(ControlArea(control, report["table"])) or ()
    assert (sums.runs, sums.freed_bytes, sums.unknown) == (1, receipt["freed_bytes"], 0)
    assert sums.usd >= receipt["requests_usd"]


def test_a_doubled_event_costs_one_read() -> None:
    deployed = Deployment()
    deployed.table()
    deployed.run(deployed.commit_event(6))
    (answer,) = deployed.run(deployed.commit_event(6))
    assert answer.metrics["GetRequests"] == 1
    assert not answer.metrics.keys() & {"ListRequests", "PutRequests", "DeleteRequests"}


def test_many_events_of_one_table_ask_once() -> None:
    deployed = Deployment()
    deployed.table()
    deployed.send("on_snapshot_written", *(deployed.commit_event(number) for number in (3, 6, 5, 6, 4)))
    (message,) = deployed.waiting("expire")
    assert (message["snapshot_id"], message["branch"]) == (6, "main")


def test_observing_deletes_nothing() -> None:
    """The default mode plans and says so."""
    deployed = Deployment(mode="observe")
    deployed.table()
    answers = deployed.run(deployed.commit_event(6))
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    assert '"status": "planned"' in answers[-1].text
    assert any("/plans/" in key for key in deployed.control_keys())


def test_the_sweep_finds_what_no_event_told_of() -> None:
    """Every event was lost."""
    deployed = Deployment()
    deployed.table()
    deployed.table("sales.db/customers")
    deployed.table("plain")
    first = deployed.send("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0})
    assert first.metrics["TablesSwept"] == 3
    assert first.metrics["TablesLagging"] == 3
    deployed.run()
    for name in ("sales.db/orders", "sales.db/customers", "plain"):
        assert deployed.snapshots(name) == [5, 6]
    again = deployed.send("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0})
    assert again.metrics["TablesLagging"] == 0
    assert not deployed.waiting("expire")


def test_a_commit_that_needs_nothing_takes_four_reads() -> None:
    """The state, the next snapshot, the next schema and the first one: no listing, no write, no second function."""
    deployed = Deployment(extra={"LAKESWEEP_MIN_INTERVAL": "0 ms"})
    recently_ms = int(time.time() * 1000) - 7_200_000
    table = deployed.table(options={"snapshot.num-retained.max": "19"}, start_ms=recently_ms)
    deployed.run(deployed.commit_event(6))
    table.commit("+F7")
    table.hint("LATEST", 7)
    event = deployed.commit_event(7)
    with recorded() as calls:
        answers = deployed.run(event)
    assert len(answers) == 1
    assert answers[0].metrics["GetRequests"] == 4
    assert not [name for name in ("ListRequests", "PutRequests") if name in answers[0].metrics]
    made = [
        call.action for call in calls if call.context or call.action != "s3:ListBucket"
    ]  # leave to see what is not there
    assert set(made) <= {"s3:GetObject", "sqs:ReceiveMessage"}, "nor an uncounted request"
    assert made.count("s3:GetObject") == 4


def test_a_commit_too_soon_takes_one_read() -> None:
    deployed = Deployment()
    deployed.table()
    deployed.run(deployed.commit_event(6))
    event = deployed.commit_event(7)
    with recorded() as calls:
        answer = deployed.send("on_snapshot_written", event)
    assert [call.action for call in calls if call.action != "s3:GetObject"] == ["sqs:SendMessage"]
    assert answer.metrics["GetRequests"] == 1
    assert "ListRequests" not in answer.metrics


def test_a_pass_that_ends_at_its_limit_asks_for_the_next() -> None:
    """A table with more commits between two passes than a pass expires does not fall behind."""
    deployed = Deployment()
    deployed.table(commits=12, options={**STATED, "snapshot.expire.limit": "4"})
    answers = deployed.run(deployed.commit_event(12))
    assert deployed.snapshots() == [11, 12]
    assert len(answers) == 6, "three passes, each asked for by a hint that was sorted"
