"""The tour that asks for scans for orphan files: when a table is due, and what happens to scans that never end."""

import json
from typing import Any

import pytest

from lakesweep.aws import places
from lakesweep.aws.scans import schedule
from lakesweep.aws.scans.schedule import Scheduled, jitter_ms, next_step, note_end, read_scheduled, write_scheduled
from lakesweep.aws.sweeps import orphans as module
from lakesweep.control.area import ControlArea
from lakesweep.errors import PreconditionFailedError
from lakesweep.model.safety import SCAN_LOST_MS, SCAN_SILENCE_MS
from tests.functions.deployment import Answer, Deployment, keys_of
from tests.functions.orphan_scans import ORPHAN, made, metric, write_policy
from tests.support.memory_store import MemoryStore

SWEEP: dict[str, object] = {"format_version": 1, "kind": "orphan_sweep", "cursor": None, "hop": 0}
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
LOCATION = "s3://lake/warehouse/sales.db/orders"


def documents(deployed: Deployment) -> dict[str, dict[str, Any]]:
    """Return what is noted of each table, by its key in the control location."""
    control = deployed.control()
    keys = [key for key in deployed.control_keys() if key.endswith("/orphan_scan.json")]
    return {key: json.loads(control.read(key).data) for key in keys}


def shift(deployed: Deployment, by_ms: int) -> None:
    """Let time pass, as far as schedules know."""
    for key, document in documents(deployed).items():
        for name, value in document.items():
            if name.endswith("_ms") and value:
                document[name] = value - by_ms
        deployed.control().put(key, json.dumps(document).encode())


def tour(deployed: Deployment, **words: object) -> list[dict[str, Any]]:
    """Make a tour, and return the scans that it asked for."""
    answer = deployed.send("orphan_scan", {**SWEEP, **words})
    assert answer.failed == []
    return deployed.waiting("scan")


def due(**words: str) -> Deployment:
    """Return a deployment whose table is due for its first scan."""
    deployed = made(**words)
    assert tour(deployed) == []
    shift(deployed, WEEK_MS)
    return deployed


def test_a_table_is_noted_first_and_scanned_within_a_week() -> None:
    deployed = made()
    assert tour(deployed) == []
    (before,) = documents(deployed).values()
    assert (before["scan_id"], before["ended_ms"]) == (None, None)
    assert tour(deployed) == []
    shift(deployed, WEEK_MS)
    (scan,) = tour(deployed)
    assert (scan["kind"], scan["table"], scan["step"]) == ("orphan_scan", deployed.location(), 0)
    assert (scan["execute"], scan["manual"]) == (True, False)
    assert scan["arguments"] == {"engine": "auto", "quarantine": "1 d"}
    (after,) = documents(deployed).values()
    assert (after["scan_id"], after["ended_ms"]) == (scan["scan_id"], None)
    assert tour(deployed) == [], "never two at once"


def test_weeks_of_one_table() -> None:
    """The first scan notes, the second, a week later, removes; each is noted as ended."""
    deployed = due()
    (first,) = tour(deployed)
    answers = run(deployed, first)
    (noted,) = documents(deployed).values()
    assert (noted["status"], noted["scan_id"]) == ("nothing_to_do", first["scan_id"])
    assert ORPHAN in keys_of(deployed.store())
    assert metric(answers, "OrphansFound") == 0
    shift(deployed, WEEK_MS - 3_600_000)
    assert tour(deployed) == []
    shift(deployed, 3_700_000)
    _back_date_quarantine(deployed)
    (second,) = tour(deployed)
    assert second["scan_id"] != first["scan_id"]
    run(deployed, second)
    assert ORPHAN not in keys_of(deployed.store())
    assert [each["status"] for each in documents(deployed).values()] == ["planned"]


def run(deployed: Deployment, *scans: object) -> list[Answer]:
    return [*(deployed.send("orphan_scan", scan) for scan in scans), *deployed.run()]


def _back_date_quarantine(deployed: Deployment) -> None:
    from lakesweep.control.ndjson import pack, unpack

    (key,) = [key for key in deployed.control_keys() if key.endswith("orphans.ndjson.gz")]
    control = deployed.control()
    rows = unpack(control.read(key).data, key)
    control.put(key, pack([{**row, "seen_ms": int(str(row["seen_ms"])) - WEEK_MS} for row in rows]))


def test_a_scan_that_is_silent_is_asked_for_again_and_given_up_after_a_day() -> None:
    deployed = due()
    (first,) = tour(deployed)  # and its message is lost
    shift(deployed, SCAN_SILENCE_MS - 60_000)
    assert tour(deployed) == []
    shift(deployed, 120_000)
    assert tour(deployed) == [first]
    assert tour(deployed) == [], "not in every tour"
    shift(deployed, SCAN_LOST_MS)
    (other,) = tour(deployed)
    assert other["scan_id"] != first["scan_id"]
    run(deployed, first, other)
    (noted,) = documents(deployed).values()
    assert (noted["scan_id"], noted["status"]) == (other["scan_id"], "nothing_to_do")


def test_a_scan_that_failed_is_not_waited_for_a_week() -> None:
    deployed = due()
    (scan,) = tour(deployed)
    scan["arguments"]["engine"] = "lambda"
    deployed.send("orphan_scan", scan)
    while waiting := deployed.waiting("scan"):
        deployed.waiting("orphan")
        deployed.send("orphan_scan", *waiting)
    assert [each["status"] for each in documents(deployed).values()] == ["failed"]
    assert tour(deployed) == []
    shift(deployed, SCAN_LOST_MS)
    assert len(tour(deployed)) == 1


@pytest.mark.parametrize(
    ("mode", "rule", "scans", "execute"),
    [
        ("delete", None, 1, True),
        ("delete", {"mode": "delete"}, 1, True),
        ("delete", {"mode": "observe"}, 1, False),
        ("observe", {"mode": "delete"}, 1, False),
        ("observe", None, 1, False),
        ("delete", {"mode": "delete", "pause": True}, 0, False),
        ("delete", {"mode": "delete", "pause": {"reason": "x", "until": "2999-01-01T00:00:00Z"}}, 0, False),
        ("delete", {"mode": "delete", "pause": {"reason": "x", "until": "2001-01-01T00:00:00Z"}}, 1, True),
    ],
)
def test_who_only_observes(mode: str, rule: dict[str, object] | None, scans: int, execute: bool) -> None:
    deployed = due(mode=mode)
    if rule is not None:
        write_policy(deployed, rule)
    asked = tour(deployed)
    assert [scan["execute"] for scan in asked] == [execute] * scans
    run(deployed, *asked)
    assert ORPHAN in keys_of(deployed.store())


def test_folders_that_are_no_tables() -> None:
    """They have no document, and no scan."""
    deployed = due()
    deployed.store("sales.db/notes").put("readme", b"x")
    deployed.store("sales.db/empty").put("schema/schema-0", b"{}")
    assert len(tour(deployed)) == 1
    assert len(documents(deployed)) == 1
    for key in keys_of(deployed.store()):
        deployed.store()._s3.client().delete_object(Bucket=deployed.bucket, Key=f"warehouse/sales.db/orders/{key}")
    deployed.store().put("readme", b"what is left of a table that was dropped")
    shift(deployed, 2 * WEEK_MS)
    assert tour(deployed) == []


def test_a_document_that_is_damaged_is_written_anew() -> None:
    deployed = due()
    (key,) = documents(deployed)
    for body in (b"{", b"[]", b'{"format_version": 9}', b'{"format_version": 1, "first_seen_ms": "x"}'):
        deployed.control().put(key, body)
        assert tour(deployed) == []
        assert documents(deployed)[key]["scan_id"] is None


def test_two_sweeps_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one read before the other wrote, it does not write."""
    deployed = due()
    deployed.load("orphan_scan")
    read = schedule.read_scheduled
    others: list[dict[str, Any]] = []

    def read_and_be_overtaken(area: Any) -> Any:
        found = read(area)
        monkeypatch.setattr(module, "read_scheduled", read)
        others.extend(tour(deployed))
        return found

    monkeypatch.setattr(module, "read_scheduled", read_and_be_overtaken)
    assert tour(deployed) == []
    assert len(others) == 1


def test_a_sweep_that_dies_after_its_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan is noted and was never asked for; two hours later it is."""
    deployed = due()
    queues = deployed.load("orphan_scan").runtime.queues

    def die(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(queues), "ask_for_orphan_scan", die)
    answer = deployed.send("orphan_scan", SWEEP)
    assert (answer.failed, answer.metrics["RunsFailed"]) == ([], 1)
    monkeypatch.undo()
    assert tour(deployed) == []
    shift(deployed, SCAN_SILENCE_MS)
    (scan,) = tour(deployed)
    assert [scan["scan_id"]] == [each["scan_id"] for each in documents(deployed).values()]


def test_a_sweep_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose time is over sends the rest, and every table is asked once."""
    monkeypatch.setattr(places, "PARALLEL", 2)
    deployed = Deployment()
    names = [f"sales.db/t{number:02}" for number in range(40)]
    for name in names:
        deployed.store(name).put("snapshot/LATEST", b"1")
        deployed.store(name).put("schema/schema-0", b"{}")
    message, parts = SWEEP, 0
    while True:
        parts += 1
        answer = deployed.send("orphan_scan", message, reads=20)
        assert answer.failed == []
        rest = deployed.waiting("scan")
        if not rest:
            break
        (message,) = rest
        assert (message["kind"], message["hop"]) == ("orphan_sweep", parts)
    assert parts > 1
    assert len(documents(deployed)) == 40
    answer = deployed.send("orphan_scan", {**SWEEP, "hop": 15}, reads=0)
    assert answer.metrics["HopLimitReached"] == 1
    assert not deployed.waiting("scan")


def test_a_sweep_without_its_policy_fails() -> None:
    deployed = due()
    write_policy(deployed, {})
    deployed.control().put("policy.json", b"{")
    answer = deployed.send("orphan_scan", SWEEP)
    assert (answer.failed, answer.metrics["RunsFailed"]) == (["m0"], 1)
    assert not deployed.waiting("scan")


@pytest.mark.parametrize(
    ("found", "after_ms", "step"),
    [
        (Scheduled(0), jitter_ms(LOCATION, WEEK_MS) - 1, "wait"),
        (Scheduled(0), jitter_ms(LOCATION, WEEK_MS), "begin"),
        (Scheduled(0, "s", ended_ms=5, status="planned"), WEEK_MS - 1, "wait"),
        (Scheduled(0, "s", ended_ms=5, status="planned"), WEEK_MS, "begin"),
        (Scheduled(0, "s", ended_ms=5, status="failed"), DAY_MS - 1, "wait"),
        (Scheduled(0, "s", ended_ms=5, status="failed"), DAY_MS, "begin"),
        (Scheduled(0, "s"), SCAN_SILENCE_MS - 1, "wait"),
        (Scheduled(0, "s"), SCAN_SILENCE_MS, "go_on"),
        (Scheduled(0, "s", asked_ms=SCAN_LOST_MS - 1), SCAN_LOST_MS - 1, "wait"),
        (Scheduled(0, "s", asked_ms=SCAN_LOST_MS - 1), SCAN_LOST_MS, "begin"),
    ],
)
def test_when_a_table_is_due(found: Scheduled, after_ms: int, step: str) -> None:
    assert next_step(found, LOCATION, after_ms, WEEK_MS) == step


def test_only_the_last_scan_ends() -> None:
    """One that was given up and ends all the same says nothing of the one after it; nor an end that comes twice."""
    area = ControlArea(MemoryStore("memory://control"), LOCATION)
    note_end(area, "first", "planned", 5)
    assert read_scheduled(area) == (None, None)
    write_scheduled(area, Scheduled(0, "second", began_ms=1), None)
    note_end(area, "first", "planned", 5)
    assert read_scheduled(area)[0] == Scheduled(0, "second", began_ms=1)
    note_end(area, "second", "planned", 6)
    note_end(area, "second", "failed", 7)
    assert read_scheduled(area)[0] == Scheduled(0, "second", began_ms=1, ended_ms=6, status="planned")


def test_a_document_is_written_over_the_one_that_was_read() -> None:
    area = ControlArea(MemoryStore("memory://control"), LOCATION)
    write_scheduled(area, Scheduled(1), None)
    _, etag = read_scheduled(area)
    write_scheduled(area, Scheduled(2), etag)
    for old in (etag, None):
        with pytest.raises(PreconditionFailedError):
            write_scheduled(area, Scheduled(3), old)
    assert read_scheduled(area)[0] == Scheduled(2)


def test_first_scans_are_spread_over_the_interval() -> None:
    times = [jitter_ms(f"s3://lake/warehouse/sales.db/t{number}", WEEK_MS) for number in range(700)]
    by_day = [sum(day * DAY_MS <= time < (day + 1) * DAY_MS for time in times) for day in range(7)]
    assert sum(by_day) == 700
    assert min(by_day) > 60, by_day
