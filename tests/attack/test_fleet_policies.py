"""Fleet policies that cannot be read, contradict themselves, or change while a run is under way."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakesweep.control.reports import load_report
from lakesweep.storage.store import Body, Store
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.stub_s3 import error, stub_s3
from tests.support.table_builder import TICK_MS
from tests.support.world import World
from tests.unit.cli.command_line import Answer, call, contents, write_table

STATED = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}
PLAN, RUN = "PLAN", "20260131T120003Z-5a6b7c8d"
READS_POLICY: tuple[tuple[str, ...], ...] = (
    ("maintain", "--execute"),
    ("execute", PLAN),
    ("show",),
    ("explain",),
    ("check",),
    ("policy", "test"),
    ("tags",),
    ("expire-tags",),
    ("expire-snapshots", "--execute"),
    ("remove-orphan-files", "--execute"),
    ("create-tag", "now", "--execute"),
    ("undo", RUN, "--execute"),
)
"""Commands that must know the policy before they say or change anything."""


def asked(words: tuple[str, ...], table: Path, *argv: object) -> Answer:
    """Run a command on a table: its name, the table, and the other words."""
    names = words[: 2 if words[0] == "policy" else 1]
    control = () if words[0] in ("show", "tags", "policy") else ("--control", table.parent / "control")
    return call(*names, table, *words[len(names) :], *argv, *control, "--json")


def code_of(answer: Answer) -> str:
    found = answer.document.get("error") or answer.document["refusal"]
    return str(found["code"])


@pytest.mark.parametrize(
    ("status", "code", "word", "count"),
    [(403, "AccessDenied", "access_denied", None), (503, "SlowDown", "SlowDown", 4)],
)
def test_a_policy_that_s3_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: str, word: str, count: int | None
) -> None:
    """Every command that follows a policy says so and ends; none takes it for "no policy"."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda seconds: None))
    write_table(tmp_path / "orders", options=STATED)
    plan_id = asked(("expire-snapshots",), tmp_path / "orders").document["plan_id"]
    before = contents(tmp_path / "orders")
    with stub_s3(lambda request: error(status, code)) as stub:
        argv = ("--policy", "s3://ops/policy.json", "--endpoint-url", stub.url, "--region", "us-east-1")
        for words in READS_POLICY[:count]:
            given = tuple(plan_id if each == PLAN else each for each in words)
            answer = asked(given, tmp_path / "orders", *argv)
            assert (code_of(answer), answer.exit_code in (1, 3)) == (word, True), words
            assert "policy s3://ops/policy.json cannot be read: " in answer.messages, words
    assert contents(tmp_path / "orders") == before


TABLE, POLICY = "memory://lake/sales.db/orders", "memory://ops/policy.json"
FLOOR = {"mode": "delete", "min_snapshots": 5}


class Turning(MemoryStore):
    """A place for policies whose document is replaced right after it was read for the first time."""

    def __init__(self, first: Mapping[str, object], later: Mapping[str, object]) -> None:
        super().__init__("memory://ops")
        self._later: Mapping[str, object] | None = later
        self.reads = 0
        self.first_etag = self.write(first)

    def write(self, rule: Mapping[str, object]) -> str:
        rules = [{"tables": "memory://lake/", **rule}]
        return self.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        body = super().read(key, max_bytes)
        self.reads += 1
        if self._later is not None:
            self.write(self._later)
            self._later = None
        return body


class TurningWorld(World):
    """A table of ten snapshots, ten minutes apart, whose policy changes when a pass has begun."""

    def __init__(
        self, first: Mapping[str, object], later: Mapping[str, object], options: Mapping[str, str] = STATED
    ) -> None:
        super().__init__(location=TABLE, options=options)
        for _ in range(10):
            self.replace(TICK_MS)
        self.policies = Turning(first, later)

    def maintainer(self, switch: Switch | None = None, **arguments: Any) -> Maintainer:
        return super().maintainer(switch, **{"policy": POLICY, "open_store": self._open, **arguments})

    def _open(self, location: str) -> Store:
        return self.policies


SHORT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}


@pytest.mark.parametrize(
    ("first", "later", "left", "then"),
    [
        (FLOOR, {"mode": "delete"}, 5, "done"),
        ({"mode": "delete"}, FLOOR, 3, "nothing_to_do"),
        ({"mode": "delete"}, {"mode": "delete", "pause": True}, 3, "refused"),
        ({"mode": "delete"}, {"mode": "observe"}, 3, "nothing_to_do"),
        ({"mode": "observe"}, {"mode": "delete"}, 10, "done"),
    ],
    ids=["floor lifted", "floor added", "paused", "observed", "deleting"],
)
def test_a_pass_follows_the_policy_of_its_beginning(
    first: Mapping[str, object], later: Mapping[str, object], left: int, then: str
) -> None:
    """It reads the document once, its report has the ETag of what it read, and the next pass follows the new one."""
    world = TurningWorld(first, later, SHORT)
    report = world.maintain()
    assert (len(world.ids()), world.policies.reads) == (left, 1)
    if report.run_id is not None:
        assert load_report(world.area, report.run_id)["policy_etag"] == world.policies.first_etag
    assert world.maintain().status == then


def test_a_minimum_holds_against_a_shorter_retention_of_the_same_policy() -> None:
    """Of two statements that contradict each other, the one that keeps more holds."""
    retention = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, "snapshot.time-retained": "1 min"}
    rule = {"mode": "delete", "retention": retention, "min_snapshots": 6}
    world = TurningWorld(rule, rule, {})
    assert world.maintain().status == "done"
    assert len(world.ids()) == 6
