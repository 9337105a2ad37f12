"""The deployment keeps its control location tidy: what the policy says goes, under the role of `execute_batch`."""

import json

import pytest

from lakesweep.aws import housekeeping as module
from lakesweep.control.area import ControlArea
from lakesweep.control.audit.verify import audit
from tests.functions.deployment import PREFIX, Deployment
from tests.functions.housekept import CONTROL, MESSAGE, write_old
from tests.support.s3_server import fresh_bucket, moto_store


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table begin with as little time as tests give a function."""
    monkeypatch.setattr(module, "TABLE_RESERVE_MS", 1)


TABLES = ("sales.db/a", "sales.db/b", "sales.db/c")


def deployed(*, states: bool = True, mode: str = "delete") -> tuple[Deployment, set[str]]:
    """Return a deployment whose tables have old documents."""
    policies = fresh_bucket()
    made = Deployment(mode=mode, extra={"LAKESWEEP_POLICY": f"s3://{policies}/policy.json"})
    rules = [{"tables": f"s3://{made.bucket}/{PREFIX}", "mode": "delete"}]
    policy = {"version": 1, "rules": rules, **({"control": CONTROL} if states else {})}
    moto_store("", bucket=policies).put("policy.json", json.dumps(policy).encode())
    made.mode = "delete"
    written: set[str] = set()
    for name in TABLES:
        made.table(name)
        hint = {
            "format_version": 1,
            "kind": "hint",
            "table": made.location(name),
            "branch": "main",
            "snapshot_id": None,
        }
        assert made.send("expire", {**hint, "hop": 0}).failed == []
        written |= write_old(made, name)
    made.mode = mode
    return made, written


def test_what_is_old_goes_table_by_table() -> None:
    """And nothing else; the audit finds nothing. Another message goes on where time ends."""
    made, written = deployed()
    before = set(made.control_keys())
    answer = made.send("execute_batch", MESSAGE, reads=3)
    assert answer.failed == [] and "Traceback" not in answer.text
    (rest,) = made.waiting("execute")
    assert (rest["kind"], rest["hop"]) == ("housekeeping", 1) and rest["cursor"] is not None
    done = {key.split("/")[1] for key in before - set(made.control_keys())}
    assert 0 < len(done) < len(TABLES) and rest["cursor"] == max(done)
    answer = made.send("execute_batch", rest)
    assert answer.failed == [] and made.waiting("execute") == []
    after = set(made.control_keys())
    assert before - after == written
    assert all("-housekeeping" in key for key in after - before)
    assert answer.metrics.get("RunsFailed", 0) == 0
    for name in TABLES:
        assert audit(ControlArea(made.control(), made.location(name))).is_whole
    again = made.send("execute_batch", MESSAGE)
    assert again.failed == [] and set(made.control_keys()) == after


@pytest.mark.parametrize(("states", "mode"), [(False, "delete"), (True, "observe")])
def test_nothing_goes_unless_somebody_says_so(states: bool, mode: str) -> None:
    """The policy must state `control`, and the deployment may delete; else the log says what would go."""
    made, written = deployed(states=states, mode=mode)
    before = set(made.control_keys())
    answer = made.send("execute_batch", MESSAGE)
    assert answer.failed == [] and set(made.control_keys()) == before and written <= before
    assert "planned" in answer.text


def test_tables_of_others_are_left_alone() -> None:
    """Somebody else's table in the same control location is none of this deployment's business."""
    made, _ = deployed()
    key = made.control_keys()[0].split("/")[1]
    area = ControlArea(made.control(), "s3://elsewhere/other.db/t")
    area.put("reports/r.json", json.dumps({"report": {"table": area.table}}).encode())
    assert made.send("execute_batch", MESSAGE).failed == []
    assert f"{area.prefix}reports/r.json" in made.control_keys() and key


def test_an_invalid_policy_stops_it() -> None:
    made, written = deployed()
    bucket, _, name = made.extra["LAKESWEEP_POLICY"].removeprefix("s3://").partition("/")
    moto_store("", bucket=bucket).put(name, b'{"version": 1, "rules": [], "control": {"retention": {"plans": "1 d"}}}')
    answer = made.send("execute_batch", MESSAGE)
    assert len(answer.failed) == 1 and "expected at least 24 d" in answer.text
    assert written <= set(made.control_keys())


def test_a_damaged_table_holds_back_no_other() -> None:
    made, written = deployed()
    folder = next(key for key in made.control_keys() if "sales.db-b-" in key).split("/")[1]
    made.control().put(f"tables/{folder}/lease.json", b"{")
    answer = made.send("execute_batch", MESSAGE)
    assert answer.failed == [] and answer.metrics["RunsFailed"] == 1
    left = {key for key in written if key in made.control_keys()}
    assert {key.split("/")[1] for key in left} == {folder} and len(left) == len(written) // 3
