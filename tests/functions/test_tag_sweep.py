"""The tour of all tables that asks for passes where tags are due by the clock."""

import json
from typing import Any

import pytest

from lakesweep.aws.messages import HOP_LIMIT
from lakesweep.aws.sweeps import passes as module
from tests.functions.deployment import PREFIX, Deployment
from tests.support.iam import Call, recorded
from tests.support.s3_server import moto_client

SWEEP: dict[str, object] = {"format_version": 1, "kind": "tag_sweep", "cursor": None, "hop": 0}
NEVER = (1 << 63) - 1
MINUTE_MS = 60_000
LATE_MS = 5 * MINUTE_MS
"""So long after the time at which tags are due passes are asked for."""


class Lake(Deployment):
    """Tables that a pass has been over, and what it says of their tags."""

    def passed(self, name: str, *branches: str) -> None:
        """Write a table and let passes over it be made."""
        table = self.table(name, commits=4)
        for branch in branches:
            table.tag("cut", snapshot=4)
            table.branch(branch, from_tag="cut")
        for branch in ("main", *branches):
            hint = {"kind": "hint", "table": self.location(name), "branch": branch, "snapshot_id": None}
            assert self.send("expire", {"format_version": 1, "hop": 0, **hint}).failed == []
        assert set(self.states(name)) == {"main", *branches}

    def states(self, name: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._document(name)["branches"]
        return found

    def due(self, name: str, in_ms: int, branch: str = "main", *, checked_ms: int | None = None) -> None:
        """Let the last pass have said when the tags of a branch are due: so long from now."""
        document = self._document(name)
        state = document["branches"][branch]
        state["tags_due_ms"] = self.control().now_ms() + in_ms
        state["checked_ms"] = state["tags_due_ms"] - 1 if checked_ms is None else checked_ms
        self.control().put(self._key(name), json.dumps(document).encode())

    def asked(self, *, reads: int | None = None, **words: object) -> list[tuple[str, str]]:
        """Make a tour and return what it asked for, as (table, branch)."""
        answer = self.send("tag_schedule", {**SWEEP, **words}, reads=reads)
        assert answer.failed == [] and "Traceback" not in answer.text
        self.metrics = answer.metrics
        start = f"s3://{self.bucket}/{PREFIX}/"
        return [(hint["table"].removeprefix(start), hint["branch"]) for hint in self.waiting("expire")]

    def _key(self, name: str) -> str:
        wanted = "-".join(name.split("/"))
        (key,) = [key for key in self.control_keys() if f"/{wanted}-" in key and key.endswith("state.json")]
        return key

    def _document(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.control().read(self._key(name)).data)
        return document


def lake(**words: Any) -> Lake:
    made = Lake(**words)
    made.passed("sales.db/due", "rt")
    made.passed("sales.db/later")
    return made


def test_only_what_is_due_is_asked_for() -> None:
    """Each branch by itself, and when a commit has had its time to come."""
    deployed = lake()
    assert deployed.asked() == []
    assert deployed.metrics["TablesAskedForTags"] == 2
    deployed.due("sales.db/due", -7 * MINUTE_MS, "rt")
    deployed.due("sales.db/later", -4 * MINUTE_MS)
    assert deployed.asked() == [("sales.db/due", "rt")]
    assert deployed.metrics["TablesWithTagsDue"] == 1
    assert deployed.metrics["MaxTagLagSeconds"] == pytest.approx(420, abs=5)
    deployed.due("sales.db/due", -LATE_MS)
    deployed.due("sales.db/later", -LATE_MS)
    expected = [("sales.db/due", "main"), ("sales.db/due", "rt"), ("sales.db/later", "main")]
    assert sorted(deployed.asked()) == expected


def reads_of(calls: list[Call]) -> list[str]:
    return [call.resource.split(":::")[1] for call in calls if call.action == "s3:GetObject"]


def test_a_table_costs_one_read() -> None:
    """Its state, and nothing of the table; a table without one as well, and a due one unless it has other branches."""
    deployed = lake()
    deployed.table("sales.db/new", commits=1)
    deployed.due("sales.db/later", -LATE_MS)
    with recorded() as calls:
        assert deployed.asked() == [("sales.db/later", "main")]
    reads = reads_of(calls)
    assert len(reads) == 3 and all(key.endswith("/state.json") for key in reads)
    assert not any("Put" in call.action or "Delete" in call.action for call in calls if call.action.startswith("s3:"))
    assert deployed.metrics["GetRequests"] == 3
    listed = [call.context.get("s3:prefix", "") for call in calls if call.action == "s3:ListBucket" and call.context]
    assert not any("sales.db/later/" in prefix for prefix in listed)


def test_a_branch_that_was_dropped_is_not_asked_for() -> None:
    """Its state is still there, and a pass over it would be refused each time."""
    deployed = lake()
    deployed.due("sales.db/due", -LATE_MS)
    deployed.due("sales.db/due", -LATE_MS, "rt")
    store = deployed.store("sales.db/due")
    for entry in list(store.list("branch/")):
        moto_client().delete_object(Bucket=deployed.bucket, Key=f"{PREFIX}/sales.db/due/{entry.key}")
    assert deployed.asked() == [("sales.db/due", "main")]


def test_where_passes_only_plan_one_is_enough() -> None:
    """It says what is due; asked for again and again it would say the same."""
    for deployed in (lake(mode="observe"), observed_by_policy()):
        deployed.due("sales.db/due", -2 * LATE_MS, checked_ms=0)
        assert deployed.asked() == [("sales.db/due", "main")]
        assert deployed.metrics["MaxTagLagSeconds"] == 0, "nobody is to do anything about it"
        deployed.due("sales.db/due", -2 * LATE_MS, checked_ms=deployed.control().now_ms())
        assert deployed.asked() == []
    deployed = lake()
    deployed.due("sales.db/due", -2 * LATE_MS, checked_ms=deployed.control().now_ms())
    assert deployed.asked() == [("sales.db/due", "main")], "a pass has been there and left it due: it failed"


def test_tags_that_somebody_changed_by_hand() -> None:
    """When something of them is due, nobody knows by then; that alarms nobody."""
    deployed = lake()
    document = deployed._document("sales.db/due")
    document["branches"]["main"] |= {"tags_due_ms": 0, "checked_ms": 0}
    deployed.control().put(deployed._key("sales.db/due"), json.dumps(document).encode())
    assert deployed.asked() == [("sales.db/due", "main")]
    assert deployed.metrics["MaxTagLagSeconds"] == 0


def with_policy(deployed: Lake, **rule: object) -> Lake:
    rules = [{"tables": f"s3://{deployed.bucket}/{PREFIX}", "mode": "delete", **rule}]
    key = "policy.json"
    moto_client().put_object(
        Bucket=deployed.control_bucket, Key=key, Body=json.dumps({"version": 1, "rules": rules}).encode()
    )
    deployed.extra = {"LAKESWEEP_POLICY": f"s3://{deployed.control_bucket}/{key}"}
    return deployed


def observed_by_policy() -> Lake:
    return with_policy(lake(), mode="observe")


def test_paused_tables_are_left_alone() -> None:
    deployed = lake()
    deployed.due("sales.db/due", -LATE_MS)
    with_policy(deployed, pause=True)
    with recorded() as calls:
        assert deployed.asked() == []
    assert not [key for key in reads_of(calls) if key.endswith("state.json")]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"format_version": 1}', b'{"format_version": 99, "branches": 1}'])
def test_a_state_that_means_nothing(body: bytes) -> None:
    """The next pass writes it anew, and the sweep asks for that."""
    deployed = lake()
    deployed.due("sales.db/later", -LATE_MS)
    deployed.control().put(deployed._key("sales.db/due"), body)
    assert deployed.asked() == [("sales.db/later", "main")]
    assert "RunsFailed" not in deployed.metrics


def test_a_sweep_goes_on() -> None:
    """One whose time is over sends the rest."""
    deployed = lake()
    names = [f"sales.db/t{number:02}" for number in range(40)]
    for name in names:
        deployed.store(name).put("snapshot/LATEST", b"1")
    for name in ("sales.db/due", "sales.db/later"):
        deployed.due(name, -LATE_MS)
    asked, message, parts = [], SWEEP, 0
    while True:
        parts += 1
        asked += deployed.asked(reads=1, **message)
        rest = deployed.waiting("tags")
        if not rest:
            break
        (message,) = rest
        assert (message["kind"], message["hop"]) == ("tag_sweep", parts)
    assert parts > 1
    assert sorted(set(asked)) == [("sales.db/due", "main"), ("sales.db/later", "main")]


def test_a_sweep_that_was_handed_on_too_often() -> None:
    deployed = lake()
    for number in range(70):
        deployed.store(f"sales.db/t{number:02}").put("snapshot/LATEST", b"1")
    deployed.asked(reads=1, hop=HOP_LIMIT - 1)
    assert deployed.metrics["HopLimitReached"] == 1
    assert deployed.waiting("tags") == []


def test_one_table_that_breaks_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is told of, and does not hold back the tables after it."""
    deployed = lake()
    for name in ("sales.db/due", "sales.db/later"):
        deployed.due(name, -LATE_MS)
    found = module.states_of

    def states_of(table: Any) -> Any:
        if "/due" in str(table.ref):
            raise ZeroDivisionError
        return found(table)

    monkeypatch.setattr(module, "states_of", states_of)
    answer = deployed.send("tag_schedule", SWEEP)
    assert (answer.failed, answer.metrics["RunsFailed"]) == ([], 1)
    assert [hint["table"] for hint in deployed.waiting("expire")] == [deployed.location("sales.db/later")]


def test_a_sweep_that_fails_is_counted() -> None:
    deployed = lake()
    deployed.extra = {"LAKESWEEP_POLICY": f"s3://{deployed.bucket}/missing.json"}
    answer = deployed.send("tag_schedule", SWEEP)
    assert (answer.failed, answer.metrics["RunsFailed"]) == (["m0"], 1)


def test_another_message_is_no_sweep() -> None:
    deployed = lake()
    assert deployed.send("tag_schedule", {**SWEEP, "kind": "sweep"}).failed == ["m0"]
    assert deployed.send("sweep", SWEEP).failed == ["m0"]
    assert deployed.send("tag_schedule", {**SWEEP, "format_version": 2}).failed == ["m0"]
    assert deployed.send("tag_schedule", {**SWEEP, "cursor": 7}).failed == ["m0"]
