"""What the attempts of one scan on Spark have achieved: the parts that count, and what is left to list.

The state is one document. Its first row says what the scan is about. An attempt continues the state only if it would
write the same first row.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakesweep import __version__
from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import pack, unpack
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.codec import from_json, to_json
from lakesweep.model.paths.layout import Layout
from lakesweep.model.safety import PLAN_LIFETIME_MS
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.listing import Place, Shard
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.spark.listing import Listed
from lakesweep.spark.parts import Part
from lakesweep.spark.tasks import SCANS
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.inventory.reach import Reach

STATE_VERSION = 1


def folder_of(scan_id: str) -> str:
    """Return the folder of a scan in the area of its table's scans."""
    return f"{scan_id}/"


def scans_of(area: ControlArea) -> ControlArea:
    """Return the area of a table's scans. It is apart from lasting documents, so a bucket rule can delete old scans."""
    return replace(area, root=SCANS)


@dataclass(slots=True)
class State:
    """What the attempts of one scan have achieved."""

    scan_id: str
    now_ms: int
    """When the first attempt began. The cutoff rests on it."""
    manifests: set[str] = field(default_factory=set)
    live: list[Part] = field(default_factory=list)
    listed: Listed | None = None
    sorter: str = ""
    """The facts from which the listing's classes were made; see `basis_of`."""

    @property
    def folder(self) -> str:
        """Return the folder of the scan in the area of its table's scans."""
        return folder_of(self.scan_id)

    def write(self, table: Table, arguments: OrphanArguments) -> None:
        """Store the state."""
        rows: list[dict[str, Any]] = [_head(table, self.scan_id, arguments, self.now_ms)]
        rows += [{"manifest": name} for name in sorted(self.manifests)]
        rows += [{"live": to_json(part)} for part in self.live]
        if self.listed is not None:
            rows.append(to_json(_ListedRow.of(self.sorter, self.listed)))
            rows += [{"listing": to_json(part)} for part in self.listed.parts]
            rows += [{"shard": to_json(shard)} for shard in self.listed.shards]
        scans_of(require_area(table)).put(f"{self.folder}state.ndjson.gz", pack(rows))

    def take(self, row: dict[str, Any], path: str) -> None:
        """Add one row of the stored state."""
        listed = self.listed
        if "manifest" in row:
            self.manifests.add(from_json(str, row["manifest"], path, "a manifest"))
        elif "live" in row:
            self.live.append(from_json(Part, row["live"], path, "a part"))
        elif "sorter" in row:
            found: _ListedRow = from_json(_ListedRow, row, path, "the listing")
            self.sorter, self.listed = found.sorter, found.listed
        elif listed is not None and "listing" in row:
            listed.parts.append(from_json(Part, row["listing"], path, "a part"))
        elif listed is not None and "shard" in row:
            shard: Shard = from_json(Shard, row["shard"], path, "a range of keys")
            if shard.place >= len(listed.totals):
                raise FormatError(f"{path}: expected one of {len(listed.totals)} places, found {shard.place}")
            listed.shards.append(shard)
        else:
            raise FormatError(f"{path}: expected a row of a scan's state, found {sorted(row)}; begin another scan")


@dataclass(frozen=True, slots=True)
class _ListedRow:
    """What the rounds of a listing counted, without its parts and shards."""

    sorter: str
    totals: list[Totals]
    nested: set[str]
    problems: list[tuple[int, str]]
    rounds: int
    files: list[int]
    reach: Reach

    @classmethod
    def of(cls, sorter: str, listed: Listed) -> "_ListedRow":
        problems = sorted(listed.problems.items())
        return cls(sorter, listed.totals, listed.nested, problems, listed.rounds, listed.files, listed.reach)

    @property
    def listed(self) -> Listed:
        return Listed(
            totals=self.totals,
            nested=self.nested,
            problems=dict(self.problems),
            rounds=self.rounds,
            files=self.files,
            reach=self.reach,
        )


def read_state(table: Table, scan_id: str, arguments: OrphanArguments, now_ms: int) -> State:
    """Return what earlier attempts of a scan have achieved.

    Raises:
        RefusedError: They had other arguments or another version.
        FormatError: The stored state is damaged.
    """
    area, name = scans_of(require_area(table)), f"{folder_of(scan_id)}state.ndjson.gz"
    path = area.path(name)
    try:
        rows = unpack(area.read(name).data, path, max_rows=None)
    except ObjectNotFoundError:
        return State(scan_id, now_ms)
    head = next(rows, {})
    state = State(scan_id, from_json(int, head.get("now_ms"), path, "now_ms"))
    expected = _head(table, scan_id, arguments, state.now_ms)
    for key in sorted(head.keys() | expected.keys()):
        if head.get(key) != expected.get(key):
            raise _other(table, scan_id, f"with another {key}: expected {expected.get(key)!r}, found {head.get(key)!r}")
    if now_ms - state.now_ms > PLAN_LIFETIME_MS:
        raise _other(table, scan_id, f"{say_time(state.now_ms)}, so its plan would have expired")
    if state.now_ms > now_ms:  # a clock was ahead, so the cutoff is too late: young files would be orphans
        raise _other(table, scan_id, f"{say_time(state.now_ms)}, which is in the future by the store's clock")
    for row in rows:
        state.take(row, path)
    return state


def basis_of(layout: Layout, places: Sequence[Place], inventory: Inventory | None) -> str:
    """Return a text of the facts that classes are made from. Equal facts have equal texts, in any process."""
    md5 = None if inventory is None else inventory.md5
    return json.dumps([to_json(layout), to_json(places), md5], sort_keys=True)


def _other(table: Table, scan_id: str, how: str) -> RefusedError:
    return RefusedError(f"table {table.ref}: scan {scan_id} began {how}; begin another scan", code="other_scan")


def _head(table: Table, scan_id: str, arguments: OrphanArguments, now_ms: int) -> dict[str, object]:
    return {
        "state_version": STATE_VERSION,
        "code_version": __version__,
        "table": table.ref.location,
        "branch": table.ref.branch,
        "scan_id": scan_id,
        "now_ms": now_ms,
        "arguments": arguments.to_json(),
    }
