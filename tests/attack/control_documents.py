"""Every kind of control document of one table, and every way in which one can lie about its form.

The table is in memory and versioned; the command line finds it and its control location through `MEMORY_STORES`.
"""

import copy
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakesweep.cli.main import main
from lakesweep.control.area import ControlArea
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.storage import open as opening
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000
OPTIONS = {
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "100000 d",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "sink.process-time-zone": "UTC",
    "tag.num-retained-max": "100",
}
OTHERS: tuple[object, ...] = (None, True, -1, 1.5, 10**400, 10**25, "x", "", [], [1], [[]], {}, {"a": []})


@dataclass
class World:
    """A table with a run that ended, a plan that waits, and what passes and scans remember."""

    now_ms: int = START_MS
    table: MemoryStore = field(init=False)
    control: MemoryStore = field(init=False)
    run_id: str = ""
    plan_id: str = ""

    def __post_init__(self) -> None:
        self.table = MemoryStore("memory://lie/t", clock=lambda: self.now_ms, versioned=True)
        self.control = MemoryStore("memory://lie-control", clock=lambda: self.now_ms)

    @property
    def area(self) -> ControlArea:
        return ControlArea(self.control, self.table.location)

    @property
    def maintainer(self) -> Maintainer:
        return Maintainer(self.table, control=self.control)

    def paths(self) -> frozenset[str]:
        return frozenset(entry.key for entry in self.table.list(""))

    def documents(self) -> dict[str, bytes]:
        return {key: self.control.read(key).data for key in (entry.key for entry in self.control.list(""))}

    def copy(self) -> "World":
        """Return a world of its own that looks the same."""
        found = World(self.now_ms, run_id=self.run_id, plan_id=self.plan_id)
        for ours, theirs in ((found.table, self.table), (found.control, self.control)):
            for name in ("_objects", "_versions"):
                setattr(ours, name, copy.deepcopy(getattr(theirs, name)))
            ours._version = theirs._version
        return found

    def run(self, words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
        """Run one command line on this world."""
        stores = {self.table.location: lambda: self.table, self.control.location: lambda: self.control}
        monkeypatch.setattr(opening, "MEMORY_STORES", stores)
        return main([words[0], self.table.location, *words[1:], "--control", self.control.location])


def make_world(*, begun: bool = False) -> World:
    """Make a world; in a `begun` one a run has died in the middle of the waiting plan."""
    world = World()
    table = TableBuilder(world.table, options=OPTIONS, start_ms=START_MS)
    for number in range(6):
        world.now_ms += 600_000
        gone = [f"-A{number - 1}"] if number else []
        table.commit(f"+A{number}", *gone, time_ms=world.now_ms)
        table.hint("LATEST", number + 1)
    world.table.put("bucket-0/data-0123abcd-0000-0000-0000-000000000000-0.parquet", b"orphan")
    world.now_ms += 20 * 86_400_000
    maintainer = world.maintainer
    done = maintainer.run("expire-snapshots", retain_max=4, retain_min=1)
    assert done.run_id is not None
    world.run_id = done.run_id
    world.now_ms += 1000
    waiting = maintainer.run("expire-snapshots", execute=False, retain_max=3, retain_min=1)
    assert waiting.plan is not None
    maintainer.execute(waiting.plan.header.plan_id)
    world.control.put(f"{world.area.prefix}plans/{waiting.plan.header.plan_id}/undone.json", b'{"run_id": "r"}')
    maintain(maintainer.table, MaintainArguments(is_due=True), execute=True)
    maintainer.run("create-tag", tag="hand", snapshot=5, time_retained="30 d")
    maintainer.run("remove-orphan-files", quarantine="1 d")
    planned = maintainer.run("expire-snapshots", execute=False, retain_max=1, retain_min=1)
    assert planned.plan is not None
    world.plan_id = planned.plan.header.plan_id
    if begun:
        switch = Switch(14, "death")
        dying = Maintainer(
            FaultyStore(world.table, switch, "table"), control=FaultyStore(world.control, switch, "control")
        )
        try:
            dying.execute(world.plan_id)
        except ProcessDeathError:
            world.now_ms += 3_600_000
    return world


def lies(key: str, data: bytes, others: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield what may stand in the place of a document, each with a word for it."""
    for length in sorted({0, 1, len(data) // 2, len(data) - 1}):
        yield f"cut off at {length}", data[:length]
    yield "noise", b"\xff\x00" * 20
    yield "a list", b"[]"
    yield "a deep one", b"[" * 100_000
    for other, body in others.items():
        if other != key:
            yield f"the content of {other}", body
    unpack, pack = _form(key)
    if unpack is None:
        return
    value = unpack(data)
    for where, changed in changes(value):
        yield where, pack(changed)


def _form(key: str) -> tuple[Any, Any]:
    if key.endswith(".json"):
        return json.loads, lambda value: json.dumps(value).encode()
    if key.endswith(".ndjson.gz"):

        def lines(data: bytes) -> Any:
            return [json.loads(line) for line in gzip.decompress(data).splitlines()][:3]

        def packed(rows: Any) -> bytes:
            rows = rows if isinstance(rows, list) else [rows]
            return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())

        return lines, packed
    if key.endswith("cache.bin"):

        def header(data: bytes) -> Any:
            return json.loads(zlib.decompress(data).split(b"\n", 1)[0])

        return header, lambda value: zlib.compress(json.dumps(value).encode() + b"\n")
    return None, None


def changes(value: Any, path: str = "", depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Yield a JSON value with one thing about it changed: a key gone, one too many, or a value of another type."""
    if isinstance(value, dict) and depth:
        yield f"{path} with a key too many", {**value, "unheard-of": 1}
        for name, inner in value.items():
            yield f"{path}.{name} removed", {each: found for each, found in value.items() if each != name}
            yield from ((f"{path}.{name} is {_short(other)}", {**value, name: other}) for other in OTHERS)
            for where, changed in changes(inner, f"{path}.{name}", depth - 1):
                yield where, {**value, name: changed}
    elif isinstance(value, list) and depth:
        yield f"{path} twice", value * 2
        for index, inner in enumerate(value[:2]):
            yield f"{path}[{index}] removed", value[:index] + value[index + 1 :]
            for other in OTHERS:
                yield f"{path}[{index}] is {_short(other)}", [*value[:index], other, *value[index + 1 :]]
            for where, changed in changes(inner, f"{path}[{index}]", depth - 1):
                yield where, [*value[:index], changed, *value[index + 1 :]]


def _short(value: object) -> str:
    return str(value)[:20]
