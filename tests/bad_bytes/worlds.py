"""Tables to damage: each with the maintenance it gets, and with what must be left of it whatever is damaged."""

import functools
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro

from lakesweep.model.report import RunReport
from tests.support import metadata_files
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import all_roots, read_all
from tests.support.table_builder import TableBuilder

NOW_MS = 1_800_000_000_000
LOCATION = "memory://bucket/db.db/t"
OUTSIDE = "memory://outside/p"
METADATA = ("snapshot/", "tag/", "changelog/", "consumer/", "schema/", "manifest/", "branch/")

FIXTURES = {
    "fixture-avro": "parquet-pk_09",
    "fixture-index": "parquet-append_with_global_index",
    "fixture-vectors": "parquet-pk_table_with_dv_cardinality",
    "fixture-orc": "parquet-append_09",
    "fixture-orc-vectors": "orc-pk_09_with_dv",
}

RETAIN_2 = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 h"}
LONG_CHANGELOGS = {
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "3",
    "changelog.time-retained": "1 h",
}


@dataclass(frozen=True)
class World:
    """A table as it was built, and what its maintenance may not take."""

    name: str
    objects: Mapping[str, tuple[bytes, str, int]]
    """Of the table's store, as `MemoryStore` holds them."""
    outside: Mapping[str, tuple[bytes, str, int]]
    operation: str
    needs: Mapping[str, frozenset[str]]
    """Path of every root, also of those that the maintenance makes -> everything that a reader of it opens."""
    retained: frozenset[str]
    """The roots that are there after the maintenance of the whole table."""

    @property
    def metadata(self) -> tuple[str, ...]:
        """All files that can be damaged, hints included; no data, index or statistics files."""
        return tuple(path for path in sorted(self.objects) if path.startswith(METADATA))

    @property
    def states_list_sizes(self) -> bool:
        """Whether snapshots say how long their manifest lists are: from release 1.1 on."""
        return all(b"baseManifestListSize" in self.body(path) for path in self.needs if path in self.objects)

    def body(self, path: str) -> bytes:
        return self.objects[path][0]

    def stores(self, changes: Mapping[str, bytes | None] | None = None) -> tuple[MemoryStore, MemoryStore]:
        """Return the table, damaged, and the store outside of it."""
        store, outside = empty(LOCATION), empty(OUTSIDE)
        store._objects = dict(self.objects)
        outside._objects = dict(self.outside)
        for path, body in (changes or {}).items():
            if body is None:
                store._objects.pop(path, None)
            else:
                store._objects[path] = (body, f"changed {path}", 0)
        return store, outside


def empty(location: str) -> MemoryStore:
    return MemoryStore(location, clock=lambda: NOW_MS)


def maintain(operation: str, store: MemoryStore, outside: MemoryStore) -> RunReport:
    """Plan and execute."""
    maintainer = Maintainer(
        store, open_store=opener(outside), control=empty("memory://control"), external_roots=(OUTSIDE,)
    )
    return maintainer.maintain() if operation == "maintain" else maintainer.expire(2, 2)


def finish(name: str, operation: str, store: MemoryStore, outside: MemoryStore) -> World:
    """Maintain the whole table once, to know what must be left of any other."""
    objects, others = dict(store._objects), dict(outside._objects)
    externals = {OUTSIDE: outside}
    needs = {root: found.paths for root, found in read_all(store, externals).items()}
    report = maintain(operation, store, outside)
    assert report.status == "done", (name, report)
    after = {root: found.paths for root, found in read_all(store, externals).items()}
    world = World(name, objects, others, operation, after | needs, frozenset(after))
    assert len(store._objects) < len(objects), f"{name}: nothing went"
    assert any(root.startswith(("tag/", "branch/")) for root in all_roots(store)), name
    return world


def _build(name: str, fill: Callable[[TableBuilder], None], operation: str, codec: str, **table: Any) -> World:
    store, outside = empty(LOCATION), empty(OUTSIDE)
    with mock.patch.object(metadata_files, "fastavro", _Codec(codec)):
        fill(TableBuilder(store, **table))
    return finish(name, operation, store, outside)


@dataclass(frozen=True)
class _Codec:
    """Stands for fastavro where the builder writes, with another codec."""

    codec: str

    def writer(self, *arguments: Any, **options: Any) -> None:
        fastavro.writer(*arguments, **(options | {"codec": self.codec}))


def _appends(table: TableBuilder) -> None:
    """Tags and a branch hold what later snapshots replaced; every kind of metadata occurs."""
    place = {"partition": ("2026-01-01",)}
    table.commit("+A", "+B", changelog=["+L1"], index={"i1": {"A": (1,)}}, statistics="s1", **place)
    table.tag("first")
    table.commit("-A", "+C", changelog=["+L2"], index={"i2": {"B": (2,)}}, extra={"C": ("index",)}, **place)
    table.tag("second", ttl=timedelta(days=7))
    table.commit("-B", "+D", changelog=["+L3"], index={"i3": {"C": (3,)}}, statistics="s3", **place)
    table.branch("side", from_tag="second")
    table.remove("tag/tag-second")
    table.tag("third", ttl=timedelta(days=7))
    table.commit("-C", "+E", changelog=["+L4"], merge_base=True, index={"i4": {"D": (4,)}}, **place)
    table.commit("-D", "+F", "-E", "+E@3", changelog=["+L5"], **place)
    table.commit("+G", changelog=["+L6"], **place)
    table.consumer("reader", 5)


def _keys(table: TableBuilder) -> None:
    """A primary-key table whose files lie outside; a file comes back by a rollback."""
    names = {name: f"data-00000000-0000-0000-0000-{ord(name):012d}-0.parquet" for name in "ABCDEFG"}
    outside = {name: f"{OUTSIDE}/bucket-0/{file_name}" for name, file_name in names.items()}
    table.commit("+A", "+B", external=outside, changelog=["+L1"])
    table.commit("-A", "-B", "+C@5", external=outside, changelog=["+L2"])
    table.tag("second")
    table.rollback_as_latest(1)
    table.commit("-A", "+D", external=outside, kind="COMPACT")
    table.commit("-B", "-D", "+E@5", external=outside, kind="COMPACT")
    table.commit("+F", external=outside, changelog=["+L6"])
    table.commit("+G", external=outside, merge_base=True)


def _old(table: TableBuilder) -> None:
    """As releases before 1.1 write it: no sizes of lists in snapshots."""
    sizes = dict.fromkeys(("baseManifestListSize", "deltaManifestListSize", "changelogManifestListSize"))
    table.commit("+A", "+B", document=sizes, changelog=["+L1"])
    table.tag("first")
    table.commit("-A", "+C", document=sizes, changelog=["+L2"])
    table.commit("-B", "+D", document=sizes)
    table.tag("third")
    table.commit("-C", "-D", "+E", document=sizes)
    table.commit("+F", document=sizes)


def _changes(table: TableBuilder) -> None:
    """Changelogs outlive snapshots, and some documents are there already."""
    for number in range(1, 8):
        gone = [f"-F{number - 1}"] if number > 1 else []
        table.commit(f"+F{number}", *gone, changelog=[f"+L{number}"], kind="APPEND")
    table.tag("fifth", snapshot=5)
    for number in (1, 2):
        table.changelog_document(number)
        table.remove(f"snapshot/snapshot-{number}")


def _deltas(table: TableBuilder) -> None:
    """The same without changelog files: the deltas are what readers of changes need."""
    for number in range(1, 8):
        gone = [f"-F{number - 1}"] if number > 1 else []
        table.commit(f"+F{number}", *gone, kind="APPEND")
    table.tag("third", snapshot=3)


@functools.cache
def built_world(name: str) -> World:
    match name:
        case "appends":
            return _build(name, _appends, "expire", "zstandard", partition_keys=["dt"])
        case "appends-plain":
            return _build(name, _appends, "maintain", "null", partition_keys=["dt"], options=RETAIN_2)
        case "keys":
            options = {"changelog-producer": "input"}
            store, outside = empty(LOCATION), empty(OUTSIDE)
            with mock.patch.object(metadata_files, "fastavro", _Codec("deflate")):
                table = TableBuilder(store, primary_keys=["k"], options=options, externals={OUTSIDE: outside})
                _keys(table)
            return finish(name, "expire", store, outside)
        case "old":
            return _build(name, _old, "expire", "null")
        case "changes":
            options = RETAIN_2 | LONG_CHANGELOGS | {"changelog-producer": "input"}
            return _build(name, _changes, "maintain", "null", options=options)
        case "deltas":
            return _build(name, _deltas, "maintain", "zstandard", options=RETAIN_2 | LONG_CHANGELOGS)
    raise KeyError(name)


BUILT = ("appends", "appends-plain", "keys", "old", "changes", "deltas")


@functools.cache
def fixture_world(fixtures: Path, name: str) -> World:
    """A table of the Java engine, with tags of its oldest snapshots."""
    store, outside = empty(LOCATION), empty(OUTSIDE)
    folder = fixtures / "tables" / FIXTURES[name]
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    ids = sorted(int(root.rpartition("-")[2]) for root in all_roots(store) if root.startswith("snapshot/"))
    for snapshot_id in ids[:-1][:2]:
        store.put(f"tag/tag-of-{snapshot_id}", store.read(f"snapshot/snapshot-{snapshot_id}").data)
    return finish(name, "expire", store, outside)


def avro(schema: Any, records: list[dict[str, Any]], codec: str) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec=codec, sync_marker=b"s" * 16)
    return target.getvalue()


def with_true_sizes(world: World, path: str, body: bytes) -> dict[str, bytes | None]:
    """Return the change, with every list and document changed so that the sizes that they state stay true."""
    changes: dict[str, bytes | None] = {path: body}
    name = path.rpartition("/")[2]
    for other in (other for other in world.metadata if "/manifest-list-" in other and name != other):
        reader = fastavro.reader(io.BytesIO(world.body(other)))
        records = [dict(record) for record in reader]
        if any(record["_FILE_NAME"] == name for record in records):
            for record in records:
                if record["_FILE_NAME"] == name:
                    record["_FILE_SIZE"] = len(body)
            changes |= with_true_sizes(world, other, avro(reader.writer_schema, records, str(reader.codec)))
    for root in world.needs:
        if root in world.objects:
            document = json.loads(changes.get(root) or world.body(root))
            for which in ("base", "delta", "changelog"):
                if document.get(f"{which}ManifestList") == name:
                    document[f"{which}ManifestListSize"] = len(body)
                    changes[root] = json.dumps(document).encode()
    return changes
