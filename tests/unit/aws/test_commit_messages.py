"""Requests for commits: read whole or refused, told apart by a FIFO queue, and asked for by passes."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakesweep.aws.commits import RecentCommits
from lakesweep.aws.fifo import dedup_id_of, group_of
from lakesweep.aws.handing_on import ask_for_commits, pass_like
from lakesweep.aws.messages import (
    HOP_LIMIT,
    OF_PASSES,
    Commit,
    Hint,
    Work,
    commits_snapshot,
    next_hop,
    parse_message,
    to_body,
)
from lakesweep.aws.queues import Queues
from lakesweep.errors import FormatError
from lakesweep.model.commits.seen import Announced
from lakesweep.model.report import RunReport
from lakesweep.runs.parameters.parameter import Signature, flag
from lakesweep.runs.parameters.signatures import SIGNATURES
from lakesweep.runs.session import COMMITS_ELSEWHERE

TABLE = "s3://lake/warehouse/sales.db/orders"
RUN = "20260131T120000Z-1f2e3d4c"
DROP = Commit("drop-partition", TABLE, "rt", {"partition": ["dt=1", {"dt": None}], "catalog_lock": True}, True, RUN, 3)


class Client:
    """Takes single messages."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    def send_message(self, **words: Any) -> None:
        self.taken.append(words)


@pytest.mark.parametrize(
    "commit", [DROP, Commit("truncate", TABLE, manual=True, run_id=RUN), Commit("expire-partitions", TABLE, "main", {})]
)
def test_a_request_is_read_as_it_was_written(commit: Commit) -> None:
    assert parse_message(to_body(commit), "m") == commit
    assert set(json.loads(to_body(commit))) == {
        *("format_version", "kind", "hop", "operation", "table", "branch", "arguments", "manual", "run_id")
    }


@pytest.mark.parametrize("name", ["hop", "operation", "table", "branch", "arguments", "manual", "run_id"])
def test_no_member_may_lack(name: str) -> None:
    """A drop that lost its arguments, or who asked for it, is no drop."""
    whole = json.loads(to_body(DROP))
    for less in ({key: value for key, value in whole.items() if key != name}, {**whole, name: None}):
        with pytest.raises(FormatError, match=name):
            parse_message(json.dumps(less), "m")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("operation", each) for each in ("rollback", "maintain", "drop_partition", "", 1)),
        *(("table", each) for each in ("/tmp/t", "", 1, "s3://" + "x" * 3000)),
        *(("branch", each) for each in ("", "a/b", "a\0b", 1)),
        *(("arguments", each) for each in ("dt=1", [], ["dt=1"], 1)),
        *(("manual", each) for each in (1, "true", False)),
        *(("run_id", each) for each in ("", "../x", 1, True, None)),
        *(("hop", each) for each in (-1, HOP_LIMIT, "0", 1.5)),
        *(("partition", each) for each in ("dt=1", None)),
    ],
)
def test_no_member_may_be_another(name: str, value: object) -> None:
    with pytest.raises(FormatError):
        parse_message(json.dumps({**json.loads(to_body(DROP)), name: value}), "m")


@pytest.mark.parametrize("more", [{"operation": "truncate"}, {"arguments": {"catalog_type": "filesystem"}}])
def test_a_pass_asks_for_what_the_table_says(more: dict[str, Any]) -> None:
    """Only a person may drop something, or say how."""
    whole = json.loads(to_body(Commit("expire-partitions", TABLE)))
    parse_message(json.dumps({**whole, **more, "manual": True, "run_id": RUN}), "m")
    with pytest.raises(FormatError, match="manual to be true"):
        parse_message(json.dumps({**whole, **more}), "m")


def test_what_events_announced_stays_with_a_message() -> None:
    """Also when the work is handed on; an earlier version's message has none."""
    announced = (Announced(6, "e6", 1000, 400), Announced(7, "e7", 0, 0))
    for message in (Hint(TABLE, "rt", 7, "e7", announced), Work(TABLE, "rt", announced=announced)):
        assert parse_message(to_body(message), "m") == message
        earlier = {key: value for key, value in json.loads(to_body(message)).items() if key != "announced"}
        assert parse_message(json.dumps(earlier), "m") == replace(message, announced=())
    with pytest.raises(FormatError, match="announced"):
        parse_message(to_body(Hint(TABLE)).replace("[]", '[[6, "e6", -1, 4]]'), "m")
    hint = Hint(TABLE, "rt", 7, "e7", announced)
    assert pass_like(hint) == Hint(TABLE, "rt", announced=announced)
    assert dedup_id_of(hint) != dedup_id_of(replace(hint, announced=announced[1:]))


def test_recent_commits_are_those_of_the_latest_batches() -> None:
    """A process remembers a snapshot until others of its branch, or events of many other branches, came."""
    recent, orders = RecentCommits(), (TABLE, "main")
    old, new = Announced(6, "a", 1000, 400), Announced(6, "b", 1000, 400)
    recent.keep(orders, [old])
    assert list(recent.others_than(orders, [new])) == [old]
    assert list(recent.others_than(orders, [old, Announced(7, "c", 0, 0)])) == []
    assert list(recent.others_than((TABLE, "rt"), [new])) == []
    recent.keep(orders, [Announced(number, "c", 0, 0) for number in range(20)])
    assert list(recent.others_than(orders, [new])) == []
    recent.keep(orders, [old])
    for number in range(2000):
        recent.keep((TABLE, f"b{number}"), [old])
    assert list(recent.others_than(orders, [new])) == []


def test_what_a_queue_takes_for_the_same() -> None:
    """Passes ask again and again, and once is enough. What a person asks for, and what comes again, is new."""
    commit = Commit("expire-partitions", TABLE)
    assert dedup_id_of(replace(commit, arguments={}, branch="main")) == dedup_id_of(commit)
    others = [replace(commit, branch="rt"), replace(commit, table=TABLE + "2")]
    assert len({dedup_id_of(each) for each in (commit, *others)}) == 3
    for each in (replace(commit, manual=True, run_id=RUN), next_hop(commit)):
        assert isinstance(each, Commit)
        assert dedup_id_of(each) != dedup_id_of(each)
    assert group_of(commit.table) == group_of(Hint(TABLE).table)


def report(status: Any, *warnings: str, operation: str = "expire-partitions", branch: str = "main") -> RunReport:
    return RunReport(operation, TABLE, branch, status, warnings=warnings)


def asked(*steps: RunReport) -> list[Commit]:
    """Return what the report of a pass with these steps makes a function ask for."""
    client = Client()
    runtime: Any = SimpleNamespace(
        queues=Queues({"committer": "https://sqs/1/committer.fifo"}, client),
        telemetry=SimpleNamespace(count=lambda name: None),
    )
    ask_for_commits(runtime, replace(report("done", operation="maintain"), steps=steps))
    found = [parse_message(each["MessageBody"], "m") for each in client.taken]
    assert [each["MessageGroupId"] for each in client.taken] == [group_of(TABLE)] * len(found)
    return [each for each in found if isinstance(each, Commit)]


def test_a_pass_asks_for_what_it_may_not_do() -> None:
    planned = report("planned", "a warning", f"table {TABLE}: {COMMITS_ELSEWHERE}")
    assert asked(report("done", operation="expire-snapshots"), planned) == [Commit("expire-partitions", TABLE)]
    of_branch = replace(report("done"), steps=(report("planned", COMMITS_ELSEWHERE, branch="rt"),))
    assert asked(of_branch) == [Commit("expire-partitions", TABLE, "rt")]


@pytest.mark.parametrize(
    "step",
    [
        report("planned"),
        report("planned", "a warning"),
        report("done", COMMITS_ELSEWHERE),
        report("nothing_to_do", COMMITS_ELSEWHERE),
        report("refused", COMMITS_ELSEWHERE),
    ],
)
def test_a_pass_asks_for_nothing_else(step: RunReport) -> None:
    """An observed table is planned too."""
    assert asked(step) == []


def test_every_operation_that_commits_is_known() -> None:
    """The declaration of an operation says it, so that a new one needs no other word."""
    known = {name for name in SIGNATURES if commits_snapshot(name, {})}
    repairs = {"remove-unexisting-files", "remove-unexisting-manifests", "clean-deletion-vectors"}
    assert known == {"drop-partition", "truncate", "expire-partitions", "compact-manifest"} | repairs
    assert known.issuperset(OF_PASSES)


@pytest.mark.parametrize(
    ("given", "commits"),
    [({}, False), ({"as_latest": None}, False), ({"as_latest": False}, False)]
    + [({"as_latest": True}, True), ({"as_latest": "true"}, True)],
)
def test_an_argument_may_make_a_commit_of_a_call(given: dict[str, object], commits: bool) -> None:
    as_latest = flag("as_latest", "Commit the old state.")
    assert Signature("rollback", (as_latest,), commits=as_latest).has_commit(given) is commits
