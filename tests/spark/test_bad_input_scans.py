"""Scans that are resumed with other words, by another version, or from documents that are not whole.

On a stand-in for Spark: what is refused is refused before Spark is asked for anything.
"""

import gzip
import json
from dataclasses import replace

import pytest

from lakesweep.control.ndjson import pack, unpack
from lakesweep.errors import FormatError, MaintenanceError, RefusedError, UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import require_area
from lakesweep.spark.scan import scans_of
from lakesweep.storage.store import DeleteRequest
from tests.support.orphan_scene import DAY_MS, HOUR_MS, OrphanScene
from tests.support.spark_stand_in import stand_in_plan

ARGUMENTS = OrphanArguments()
STATE = "s/state.ndjson.gz"


class Begun:
    """A table, and a scan `s` of it that came to its end."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.scene = OrphanScene()
        self.scene.table.commit("+A", "+B")
        self.orphans = {self.scene.orphan(f"o{number}") for number in range(5)}
        self.scene.age()
        self.area = require_area(self.scene.maintainer().table)
        self.scans = scans_of(self.area)
        assert self.scan().header.action_count == 5

    def scan(self, scan_id: str = "s", arguments: OrphanArguments = ARGUMENTS) -> Plan:
        return stand_in_plan(self._patch, self.scene.maintainer().table, arguments, scan_id)

    def refused(self, error: type[MaintenanceError], scan_id: str = "s", **changed: object) -> MaintenanceError:
        """Resume what must end with one sentence; nothing is lost, and another scan begins."""
        before = self.scene.listed(), sorted(self.area.names("plans/"))
        with pytest.raises(error) as found:
            self.scan(scan_id, replace(ARGUMENTS, **changed))  # type: ignore[arg-type]
        assert (self.scene.listed(), sorted(self.area.names("plans/"))) == before
        assert "\n" not in str(found.value)
        assert self.scan("another").header.action_count == 5
        return found.value

    @property
    def rows(self) -> list[dict[str, object]]:
        return list(unpack(self.scans.read(STATE).data, STATE))

    def write(self, rows: list[dict[str, object]]) -> None:
        self.scans.put(STATE, pack(rows))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    return Begun(monkeypatch)


@pytest.mark.parametrize("scan_id", ["../x", "a/b", "", ".", "..", "-x", "a" * 101, "a\nb", "a\0", "ä", "a b", "%2e"])
def test_an_id_that_is_none(begun: Begun, scan_id: str) -> None:
    if scan_id:
        error = begun.refused(UsageError, scan_id)
        assert error.exit_code == 2
        assert "scan_id" in str(error)


@pytest.mark.parametrize(
    "changed", [{"older_than_ms": 1}, {"quarantine_ms": HOUR_MS}, {"owned_external": ("memory://x/y",)}]
)
def test_a_scan_of_other_arguments(begun: Begun, changed: dict[str, object]) -> None:
    error = begun.refused(RefusedError, **changed)
    assert (error.code, error.exit_code) == ("other_scan", 3)
    assert "scan s began with another arguments" in str(error) or "begin another scan" in str(error)


def test_more_listings_at_once_are_no_other_scan(begun: Begun) -> None:
    assert begun.scan(arguments=OrphanArguments(parallelism=3)).header.action_count == 5


def test_a_scan_of_another_version(begun: Begun) -> None:
    head, *rest = begun.rows
    begun.write([head | {"code_version": "0.0.0"}, *rest])
    error = begun.refused(RefusedError)
    assert error.code == "other_scan"
    assert "code_version" in str(error)
    assert "'0.0.0'" in str(error)


def test_a_scan_of_another_table(begun: Begun) -> None:
    head, *rest = begun.rows
    begun.write([head | {"table": "memory://bucket/db.db/other"}, *rest])
    assert "table" in str(begun.refused(RefusedError))


def test_a_scan_that_is_a_day_old(begun: Begun) -> None:
    begun.scene.now_ms += DAY_MS + 1
    assert "its plan would have expired" in str(begun.refused(RefusedError))


def test_a_scan_that_began_in_the_future(begun: Begun) -> None:
    """A clock that was ahead made its cutoff too young."""
    head, *rest = begun.rows
    begun.write([head | {"now_ms": begun.scene.now_ms + DAY_MS}, *rest])
    young = begun.scene.orphan("young", age_ms=HOUR_MS)
    error = begun.refused(RefusedError)
    assert error.code == "other_scan"
    assert "future" in str(error)
    assert young in begun.scene.listed()


def test_a_state_that_is_cut_off(begun: Begun) -> None:
    body = begun.scans.read(STATE).data
    for size in range(len(body)):
        begun.scans.put(STATE, body[:size])
        with pytest.raises(FormatError, match="gzip"):
            begun.scan()
    error = begun.refused(FormatError)
    assert error.exit_code == 1


def test_a_state_of_which_a_byte_changed(begun: Begun) -> None:
    body = begun.scans.read(STATE).data
    for place in range(len(body)):
        begun.scans.put(STATE, bytes([*body[:place], body[place] ^ 0x10, *body[place + 1 :]]))
        try:
            plan = begun.scan()
        except (FormatError, RefusedError):
            continue
        assert plan.header.action_count == 5, "a byte that says nothing, such as the compressor's name"


ODD_ROWS: list[object] = [
    {},
    {"live": {}},
    {"live": {"name": "s/live-x.parquet", "rows": 5}},
    {"live": {"name": 1, "rows": "x", "hash": None}},
    {"live": {"name": "s/live-x.parquet", "rows": 5, "hash": "00"}},
    {"live": None},
    {"listing": {"name": "s/listing-x.parquet", "rows": 5, "hash": "00"}},
    {"shard": {"place": 99}},
    {"shard": {"place": "x", "after": 1}},
    {"shard": {}},
    {"sorter": "x"},
    {"sorter": None, "totals": None, "nested": None, "problems": None, "rounds": None},
    {"what": "is this"},
]


@pytest.mark.parametrize("row", ODD_ROWS, ids=json.dumps)
def test_a_state_with_an_odd_row(begun: Begun, row: dict[str, object]) -> None:
    begun.write([*begun.rows, row])
    begun.refused(MaintenanceError)


@pytest.mark.parametrize(
    "body",
    [b"", gzip.compress(b""), gzip.compress(b"[]\n"), gzip.compress(b"{}\n"), b"{}"],
    ids=["nothing", "no rows", "a list", "no fields", "no gzip"],
)
def test_a_state_that_is_none(begun: Begun, body: bytes) -> None:
    begun.scans.put(STATE, body)
    begun.refused(FormatError)


@pytest.mark.parametrize("kind", ["live", "listing"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "another"])
def test_a_part_that_is_not_whole(begun: Begun, kind: str, damage: str) -> None:
    """Of what a root refers to, or of what is there: without either nothing can be told."""
    (part,) = [row[kind] for row in begun.rows if kind in row][:1]
    assert isinstance(part, dict)
    name = str(part["name"])
    body = begun.scans.read(name).data
    if damage == "missing":
        (key,) = [entry.key for entry in begun.scene.control.list("") if entry.key.endswith(name)]
        begun.scene.control.delete([DeleteRequest(key)])
    else:
        begun.scans.put(name, {"cut": body[:-9], "empty": b"", "another": body[:40] + b"x" + body[41:]}[damage])
    error = begun.refused(FormatError)
    assert name in str(error)
    assert "begin another scan" in str(error)
    result = json.loads(begun.scans.read("s/result.json").data)
    assert (result["status"], result["refusal"]["code"]) == ("refused", "damaged")
