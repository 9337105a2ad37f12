"""What is remembered of scans: the last ten, each once; a document that is damaged counts as none."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.scan_history import KEPT, PastScan, note_scan, read_history
from lakesweep.errors import StorageError
from tests.support.memory_store import MemoryStore

SCAN = PastScan(
    engine="lambda",
    began_ms=1_000,
    ended_ms=61_500,
    status="planned",
    objects=1_000_000,
    bytes=5,
    roots=100,
    manifests=140,
    entries=2_000_000,
    entries_decoded=20_000,
    latest_id=100,
    requests={"get": 500, "list": 1000},
    usd=0.01,
    estimate={"usd": 0.011, "requests": {"get": 499}},
    reason="1 000 000 objects (by a first look): lambda",
)


@pytest.fixture
def area() -> ControlArea:
    return ControlArea(MemoryStore("memory://control"), "s3://lake/db.db/t")


def document(area: ControlArea) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(area.read("orphan_scans.json").data)
    return found


def test_what_is_noted_is_read(area: ControlArea) -> None:
    """With all that it has, and in the order of time."""
    assert read_history(area) == ()
    note_scan(area, SCAN)
    later = PastScan("local", 70_000, 71_000, "nothing_to_do", 3, None, 1, 1)
    note_scan(area, later)
    assert read_history(area) == (SCAN, later)
    assert SCAN.seconds == 60.5


def test_twice_is_once(area: ControlArea) -> None:
    """A fold that is repeated notes its scan again."""
    note_scan(area, SCAN)
    note_scan(area, replace(SCAN, status="done"))
    (found,) = read_history(area)
    assert found.status == "done"


def test_ten_are_kept(area: ControlArea) -> None:
    """The oldest go."""
    for number in range(KEPT + 5):
        note_scan(area, replace(SCAN, began_ms=number))
    assert [scan.began_ms for scan in read_history(area)] == list(range(5, KEPT + 5))
    assert len(document(area)["scans"]) == KEPT


@pytest.mark.parametrize(
    "change",
    [
        {"format_version": 2},
        {"scans": {}},
        {"scans": [1]},
        {"scans": [{}]},
        {"scans": [{"engine": "local"}]},
        *({"scans": [{name: value}]} for name, value in (("objects", "7"), ("objects", True), ("objects", -1))),
        *({"scans": [{name: value}]} for name, value in (("objects", 1 << 70), ("roots", None), ("began_ms", 1.5))),
        *({"scans": [{"requests": value}]} for value in ([], {"get": "1"}, {"get": -1}, {"get": True})),
        *({"scans": [{name: value}]} for name, value in (("usd", "1"), ("usd", float("nan")), ("estimate", []))),
        *({"scans": [{name: value}]} for name, value in (("engine", None), ("reason", 5), ("inventory", 1))),
    ],
)
def test_damage_is_no_history(area: ControlArea, change: dict[str, Any]) -> None:
    """Nothing that stands there stops a scan, and the next one writes it anew."""
    note_scan(area, SCAN)
    found = document(area)
    rows = change.get("scans")
    if isinstance(rows, list) and rows and isinstance(rows[0], dict) and len(rows[0]) == 1 and "engine" not in rows[0]:
        change = {"scans": [{**found["scans"][0], **rows[0]}]}
    elif rows == [{"engine": None}]:
        change = {"scans": [{**found["scans"][0], "engine": None}]}
    area.put("orphan_scans.json", json.dumps({**found, **change}).encode())
    assert read_history(area) == ()
    note_scan(area, SCAN)
    assert read_history(area) == (SCAN,)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{" * 10_000])
def test_no_json_is_no_history(area: ControlArea, data: bytes) -> None:
    """Bytes of any kind."""
    area.put("orphan_scans.json", data)
    assert read_history(area) == ()


def test_fields_of_later_versions_are_left_out(area: ControlArea) -> None:
    """A later version may add some, and an earlier one goes on."""
    note_scan(area, SCAN)
    found = document(area)
    found["scans"][0]["colour"] = "blue"
    area.put("orphan_scans.json", json.dumps(found).encode())
    assert read_history(area) == (SCAN,)


def test_a_failed_read_is_an_error() -> None:
    """Not the same as no history: who asks decides."""

    class Failing(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Any:
            raise StorageError("no")

    with pytest.raises(StorageError):
        read_history(ControlArea(Failing("memory://control"), "s3://lake/db.db/t"))
