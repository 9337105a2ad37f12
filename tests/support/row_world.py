"""A table of numbered rows in memory, other writers that commit on whatever is newest, and who deletes rows.

    world = RowWorld()
    first = world.append(1, 2, 3)
    world.delete("id = 2")
    assert world.rows() == [1, 3]
    world.compact(first)                    # a file without row 2, and no vector any more

Rows are read by code of its own: metadata by fastavro, vectors byte by byte, data files by pyarrow.
"""

import io
import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import fastavro

from lakesweep.errors import MaintenanceError
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.commits.returned import ReturnedReport
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.store import delete_all
from tests.support.binary_row import encode_row, partition_path
from tests.support.faulty_store import Switch
from tests.support.live_records import document_of
from tests.support.metadata_files import DataFile, Entry, Manifest, encode_manifest, encode_manifest_list, stable_uuid
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from tests.support.vector_bytes import decode_file
from tests.support.world import World

OPTIONS = {"bucket": "-1", "deletion-vectors.enabled": "true"}
LOCKED = Catalog("filesystem", has_lock=True)
UNLOCKED = Catalog("filesystem")
"""Then a run also looks whether its snapshot stays."""
_MANIFEST, _LIST, _INDEX = map(fastavro.parse_schema, (MANIFEST, MANIFEST_LIST, INDEX_MANIFEST))


class RowWorld(World):
    """The columns are `id BIGINT` and the partition key `dt`."""

    def __init__(self, *, options: Mapping[str, str] | None = None, stats: bool = False, **table: Any) -> None:
        """Make an empty table. With `stats`, manifests say the least and the greatest value of each column."""
        self.stats = stats
        super().__init__(options={**OPTIONS, **(options or {})}, partition_keys=["dt"], types={"id": "BIGINT"}, **table)
        self._numbers = itertools.count(1)
        self.files: dict[str, DataFile] = {}
        """By name."""

    # Other writers.

    def append(self, *ids: int, dt: str = "d") -> str:
        """Commit a data file; return its name."""
        file = self._write(ids, dt)
        self.foreign(adds=[file])
        return file.name

    def compact(self, *names: str) -> str:
        """Replace data files by one with the rows that readers saw in them, as an engine does; return its name."""
        names = names or tuple(self.live())
        self.know()
        ids = [each for name in names for each in self.rows_by_file()[name]]
        file = self._write(ids, self.files[names[0]].partition[0])
        self.foreign(adds=[file], deletes=names, kind="COMPACT")
        return file.name

    def overwrite(self, *names: str, dangles: bool = False) -> None:
        """Take data files out of the table, with their vectors unless these are left behind, as pypaimon does."""
        self.know()
        self.foreign(deletes=names, kind="OVERWRITE", dangles=dangles)

    def lose(self, path: str) -> None:
        """Delete an object behind everybody's back."""
        self.store.delete(delete_all([path]))

    def foreign(
        self,
        adds: Sequence[DataFile] = (),
        deletes: Collection[str] = (),
        kind: str = "APPEND",
        *,
        dangles: bool = False,
        **fields: Any,
    ) -> int:
        """Commit on the newest snapshot. The vectors of files that leave do, too; their index files are rewritten.

        Args:
            adds: New files.
            deletes: Names of files that leave.
            kind: The kind of the commit.
            dangles: The vectors of files that leave stay.
            fields: Fields of the snapshot to set.
        """
        number = next(self._numbers)
        ids = self.ids()
        base: dict[str, Any] = document_of(self.store, ids[-1]) if ids else {}
        uuid = stable_uuid(f"foreign {number} {ids}")
        listed = [each for key in ("baseManifestList", "deltaManifestList") for each in self.records(base.get(key))]
        entries = [Entry("+", file) for file in adds] + [Entry("-", self.files[name]) for name in deletes]
        manifests = []
        if entries:
            body = encode_manifest(entries)
            self.store.put(f"manifest/manifest-{uuid}-0", body)
            manifests.append(Manifest(f"manifest-{uuid}-0", len(body), tuple(entries), ("STRING",)))
        lists = {f"manifest-list-{uuid}-0": _avro(_LIST, listed)}
        lists[f"manifest-list-{uuid}-1"] = encode_manifest_list(manifests)
        for name, body in lists.items():
            self.store.put(f"manifest/{name}", body)
        change = sum(entry.file.rows * (1 if entry.sign == "+" else -1) for entry in entries)
        document = {
            "version": 3,
            "schemaId": 0,
            "commitIdentifier": (1 << 63) - 1,
            **base,
            "id": (ids[-1] if ids else 0) + 1,
            "uuid": uuid,
            **dict(zip(("baseManifestList", "deltaManifestList"), lists, strict=True)),
            **dict(zip(("baseManifestListSize", "deltaManifestListSize"), map(len, lists.values()), strict=True)),
            "indexManifest": self._index_without(base.get("indexManifest"), set() if dangles else set(deletes), uuid),
            "commitUser": f"writer-{number}",
            "commitKind": kind,
            "timeMillis": self.now_ms,
            "totalRecordCount": base.get("totalRecordCount", 0) + change,
            "deltaRecordCount": change,
            **fields,
        }
        self.store.put(f"snapshot/snapshot-{document['id']}", json.dumps(document).encode())
        self.store.put("snapshot/LATEST", str(document["id"]).encode())
        return int(document["id"])

    def _index_without(self, name: str | None, gone: set[str], uuid: str) -> str | None:
        rows = self.records(name)
        if not any(each["f0"] in gone for row in rows for each in row["_DELETIONS_VECTORS_RANGES"] or ()):
            return name
        found = []
        for row in rows:
            ranges = row["_DELETIONS_VECTORS_RANGES"] or []
            left = [each for each in ranges if each["f0"] not in gone]
            if len(left) == len(ranges):
                found.append(row)
            elif left:
                body = self.store.read(f"index/{row['_FILE_NAME']}").data
                new, places = bytearray(b"\1"), []
                for each in left:
                    places.append({**each, "f1": len(new)})
                    length = int.from_bytes(body[each["f1"] : each["f1"] + 4], "big")
                    new += body[each["f1"] : each["f1"] + length + 8]
                file = f"index-{uuid}-{len(found)}"
                self.store.put(f"index/{file}", bytes(new))
                found.append({
                    **row, "_FILE_NAME": file, "_FILE_SIZE": len(new), "_ROW_COUNT": len(left),
                    "_DELETIONS_VECTORS_RANGES": places,
                })  # fmt: skip
        self.store.put(f"manifest/index-manifest-{uuid}-0", _avro(_INDEX, found))
        return f"index-manifest-{uuid}-0"

    def _write(self, ids: Sequence[int], dt: str) -> DataFile:
        import pyarrow as pa
        from pyarrow import parquet

        target = io.BytesIO()
        table = pa.table({"v": [f"v{each}" for each in ids], "id": pa.array(ids, pa.int64()), "dt": [dt] * len(ids)})
        parquet.write_table(table, target)
        name = f"data-{stable_uuid(f'{ids} {dt} {next(self._numbers)}')}-0.parquet"
        body = target.getvalue()
        file = DataFile(
            symbol=name, name=name, folder=f"{partition_path(['dt'], (dt,))}bucket-0/", partition=(dt,),
            partition_row=encode_row(["STRING"], (dt,)), bucket=0, total_buckets=-1, size=len(body), rows=len(ids),
            schema_id=0, creation_ms=self.now_ms, stats=self._stats(ids, dt) if self.stats else None,
        )  # fmt: skip
        self.store.put(file.path, body)
        self.files[name] = file
        return file

    def _stats(self, ids: Sequence[int], dt: str) -> tuple[bytes, bytes, tuple[int, ...]]:
        texts = sorted(f"v{each}" for each in ids)
        low, high = ((texts[0], dt, min(ids)), (texts[-1], dt, max(ids)))
        types = ["STRING", "STRING", "BIGINT"]
        return encode_row(types, low), encode_row(types, high), (0, 0, 0)

    def know(self, snapshot_id: int | None = None) -> dict[str, dict[str, Any]]:
        """Return `entries`, and learn of the data files that a compaction of Lakesweep wrote."""
        entries = self.entries(snapshot_id)
        for name, entry in entries.items():
            if name not in self.files:
                (path,) = (key for key in self.keys() if key.endswith(f"/{name}"))
                file = entry["_FILE"]
                self.files[name] = DataFile(
                    symbol=name, name=name, folder=path.removesuffix(name), partition=(path.split("/")[0][3:],),
                    partition_row=entry["_PARTITION"], bucket=0, total_buckets=-1, size=file["_FILE_SIZE"],
                    rows=file["_ROW_COUNT"], schema_id=file["_SCHEMA_ID"], creation_ms=self.now_ms,
                )  # fmt: skip
        return entries

    # Who deletes, and who compacts.

    def merge(self, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `compact` of Lakesweep, in a process of its own."""
        given = CompactArguments(**{"catalog": LOCKED, "full": True, **arguments})
        return compact(self.maintainer(switch).table, given, execute=execute)

    def delete(self, where: str, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `delete-rows`, in a process of its own."""
        given = DeleteRowsArguments(where, **{"catalog": LOCKED, **arguments})
        return delete_rows(self.maintainer(switch).table, given, execute=execute)

    def deleted(self, where: str, **arguments: Any) -> str:
        """Delete rows to a good end, and return the id of the run."""
        report = self.delete(where, **arguments)
        assert report.status == "done" and report.run_id is not None, report
        return report.run_id

    def refused(self, where: str, **arguments: Any) -> tuple[str, str]:
        """Delete rows where that must fail; return the code and the sentence."""
        try:
            report = self.delete(where, **arguments)
        except MaintenanceError as error:
            return error.code, str(error)
        assert report.status == "refused" and report.refusal is not None, report
        return report.refusal.code, report.refusal.message

    # What is there, read by code of its own.

    def records(self, name: str | None) -> list[dict[str, Any]]:
        """Return the records of a file below `manifest/`; none of no file."""
        if name is None:
            return []
        body = self.store.read(f"manifest/{name}").data
        return [record for record in fastavro.reader(io.BytesIO(body)) if isinstance(record, dict)]

    def live(self, snapshot_id: int | None = None) -> list[str]:
        """Return the names of the data files of a snapshot, by default the newest one."""
        return list(self.entries(snapshot_id))

    def entries(self, snapshot_id: int | None = None) -> dict[str, dict[str, Any]]:
        """Return the entries of the data files of a snapshot, by name."""
        document = document_of(self.store, snapshot_id or self.ids()[-1])
        added, deleted = dict[str, dict[str, Any]](), set[str]()
        for key in ("baseManifestList", "deltaManifestList"):
            for meta in self.records(document[key]):
                for entry in self.records(meta["_FILE_NAME"]):
                    name = entry["_FILE"]["_FILE_NAME"]
                    if entry["_KIND"]:
                        deleted.add(name)
                    else:
                        assert name not in added, "no file is added twice"
                        added[name] = entry
        assert deleted <= set(added)
        return {name: entry for name, entry in added.items() if name not in deleted}

    def vectors(self, snapshot_id: int | None = None) -> dict[str, list[int]]:
        """Return data file -> deleted positions in a snapshot."""
        found: dict[str, list[int]] = {}
        for row in self.index_rows(snapshot_id):
            (path,) = (key for key in self.keys() if key.endswith(f"/{row['_FILE_NAME']}"))
            body = self.store.read(path).data
            ranges = row["_DELETIONS_VECTORS_RANGES"]
            assert (row["_FILE_SIZE"], row["_ROW_COUNT"]) == (len(body), len(ranges))
            places = [(each["f0"], each["f1"], each["f2"], each["_CARDINALITY"]) for each in ranges]
            new = decode_file(body, places)
            assert not found.keys() & new.keys(), "one vector for each data file"
            found |= new
        return found

    def index_rows(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """Return the records of a snapshot's index manifest."""
        return self.records(document_of(self.store, snapshot_id or self.ids()[-1]).get("indexManifest"))

    def put_index(self, rows: list[dict[str, Any]]) -> None:
        """Write the index manifest of the newest snapshot again, with other records."""
        self.store.put(f"manifest/{document_of(self.store, self.ids()[-1])['indexManifest']}", _avro(_INDEX, rows))

    def rows_by_file(self, snapshot_id: int | None = None) -> dict[str, list[int]]:
        """Return data file -> ids of the rows that readers see in it, in their order."""
        from pyarrow import parquet

        vectors = self.vectors(snapshot_id)
        found = {}
        for name, entry in self.know(snapshot_id).items():
            body = self.store.read(self.files[name].path).data
            assert len(body) == entry["_FILE"]["_FILE_SIZE"]
            ids = parquet.read_table(io.BytesIO(body), columns=["id"]).column("id").to_pylist()
            assert len(ids) == entry["_FILE"]["_ROW_COUNT"]
            gone = set(vectors.get(name, ()))
            assert gone <= set(range(len(ids)))
            found[name] = [each for position, each in enumerate(ids) if position not in gone]
        return found

    def rows(self, snapshot_id: int | None = None) -> list[int]:
        """Return the ids of the rows of a snapshot, ascending; a row that is there twice is there twice."""
        return sorted(each for ids in self.rows_by_file(snapshot_id).values() for each in ids)

    def copy(self) -> "RowWorld":
        """Return a world of its own; its writers write other names than those of this one."""
        found = super().copy()
        found.files = dict(self.files)
        return found

    def without_control(self) -> "RowWorld":
        """Return this world with a control location that knows nothing."""
        self.control = self.new_control()
        return self


def rows_of(report: RunReport) -> RowsReport:
    """Return what a report says of deleted rows."""
    assert isinstance(report.commits, RowsReport), report
    return report.commits


def compacted(report: RunReport) -> CompactionReport:
    """Return what a report says of data files."""
    assert isinstance(report.commits, CompactionReport), report
    return report.commits


def returned(report: RunReport) -> ReturnedReport:
    """Return what a report says of rows that came back."""
    assert isinstance(report.commits, ReturnedReport), report
    return report.commits


def _avro(schema: Any, records: list[dict[str, Any]]) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec="zstandard")
    return target.getvalue()


def as_latest(world: RowWorld, snapshot_id: int) -> None:
    """Commit an older version on top."""
    catalog = {"catalog_type": "filesystem", "catalog_lock": True}
    world.run("rollback", snapshot=snapshot_id, as_latest=True, status="done", **catalog)
