"""`pause` and `resume`: what they print and change, and that each command respects them."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import acquire
from lakesweep.model.who import Who
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import open_store
from tests.support.s3_server import fresh_bucket, moto_settings
from tests.unit.cli.command_line import Answer, call, contents, write_table

STATED = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 h"}
DAY_MS = 86_400_000


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables, a policy that lets passes delete, and a control location."""
    for name in ("orders", "returns"):
        write_table(tmp_path / "lake" / name, commits=3, options=STATED)
    text = f'{{"version": 1,\n "rules": [\n  {{"tables": "{tmp_path}/lake", "mode": "delete"}}]}}\n'
    (tmp_path / "policy.json").write_text(text)
    monkeypatch.setenv("LAKESWEEP_POLICY", str(tmp_path / "policy.json"))
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    return tmp_path / "lake"


def policy(lake: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lake.parent / "policy.json").read_text())
    return found


def refusal(answer: Answer) -> str | None:
    found = answer.document["refusal"]
    return None if found is None else str(found["code"])


def maintain(lake: Path, name: str = "orders") -> Answer:
    return call("maintain", lake / name, "--execute", "--json")


def test_a_pause_from_beginning_to_end(lake: Path) -> None:
    """Without --execute nothing changes; then no command changes the table; a resume leaves the policy as it was."""
    before = (lake.parent / "policy.json").read_bytes()
    argv = ("pause", lake / "orders", "--reason", "lost commit 42")
    planned = call(*argv)
    assert planned.exit_code == 0
    assert planned.printed.startswith(f"pause of {lake}/orders: planned\n")
    assert planned.printed.endswith("  the same command with --execute\n")
    assert (lake.parent / "policy.json").read_bytes() == before
    done = call(*argv, "--execute", "--json")
    assert (done.exit_code, done.messages) == (0, "")
    (change,) = done.document["changes"]
    assert (done.document["status"], done.document["executed"]) == ("done", True)
    assert (change["tables"], change["before"], change["after"]["until_ms"]) == (f"{lake}/orders", None, None)
    assert done.document["pauses"] == [{"tables": f"{lake}/orders", "pause": change["after"]}]
    paused = maintain(lake)
    assert (paused.exit_code, refusal(paused)) == (3, "paused")
    by = change["after"]["by"]
    assert paused.messages.rstrip().endswith(f"says so of {lake}/orders: lost commit 42, by {by}")
    assert maintain(lake, "returns").document["status"] == "done"
    again = call(*argv, "--execute", "--json")
    assert (again.document["status"], again.document["executed"]) == ("nothing_to_do", False)
    assert call("resume", lake / "orders").printed.startswith(f"resume of {lake}/orders: planned\n")
    assert call("resume", lake / "orders", "--execute").exit_code == 0
    assert (lake.parent / "policy.json").read_bytes() == before
    assert maintain(lake).document["status"] == "done"
    nothing = call("resume", lake / "orders", "--execute")
    assert nothing.printed.startswith(f"resume of {lake}/orders: nothing to do\n")


@pytest.mark.parametrize("mode", [0o640, 0o666])
def test_the_policy_keeps_its_permissions(lake: Path, mode: int) -> None:
    """Whoever could read it can read it after a pause, whatever the umask of the caller is."""
    path = lake.parent / "policy.json"
    path.chmod(mode)
    before = os.umask(0o077)
    try:
        assert call("pause", lake, "--reason", "why", "--execute").exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_readers_say_why_and_until_when(lake: Path) -> None:
    """`show`, `explain`, `check` and `policy test`, as text and in documents."""
    call("pause", lake, "--reason", "migration", "--until", "2999-01-01T00:00:00+01:00", "--execute")
    words = "pause: migration, until 2998-12-31T23:00:00Z, by "
    for command in ("show", "explain", "check"):
        found = call(command, lake / "orders", "--json").document["policy"]
        assert found["treatment"] == "paused"
        assert f"says of {lake} to {words}" in found["says"]
        assert words in call(command, lake / "orders").printed
    tested = call("policy", "test", lake / "orders", "--json").document
    (field,) = [each for each in tested["policy"]["fields"] if each["field"] == "pause"]
    assert (field["value"]["reason"], field["rule"]) == ("migration", str(lake))
    assert f"pause migration, until 2998-12-31T23:00:00Z, by {field['value']['by']} (rule for {lake})" in (
        call("policy", "test", lake / "orders").printed
    )


def test_an_ended_pause_stops_nothing_and_is_said(lake: Path) -> None:
    """Until somebody pauses or resumes anything, it stands in the policy."""
    found = policy(lake)
    found["rules"][0]["pause"] = {"reason": "old", "until": "2001-01-01T00:00:00Z"}
    (lake.parent / "policy.json").write_text(json.dumps(found))
    warning = f"the pause of {lake} is over since 2001-01-01T00:00:00Z; the next pause or resume removes it"
    assert warning in call("policy", "test", lake / "orders", "--json").document["warnings"]
    assert maintain(lake).document["status"] == "done"
    assert call("resume", "--all", "--execute", "--json").document["status"] == "done"
    assert policy(lake)["rules"] == [{"tables": str(lake), "mode": "delete"}]


def test_a_folder_and_one_table_of_it(lake: Path) -> None:
    """A resume within a paused folder is an exception; a pause of everything has none."""
    call("pause", lake, "--reason", "migration", "--execute")
    done = call("resume", lake / "orders", "--execute", "--json").document
    assert done["changes"] == [{"tables": f"{lake}/orders", "before": None, "after": False}]
    assert [each["tables"] for each in done["pauses"]] == [str(lake)]
    assert (refusal(maintain(lake)), refusal(maintain(lake, "returns"))) == (None, "paused")
    assert f"the rule for {lake}/orders lifts the pause of {lake}" in call("policy", "test", lake / "orders").messages
    call("pause", "--all", "--reason", "incident", "--execute")
    assert (refusal(maintain(lake)), refusal(maintain(lake, "returns"))) == ("paused", "paused")
    assert f"says so of {lake}: migration" in maintain(lake).messages, "the longest folder decides"
    call("resume", "--all", "--execute")
    assert (refusal(maintain(lake)), refusal(maintain(lake, "returns"))) == ("paused", "paused")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ((), 2, "expected a table or folder, or --all; found neither"),
        (("LAKE", "--all"), 2, "found both"),
        (("LAKE/*",), 2, "not a pattern"),
        (("LAKE/odrers",), 3, "found nothing there, so a pause would stop nothing"),
        (("LAKE/orders/manifest",), 2, "found a folder of table LAKE/orders; a pause of a part"),
        (("LAKE/orders/bucket-0/",), 2, "found a folder of table LAKE/orders; a pause of a part"),
        (("LAKE", "--reason", " "), 2, "--reason: expected words"),
        (("LAKE", "--reason", "a\nb"), 2, "--reason: expected words"),
        (("LAKE", "--reason", "a\u202eb"), 2, "--reason: expected words"),
        (("LAKE", "--until", "2001-01-01T00:00:00Z"), 2, "--until: expected a time after"),
        (("LAKE", "--until", "0 s"), 2, "--until: expected a time after"),
        (("LAKE", "--until", "9000000 d"), 2, "before the year"),
        (("LAKE", "--until", "5"), 2, "--until: 5 is"),
        (("LAKE", "--until", "tomorrow"), 2, "--until: expected"),
        (("LAKE", "--policy", "LAKE/none.json"), 2, "found nothing there"),
        (("LAKE", "--policy", ""), 2, "--policy: expected"),
    ],
)
def test_what_is_refused(lake: Path, argv: tuple[str, ...], code: int, words: str) -> None:
    """One sentence, and nothing is written."""
    before = contents(lake.parent)
    given = [word.replace("LAKE", str(lake)) for word in argv]
    reason = [] if "--reason" in argv else ["--reason", "why"]
    answer = call("pause", *given, *reason, "--execute")
    assert (answer.exit_code, len(answer.sentences)) == (code, 1)
    assert words.replace("LAKE", str(lake)) in answer.messages
    assert contents(lake.parent) == before
    assert call("pause", lake).exit_code == 2, "a reason is needed"


def test_what_is_under_way(lake: Path) -> None:
    """The lease with its run and end, a plan that a dead run left, and scans without a result."""
    store = LocalStore(str(lake.parent / "control"))
    for name in ("orders", "returns"):
        maintain(lake, name)
    orders, returns = (
        ControlArea(store, f"{lake}/{name}", who=lambda: Who("ada@forge", "forge")) for name in ("orders", "returns")
    )
    intent = Intent("20260131T120000Z-1f2e3d4c", "main", 3, ("run-1",), 1)
    acquire(orders, "run-1", intent)
    acquire(returns, "run-2", intent).release(ended=False)
    scans = ControlArea(store, f"{lake}/returns", root="scans")
    for scan in ("s1", "s2"):
        scans.put(f"{scan}/scan.json.gz", b"")
    scans.put("s1/result.json", b"{}")
    scans.put("plans/p/header.json", b"{}")
    document = call("pause", lake, "--reason", "why", "--json").document
    running, dead = document["running"]
    assert document["table_count"] == 2
    assert {**running, "since_ms": 0, "until_ms": 0} == {
        "table": f"{lake}/orders",
        "state": "running",
        "run_id": "run-1",
        "by": "ada@forge",
        "since_ms": 0,
        "until_ms": 0,
        "plan_id": intent.plan_id,
        "scans": [],
    }
    assert 9 * 60_000 < running["until_ms"] - running["since_ms"] <= 10 * 60_000
    assert (dead["table"], dead["state"], dead["plan_id"], dead["scans"]) == (
        f"{lake}/returns",
        "unfinished",
        intent.plan_id,
        ["s2"],
    )
    text = call("pause", lake, "--reason", "why").printed
    assert f"  {lake}/orders: run run-1 by ada@forge, lease until 20" in text
    assert "a running deletion of orphan files stops within ten minutes" in text
    other = call("pause", lake / "orders", "--reason", "why", "--json").document
    assert ([each["table"] for each in other["running"]], other["table_count"]) == ([f"{lake}/orders"], 1)


def test_a_damaged_lease_does_not_hinder_a_pause(lake: Path) -> None:
    """What is under way is said as far as it is known."""
    maintain(lake)
    (lease,) = (lake.parent / "control").rglob("lease.json")
    lease.write_text("{")
    answer = call("pause", lake, "--reason", "why", "--execute", "--json")
    assert (answer.exit_code, answer.document["status"], answer.document["running"]) == (0, "done", [])
    assert f"table {lake}/orders: what is under way is not known" in answer.messages


def test_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a policy, tables and a control location in S3; an age counts from S3's clock."""
    settings = moto_settings()
    bucket = fresh_bucket()
    monkeypatch.delenv("LAKESWEEP_CONTROL", raising=False)
    store = open_store(f"s3://{bucket}", settings=settings)
    store.put("lake/orders/schema/schema-0", b"{}")
    body = b'{"version": 1, "rules": []}'
    store.put("ops/policy.json", body)
    argv = (
        "--policy",
        f"s3://{bucket}/ops/policy.json",
        "--endpoint-url",
        settings.endpoint_url,
        "--region",
        "us-east-1",
    )
    place = f"s3://{bucket}/lake"
    answer = call("pause", f"s3a://{bucket}/lake/", "--reason", "why", "--until", "1 d", "--execute", "--json", *argv)
    assert (answer.exit_code, answer.document["status"], answer.document["running"]) == (0, "done", None)
    assert "no control location is given" in answer.messages
    (rule,) = json.loads(store.read("ops/policy.json").data)["rules"]
    assert (rule["tables"], rule["pause"]["reason"]) == (place, "why")
    until_ms = answer.document["changes"][0]["after"]["until_ms"]
    assert until_ms % 1000 == 0
    assert 0 <= until_ms - DAY_MS - store.now_ms() + 60_000 < 120_000
    assert call("resume", place, "--control", f"s3://{bucket}/ops", "--execute", *argv).exit_code == 0
    assert store.read("ops/policy.json").data == body
