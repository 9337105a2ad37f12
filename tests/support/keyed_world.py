"""A table with a primary key in memory, a writer that commits on whatever is newest, and who compacts it.

    world = KeyedWorld()
    world.put({("a", 1): "x", ("a", 2): "y"})
    world.put({("a", 1): None})                     # a row that deletes another
    assert world.merge().status == "done"
    assert world.seen() == world.model == {("a", 2): "y"}

What readers see is read by code of the tests alone.
"""

import io
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import fastavro
import pyarrow as pa

from lakesweep.commit.environment import Attempt, CommitEnvironment, Prepared
from lakesweep.commit.loop import commit
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.control.area import ControlArea
from lakesweep.format.entry_writer import NewDataFile, new_entry
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.keyed import MergeRules
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.rows.commit import Leaving, NewIndex, index_at, leaving_of, prepared
from lakesweep.operations.rows.groups import Group, vector_files
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.operations.writing.keyed import keyed_files
from lakesweep.operations.writing.options import writing_of
from lakesweep.storage.store import Store
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.keyed_files import keyed_files as keyed_files_of
from tests.support.faulty_store import Switch
from tests.support.keyed_checks import problems
from tests.support.keyed_files import KeyedSnapshot
from tests.support.live_records import document_of
from tests.support.memory_store import MemoryStore
from tests.support.metadata_schemas import MANIFEST_LIST
from tests.support.row_world import LOCKED
from tests.support.world import World

OPTIONS = {"bucket": "2", "write-only": "true", "deletion-vectors.enabled": "true"}
BUCKETS = 2
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
Rows = Mapping[tuple[str, int], str | None]
"""Partition and id -> value; `None` deletes the row."""
_RAM = Path("/dev/shm")
_LIST = fastavro.parse_schema(MANIFEST_LIST)


class _Writer(CommitEnvironment):
    """A commit of somebody else."""

    def commit_user(self, number: int) -> str:
        return f"writer-{self.run_id}-{number}"


class KeyedWorld(World):
    """The columns are `v STRING`, `id BIGINT` and the partition key `dt`; the key is `dt` and `id`."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        """Make a table without rows."""
        super().__init__(
            options={**OPTIONS, **(options or {})},
            partition_keys=["dt"],
            primary_keys=["dt", "id"],
            types={"id": "BIGINT"},
        )
        self.table.commit()
        self.model: dict[tuple[str, int], str] = {}
        """What readers see once all is compacted."""
        self.models: dict[int, dict[tuple[str, int], str]] = {1: {}}
        """Snapshot -> the same, of commits of the writer."""
        self.sequence = 0

    # Other writers.

    def put(self, rows: Rows, level: int = 0) -> list[str]:
        """Commit a data file for each bucket that the rows are in; return their names."""
        names: list[str] = []

        def prepare(attempt: Attempt) -> Prepared:
            entries = []
            for (dt, bucket), own in sorted(_by_bucket(rows).items()):
                file = self._write(attempt, dt, bucket, own, level)
                names.append(file.name)
                entries.append(new_entry(file, encode_row((dt,), attempt.base.schema.partition_types), bucket, BUCKETS))
            leaving = Leaving(StrictMetadata(self.store, "t").lists(attempt.base.root.snapshot))
            index = NewIndex(index_at(self.maintainer(Switch()).table, attempt.base))
            made = prepared(attempt, index, leaving, manifests_of({}), None, None, added=entries)
            return replace(made, snapshot=replace(made.snapshot, commit_kind="APPEND"))

        self.commit_as_writer(prepare)
        self.model = {**self.model, **{key: value for key, value in rows.items() if value is not None}}
        self.model = {key: value for key, value in self.model.items() if key not in rows or rows[key] is not None}
        self.models[self.ids()[-1]] = self.model
        return names

    def overwrite(self, dt: str, rows: Mapping[int, str], total_buckets: int = 1) -> None:
        """Replace the rows of a partition, in another number of buckets."""

        def prepare(attempt: Attempt) -> Prepared:
            base, table = attempt.base, self.maintainer(Switch()).table
            partition = encode_row((dt,), base.schema.partition_types)
            files = keyed_files_of(self.store, base.root, base.schema, {}, chosen=lambda each: each == partition)
            index = index_at(table, base)
            entry = new_entry(self._write(attempt, dt, 0, rows, 0), partition, 0, total_buckets)
            groups = [
                Group(partition, each.bucket, 32, (each,), frozenset(vector[0] for vector in each.vectors), {})
                for each in vector_files(index)
                if each.partition == partition
            ]
            new = NewIndex(index, groups, [WrittenGroup() for _ in groups])
            leaving = leaving_of(attempt, table, [each.file for each in files])
            return prepared(attempt, new, leaving, manifests_of({}), None, None, added=[entry])

        self.commit_as_writer(prepare)
        self.model = {key: value for key, value in self.model.items() if key[0] != dt}
        self.model |= {(dt, number): value for number, value in rows.items()}
        self.models[self.ids()[-1]] = self.model

    def commit_as_writer(self, prepare: Any) -> None:
        """Commit as somebody does who knows nothing of Lakesweep."""
        self.sequence += 1
        area = ControlArea(MemoryStore("memory://writer", clock=self.clock), self.store.location)
        run_id = f"20270101T000000Z-{self.sequence:08x}"
        given: dict[str, Any] = {"options": {}, "has_lock": True, "sleep": self.sleep}
        env = _Writer(store=self.store, area=area, branch=self.branch, run_id=run_id, batch=1, **given)
        assert commit(env, prepare).status == "committed"

    def document(self, **fields: Any) -> int:
        """Commit the newest snapshot again with other fields; `None` takes one out."""
        newest = self.ids()[-1]
        document = document_of(self.store, newest) | {"id": newest + 1, "commitUser": "writer", "uuid": f"{newest}"}
        document |= {"deltaRecordCount": 0, "commitKind": "COMPACT"} | fields
        if "deltaManifestList" not in fields:
            document |= self._without_delta(document)
        document = {key: value for key, value in document.items() if value is not None}
        self.store.put(f"snapshot/snapshot-{newest + 1}", json.dumps(document).encode())
        self.store.put("snapshot/LATEST", str(newest + 1).encode())
        return newest + 1

    def _without_delta(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return lists that say the same, and that nothing changes."""
        lists = (document[name] for name in ("baseManifestList", "deltaManifestList"))
        found = [
            each for name in lists for each in fastavro.reader(io.BytesIO(self.store.read(f"manifest/{name}").data))
        ]
        names = {"baseManifestList": found, "deltaManifestList": []}
        made: dict[str, Any] = {}
        for key, records in names.items():
            name, target = f"manifest-list-{key}-{document['id']}-0", io.BytesIO()
            fastavro.writer(target, _LIST, records)
            self.store.put(f"manifest/{name}", target.getvalue())
            made |= {key: name, f"{key}Size": len(target.getvalue())}
        return made

    def _write(self, attempt: Attempt, dt: str, bucket: int, rows: Mapping[int, str | None], level: int) -> NewDataFile:
        schema = attempt.base.schema
        ids = sorted(rows)
        first, self.sequence = self.sequence, self.sequence + len(ids)
        known = {"v": pa.array([rows[each] for each in ids], pa.string()), "id": pa.array(ids, pa.int64())}
        known["dt"] = pa.array([dt] * len(ids), pa.string())
        columns = [known.get(field.name, pa.nulls(len(ids), pa.string())) for field in schema.fields]
        kinds = pa.array([0 if rows[each] is not None else 3 for each in ids], pa.int8())
        names = [*(field.name for field in schema.fields), "_SEQUENCE_NUMBER", "_VALUE_KIND"]
        sequences = pa.array(range(first, first + len(ids)), pa.int64())
        batch = pa.RecordBatch.from_arrays([*columns, sequences, kinds], names)
        writing, rules = writing_of(schema, schema.fields), MergeRules(("id",), has_vectors=True)
        (new,) = keyed_files([batch], schema.fields, rules, writing)
        folder = TablePaths(schema).bucket_dir(encode_row((dt,), schema.partition_types), bucket)
        self.store.put(f"{folder}/{new.name}", new.body)
        return NewDataFile(
            name=new.name, size_bytes=len(new.body), rows=new.rows, stats=new.stats, stats_cols=writing.stats_cols,
            schema_id=schema.id, min_sequence=new.min_sequence, max_sequence=new.max_sequence,
            creation_time_ms=self.now_ms, source=0, level=level, min_key=new.min_key, max_key=new.max_key,
            key_stats=new.key_stats, delete_rows=new.delete_rows,
        )  # fmt: skip

    # Who compacts.

    def merge(self, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `compact` of Lakesweep, in a process of its own."""
        given = CompactArguments(**{"catalog": LOCKED, **arguments})
        return compact(self.maintainer(switch).table, given, execute=execute)

    def rival(self, **arguments: Any) -> RunReport:
        """Compact with another control location."""
        given = CompactArguments(**{"catalog": LOCKED, **arguments})
        control = MemoryStore("memory://control-of-another", clock=self.clock)
        return compact(self.maintainer(Switch(), control=control).table, given, execute=True)

    # What is there.

    def seen(self, snapshot_id: int | None = None, store: Store | None = None) -> dict[tuple[str, int], str]:
        """Return the rows that readers of a snapshot see; fail if a row is there twice, or an invariant broken."""
        with unpacked(store or self.store) as folder:
            snapshot = KeyedSnapshot(folder, snapshot_id)
            assert not (found := problems(snapshot)), found
            rows = [(dt, number, value) for value, dt, number, *_ in snapshot.visible()]
        made = {(str(dt), int(number)): str(value) for dt, number, value in rows}
        assert len(made) == len(rows), "a row is there twice"
        return made

    def rows_seen(self) -> list[tuple[str, int, str]]:
        """Return all rows that readers see, whatever is wrong about them."""
        with unpacked(self.store) as folder:
            return sorted((dt, number, value) for value, dt, number, *_ in KeyedSnapshot(folder).visible())

    def live(self, snapshot_id: int | None = None) -> dict[str, int]:
        """Return name -> level of the live data files."""
        with unpacked(self.store) as folder:
            return {file.name: file.level for file in KeyedSnapshot(folder, snapshot_id).files}

    def index_manifest(self) -> str | None:
        """Return that of the newest snapshot."""
        name: str | None = document_of(self.store, self.ids()[-1]).get("indexManifest")
        return name

    def copy(self) -> Self:
        found = super().copy()
        found.model, found.models = dict(self.model), dict(self.models)
        return found


def merged(report: RunReport) -> CompactionReport:
    """Return what a report says of data files."""
    assert isinstance(report.commits, CompactionReport), report
    return report.commits


@contextmanager
def unpacked(store: Store) -> Iterator[Path]:
    """Give a folder with the objects of a store."""
    with tempfile.TemporaryDirectory(dir=_RAM if _RAM.is_dir() and os.access(_RAM, os.W_OK) else None) as name:
        folder = Path(name)
        for entry in store.list(""):
            path = folder / entry.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.read(entry.key).data)
        yield folder


def _by_bucket(rows: Rows) -> Mapping[tuple[str, int], dict[int, str | None]]:
    found: defaultdict[tuple[str, int], dict[int, str | None]] = defaultdict(dict)
    for (dt, number), value in rows.items():
        found[dt, number % BUCKETS][number] = value
    return found
