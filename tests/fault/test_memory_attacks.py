"""Attacks on what runs remember of a table: the file it is kept in, and tables that are not what they were."""

import itertools
import json
import zlib
from pathlib import Path

import pytest

from lakesweep.control.cache import read_cache, write_cache
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Body, DeleteRequest
from lakesweep.storage.wrappers.remembering import MAX_TOTAL_BYTES, Remembered
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder

OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1000000 d",
    "changelog-producer": "lookup",
    "changelog.num-retained.max": "8",
}


def test_a_changelog_whose_lists_another_command_removed_keeps_no_file() -> None:
    """`maintain` remembers lists, `execute` removes them: the next pass must not think that they are there."""
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store, primary_keys=("k",), options=OPTIONS)
    table.commit("+A", kind="APPEND")
    table.commit("+B", kind="APPEND")
    table.commit("+C", kind="APPEND")
    warm = Maintainer(store)
    step = next(step for step in warm.maintain(execute=False).steps or () if step.operation == "expire-snapshots")
    assert step.plan is not None
    assert warm.execute(step.plan.header.plan_id).status == "done"

    table.commit("-A", "+D", kind="COMPACT", file_source={"D": 1}, changelog=["+L"])
    table.commit("+E", kind="APPEND")
    assert warm.maintain().status == "done"
    assert not table.exists("A"), "no root needs it: changelog 1 has no changes"
    assert_roots_readable(table)


@pytest.mark.parametrize("damage", ["corrupt", "remove"])
@pytest.mark.parametrize("what", ["baseManifestList", "deltaManifestList", "manifest"])
def test_damage_to_the_newest_snapshot_is_noticed_though_it_was_remembered(what: str, damage: str) -> None:
    """Its lists and the manifests of its delta are read anew: older snapshots may be all that is left to go back to."""
    store = MemoryStore(LOCATION)
    table = TableBuilder(store, primary_keys=("k",))
    for number in range(4):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number else []))
    warm = Maintainer(store)
    assert warm.plan(2, 2).status == "planned"
    newest = table.model("snapshot/snapshot-4")
    name = newest.delta[0].name if what == "manifest" else newest.document[what]
    getattr(table, damage)(f"manifest/{name}")
    before = {entry.key for entry in store.list("")}
    report = Maintainer(store, control=warm.control).expire(2, 2)
    assert report.refusal is not None and report.refusal.code == "unreadable_root"
    assert {entry.key for entry in store.list("")} == before


def _packed(header: object, bodies: bytes = b"") -> bytes:
    return zlib.compress(json.dumps(header).encode() + b"\n" + bodies)


def _table(table: str, *rows: object) -> dict[str, object]:
    return {"format_version": 1, "table": table, "objects": list(rows)}


LOCATION = "memory://bucket/t"
HOSTILE = {
    "nothing": b"",
    "not compressed": b"cache",
    "no header": zlib.compress(b""),
    "a list": _packed([]),
    "a number": _packed(3),
    "null": _packed(None),
    "deeply nested": zlib.compress(b"[" * 100_000 + b"\n"),
    "of another table": _packed(_table("memory://bucket/other", ["manifest/m", "e", 0, 1]), b"x"),
    "of another format": _packed({**_table(LOCATION), "format_version": 2}),
    "no objects": _packed({"format_version": 1, "table": LOCATION}),
    "objects as a mapping": _packed({**_table(LOCATION), "objects": {"abcd": 1}}),
    "a negative size": _packed(_table(LOCATION, ["manifest/a", "e", 0, 4], ["manifest/b", "e", 0, -2]), b"xy"),
    "a size too large": _packed(_table(LOCATION, ["manifest/a", "e", 0, 10**30]), b"xy"),
    "a size that is no number": _packed(_table(LOCATION, ["manifest/a", "e", 0, 2.0]), b"xy"),
    "a size that is true": _packed(_table(LOCATION, ["manifest/a", "e", 0, True]), b"x"),
    "a key that is no text": _packed(_table(LOCATION, [["manifest/a"], "e", 0, 2]), b"xy"),
    "an ETag that is no text": _packed(_table(LOCATION, ["manifest/a", None, 0, 2]), b"xy"),
    "bodies left over": _packed(_table(LOCATION, ["manifest/a", "e", 0, 1]), b"xy"),
    "not UTF-8": zlib.compress(b"\xff\xfe{}\n"),
    "a bomb": zlib.compress(b"\0" * (5 * MAX_TOTAL_BYTES), level=9),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_memory_is_no_memory(name: str) -> None:
    maintainer = _maintained()
    area = maintainer.table.area
    assert area is not None
    area.put("cache.bin", HOSTILE[name])
    assert read_cache(area) == {}
    assert maintainer.expire().status == "done"


def _maintained() -> Maintainer:
    store = MemoryStore(LOCATION)
    table = TableBuilder(store, primary_keys=("k",))
    for number in range(6):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number else []))
    maintainer = Maintainer(store)
    assert maintainer.expire(4, 4).status == "done"
    return maintainer


def test_every_cut_and_every_flipped_byte_of_the_memory_is_noticed() -> None:
    maintainer = _maintained()
    area = maintainer.table.area
    assert area is not None
    known, data = read_cache(area), area.read("cache.bin").data
    assert known
    for at in range(0, len(data), 7):
        area.put("cache.bin", data[:at])
        assert read_cache(area) == {}
        for bit in (0x01, 0x80):
            area.put("cache.bin", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            found = read_cache(area)
            assert found in ({}, known)  # a flag of the frame may mean nothing


def test_a_key_that_no_table_has_is_never_asked_for() -> None:
    maintainer = _maintained()
    area = maintainer.table.area
    assert area is not None
    known = read_cache(area)
    hostile = {
        key: Remembered(Body(b"x", "e")) for key in ("", "/etc/passwd", "../x", "manifest/../snapshot/snapshot-5")
    }
    write_cache(area, {**known, **hostile})
    assert maintainer.expire().status == "done"


def test_memory_that_is_full_of_what_nobody_asks_for_takes_new_things_again() -> None:
    store = MemoryStore(LOCATION)
    table, maintainer = TableBuilder(store), Maintainer(store)
    area = maintainer.table.area
    assert area is not None
    write_cache(area, {f"manifest/old-{n}": Remembered(Body(b"x" * (1 << 20), "e")) for n in range(32)})
    for number in range(8):
        table.commit(f"+F{number}")
        maintainer.expire(2, 2)
    known = read_cache(area)
    assert not any(key.startswith("manifest/old-") for key in known)
    assert known


def test_a_table_that_was_dropped_and_made_again_is_read_anew(tmp_path: Path) -> None:
    """On a local file system, where inodes and times may come again."""
    store = LocalStore(str(tmp_path / "t"))
    control = LocalStore(str(tmp_path / "control"))
    for turn in range(3):
        table = TableBuilder(store, primary_keys=("k",))
        table._numbers = itertools.count(100 * turn + 1)  # names come once only
        for number in range(5):
            table.commit(f"+F{turn}x{number}", *([f"-F{turn}x{number - 1}"] if number else []))
        maintainer = Maintainer(store, control=control)
        assert maintainer.expire(4, 4).status == "done"
        assert maintainer.expire(2, 2).status == "done"
        assert_all_readable(table)
        for found in list(store.list("")):
            store.delete([DeleteRequest(found.key)])
