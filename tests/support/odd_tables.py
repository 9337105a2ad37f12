"""Tables with a primary key, made of any files on any levels: odd ones, and ones that contradict themselves.

    table = OddTable(tmp_path, {"id": "BIGINT NOT NULL", "v": "STRING"}, ["id"])
    table.file([(1, "a"), (2, "b")], level=5)
    table.file([(2, "c")], record={"_MIN_SEQUENCE_NUMBER": 9})
    table.commit()

Nothing of `lakesweep` writes here. Whatever a file or its entry says can be changed.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import parquet

from lakesweep.control.area import area_of
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.binary_row import decode_row, encode_row, partition_path
from tests.support.metadata_files import encode_vectors
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from tests.support.vector_bytes import decode_file

Row = tuple[Any, ...]
"""Values, then the sequence number and the kind if they are given."""
EMPTY = encode_row((), ())
_NO_STATS = {"_MIN_VALUES": EMPTY, "_MAX_VALUES": EMPTY, "_NULL_COUNTS": []}
OPTIONS = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}
NESTED: Mapping[str, Mapping[str, Any]] = {
    "ARRAY<INT>": {"type": "ARRAY", "element": "INT"},
    "MAP<STRING, BIGINT>": {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
    "ROW<a INT, b STRING>": {
        "type": "ROW",
        "fields": [{"id": 90, "name": "a", "type": "INT"}, {"id": 91, "name": "b", "type": "STRING"}],
    },
}
ARROW: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "STRING": pa.string(), "BYTES": pa.binary(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
    "TIMESTAMP(3)": pa.timestamp("ms"), "TIMESTAMP(6)": pa.timestamp("us"), "TIMESTAMP(9)": pa.timestamp("ns"),
    "DECIMAL(9, 2)": pa.decimal128(9, 2), "DECIMAL(38, 10)": pa.decimal128(38, 10),
    "ARRAY<INT>": pa.list_(pa.int32()), "MAP<STRING, BIGINT>": pa.map_(pa.string(), pa.int64()),
    "ROW<a INT, b STRING>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}  # fmt: skip


@dataclass(frozen=True)
class OddFile:
    """One data file."""

    path: Path
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["_FILE"]["_FILE_NAME"])


class OddTable:
    """A table, a file and a commit at a time."""

    def __init__(
        self,
        folder: Path,
        types: Mapping[str, str],
        keys: Sequence[str],
        *,
        partition: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder / "t"
        for name in ("schema", "snapshot", "manifest", "index"):
            (self.folder / name).mkdir(parents=True)
        self.control = folder / "control"
        self.keys, self.partition_keys = list(keys), list(partition)
        self.options = {**OPTIONS, **(options or {})}
        self.types: dict[str, str] = {}
        self._ids: dict[str, int] = {}
        self.schema_id = -1
        self.schema(types)
        self.live: list[OddFile] = []
        self.index: list[dict[str, Any]] = []
        self.snapshot_id = self._number = self.sequence = 0

    # --- writing -----------------------------------------------------------------------------------------------------

    def schema(self, types: Mapping[str, str], renamed: Mapping[str, str] | None = None, **document: Any) -> None:
        """Write the next schema. Columns of the former one keep their ids, also under a new name."""
        ids = {(renamed or {}).get(name, name): number for name, number in self._ids.items()}
        for name in types:
            ids.setdefault(name, max(ids.values(), default=-1) + 1)
        self._ids, self.types = ids, dict(types)
        self.schema_id += 1
        found = {
            "version": 3,
            "id": self.schema_id,
            "fields": [{"id": ids[name], "name": name, "type": self._json(type_)} for name, type_ in types.items()],
            "highestFieldId": 99,
            "partitionKeys": self.partition_keys,
            "primaryKeys": self.keys,
            "options": self.options,
            "timeMillis": 1_700_000_000_000,
        }
        path = self.folder / "schema" / f"schema-{self.schema_id}"
        path.write_text(json.dumps(found | document))

    def _json(self, type_: str) -> Any:
        plain = type_.removesuffix(" NOT NULL")
        if plain in NESTED:
            nested = dict(NESTED[plain])
            nested["type"] += type_[len(plain) :]
            return nested
        return type_

    def file(
        self,
        rows: Sequence[Row],
        level: int = 0,
        *,
        partition: Row = (),
        bucket: int = 0,
        name: str | None = None,
        is_thin: bool = False,
        columns: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        record: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
        group_rows: int | None = None,
        is_live: bool = True,
    ) -> OddFile:
        """Write a file of the newest schema, and add it to the table.

        Args:
            rows: Its rows. A row without a sequence number gets the next one, and kind 0.
            level: Its level.
            partition: The values of its partition; rows have them too.
            bucket: The number of its bucket.
            name: Its name.
            is_thin: It has no columns `_KEY_`.
            columns: Columns that it shall have instead, or in addition; `None`: it has none of this name.
            body: Its bytes.
            record: Fields of `_FILE` that shall be others.
            entry: Fields of the entry that shall be others.
            group_rows: The rows of a row group.
            is_live: The next commit adds it.
        """
        width, names = len(self.types), list(self.types)
        rows = [row if len(row) > width else (*row, self._next_sequence(), 0) for row in rows]
        found = {
            column: pa.array([row[place] for row in rows], ARROW[type_.removesuffix(" NOT NULL")])
            for place, (column, type_) in enumerate(self.types.items())
        }
        system = {
            "_SEQUENCE_NUMBER": pa.array([row[width] for row in rows], pa.int64()),
            "_VALUE_KIND": pa.array([row[width + 1] for row in rows], pa.int8()),
        }
        trimmed = [key for key in self.keys if key not in self.partition_keys]
        own = {} if is_thin else {f"_KEY_{key}": found[key] for key in trimmed}
        written = {**own, **system, **found, **(columns or {})}
        written = {column: values for column, values in written.items() if values is not None}
        if body is None:
            sink = io.BytesIO()
            is_long = any("TIMESTAMP(9)" in type_ for type_ in self.types.values())
            parquet.write_table(
                pa.table(written),
                sink,
                row_group_size=group_rows,
                compression="zstd",
                use_deprecated_int96_timestamps=is_long,
            )
            body = sink.getvalue()
        self._number += 1
        name = name or f"data-{self._number:04}.parquet"
        partition_types = [self.types[key].removesuffix(" NOT NULL") for key in self.partition_keys]
        folder = "bucket-postpone" if bucket == -2 else f"bucket-{bucket}"
        place = self.folder / partition_path(self.partition_keys, partition) / folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body)
        key_types = [self.types[key].removesuffix(" NOT NULL") for key in trimmed]
        keys = [tuple(row[names.index(key)] for key in trimmed) for row in rows]
        keys = sorted(
            (key for key in keys if None not in key),
            key=lambda key: tuple(value.encode() if isinstance(value, str) else value for value in key),
        )
        low, high = (encode_row(key_types, keys[end]) if keys else EMPTY for end in (0, -1))
        sequences = [row[width] for row in rows]
        described = {
            "_FILE_NAME": name, "_FILE_SIZE": len(body), "_ROW_COUNT": len(rows), "_MIN_KEY": low, "_MAX_KEY": high,
            "_KEY_STATS": {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": [0] * len(trimmed)},
            "_VALUE_STATS": _NO_STATS, "_MIN_SEQUENCE_NUMBER": min(sequences, default=0),
            "_MAX_SEQUENCE_NUMBER": max(sequences, default=0), "_SCHEMA_ID": self.schema_id, "_LEVEL": level,
            "_EXTRA_FILES": [], "_CREATION_TIME": 1_700_000_000_000,
            "_DELETE_ROW_COUNT": sum(row[width + 1] in (1, 3) for row in rows), "_EMBEDDED_FILE_INDEX": None,
            "_FILE_SOURCE": 1 if level else 0, "_VALUE_STATS_COLS": [], "_EXTERNAL_PATH": None, "_FIRST_ROW_ID": None,
            "_WRITE_COLS": None,
        }  # fmt: skip
        made = {
            "_VERSION": 2, "_KIND": 0, "_PARTITION": encode_row(partition_types, partition), "_BUCKET": bucket,
            "_TOTAL_BUCKETS": int(self.options["bucket"]), "_FILE": described | dict(record or {}),
        }  # fmt: skip
        file = OddFile(place, made | dict(entry or {}))
        if is_live:
            self.live.append(file)
        return file

    def _next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def vectors(self, marks: Mapping[str, Sequence[int]], of: OddFile, **record: Any) -> Path:
        """Write an index file for the bucket of a file."""
        body, ranges = encode_vectors(marks)
        path = self.folder / "index" / f"index-{len(self.index)}"
        path.write_bytes(body)
        self.index.append(
            {
                "_VERSION": 1, "_KIND": 0, "_PARTITION": of.entry["_PARTITION"], "_BUCKET": of.entry["_BUCKET"],
                "_INDEX_TYPE": "DELETION_VECTORS", "_FILE_NAME": path.name, "_FILE_SIZE": len(body),
                "_ROW_COUNT": len(ranges),
                "_DELETIONS_VECTORS_RANGES": [
                    {"f0": name, "f1": start, "f2": length, "_CARDINALITY": rows}
                    for name, start, length, rows in ranges
                ],
            } | record
        )  # fmt: skip
        return path

    def commit(self, entries: Iterable[Mapping[str, Any]] | None = None, **document: Any) -> None:
        """Write a snapshot whose base has the live files, or these entries."""
        self.snapshot_id += 1
        number = self.snapshot_id
        entries = [file.entry for file in self.live] if entries is None else list(entries)
        size = self._avro(f"manifest-{number}-0", MANIFEST, entries)
        line = {
            "_VERSION": 2, "_FILE_NAME": f"manifest-{number}-0", "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": sum(entry["_KIND"] == 0 for entry in entries),
            "_NUM_DELETED_FILES": sum(entry["_KIND"] == 1 for entry in entries),
            "_PARTITION_STATS": self._partition_stats(entries), "_SCHEMA_ID": self.schema_id,
        }  # fmt: skip
        base = self._avro(f"manifest-list-{number}-0", MANIFEST_LIST, [line] if entries else [])
        delta = self._avro(f"manifest-list-{number}-1", MANIFEST_LIST, [])
        rows = sum(
            (1, -1)[entry["_KIND"]] * entry["_FILE"]["_ROW_COUNT"] for entry in entries if entry["_FILE"]["_ROW_COUNT"]
        )
        found = {
            "version": 3, "id": number, "schemaId": self.schema_id, "baseManifestList": f"manifest-list-{number}-0",
            "baseManifestListSize": base, "deltaManifestList": f"manifest-list-{number}-1",
            "deltaManifestListSize": delta, "commitUser": "odd", "commitIdentifier": number, "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + number, "totalRecordCount": rows, "deltaRecordCount": 0,
        }  # fmt: skip
        if self.index:
            self._avro(f"index-manifest-{number}", INDEX_MANIFEST, self.index)
            found["indexManifest"] = f"index-manifest-{number}"
        (self.folder / "snapshot" / f"snapshot-{number}").write_text(json.dumps(found | document))
        (self.folder / "snapshot" / "LATEST").write_text(str(number))

    def _partition_stats(self, entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        types = [self.types[key].removesuffix(" NOT NULL") for key in self.partition_keys]
        columns = list(zip(*(decode_row(types, entry["_PARTITION"]) for entry in entries), strict=True))
        known = [[value for value in column if value is not None] for column in columns]
        if not known:
            return _NO_STATS
        return {
            "_MIN_VALUES": encode_row(types, [min(values, default=None) for values in known]),
            "_MAX_VALUES": encode_row(types, [max(values, default=None) for values in known]),
            "_NULL_COUNTS": [column.count(None) for column in columns],
        }

    def _avro(self, name: str, schema: Any, records: Sequence[Any]) -> int:
        target = io.BytesIO()
        fastavro.writer(target, schema, records, codec="zstandard")
        (self.folder / "manifest" / name).write_bytes(target.getvalue())
        return len(target.getvalue())

    # --- compacting --------------------------------------------------------------------------------------------------

    def opened(self, store: Store | None = None, **changes: Any) -> Table:
        """Return the table as a run opens it."""
        store = store or LocalStore(str(self.folder))
        area = area_of(LocalStore(str(self.control)), store)
        return replace(Table(TableRef(store.location), store, area, LocalStore), **changes)

    def compact(self, *, execute: bool = True, table: Table | None = None, **arguments: Any) -> RunReport:
        """Compact, by default fully."""
        given: dict[str, Any] = {"catalog": Catalog("filesystem", has_lock=True), "full": True, **arguments}
        return compact(table or self.opened(), CompactArguments(**given), execute=execute)

    # --- reading -----------------------------------------------------------------------------------------------------

    def entries(self, number: int | None = None) -> list[dict[str, Any]]:
        """Return the live entries of a snapshot, the newest one by default."""
        document = self.document(number)
        live: dict[Any, dict[str, Any]] = {}
        for list_ in ("baseManifestList", "deltaManifestList"):
            for line in self._read(document[list_]):
                for entry in self._read(line["_FILE_NAME"]):
                    file = entry["_FILE"]
                    place = entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"]
                    if entry["_KIND"] == 0:
                        live[place] = entry
                    else:
                        del live[place]
        return list(live.values())

    def document(self, number: int | None = None) -> Mapping[str, Any]:
        """Return a snapshot."""
        number = number or max(int(path.name[9:]) for path in self.folder.glob("snapshot/snapshot-*"))
        found: Mapping[str, Any] = json.loads((self.folder / "snapshot" / f"snapshot-{number}").read_bytes())
        return found

    def _read(self, name: str) -> list[Any]:
        with (self.folder / "manifest" / name).open("rb") as file:
            return list(fastavro.reader(file))

    def marks(self) -> dict[tuple[bytes, int, str], set[int]]:
        """Return partition, bucket and name of a data file -> the positions that its vector deletes."""
        name = self.document().get("indexManifest")
        found = {}
        for record in self._read(name) if name else []:
            ranges = [(r["f0"], r["f1"], r["f2"], r["_CARDINALITY"]) for r in record["_DELETIONS_VECTORS_RANGES"]]
            body = (self.folder / "index" / record["_FILE_NAME"]).read_bytes()
            for data, positions in decode_file(body, ranges).items():
                found[record["_PARTITION"], record["_BUCKET"], data] = set(positions)
        return found

    def rows(self, *, sees_level_0: bool = True) -> dict[tuple[Any, ...], Row]:
        """Return key -> row as readers of the newest snapshot see them; a key that two visible rows have fails.

        Args:
            sees_level_0: All levels are merged; else what no vector deletes above level 0 is visible.
        """
        marks = self.marks() if self.options["deletion-vectors.enabled"] == "true" else {}
        best: dict[tuple[Any, ...], tuple[Any, int, Row]] = {}
        for entry in self.entries():
            if entry["_FILE"]["_LEVEL"] == 0 and not sees_level_0:
                continue
            place = entry["_PARTITION"], entry["_BUCKET"]
            gone = marks.get((*place, entry["_FILE"]["_FILE_NAME"]), set())
            for position, (sequence, kind, row) in enumerate(self._rows_of(entry)):
                if position in gone:
                    continue
                key = (*place, *(row[list(self.types).index(each)] for each in self.keys))
                assert sees_level_0 or key not in best, f"two visible rows of {key}"
                if key not in best or best[key][0] < sequence:
                    best[key] = sequence, kind, row
        return {key: row for key, (_, kind, row) in best.items() if kind in (0, 2)}

    def _rows_of(self, entry: Mapping[str, Any]) -> Iterator[tuple[int, int, Row]]:
        schema = json.loads((self.folder / "schema" / f"schema-{entry['_FILE']['_SCHEMA_ID']}").read_bytes())
        names = {each["id"]: each["name"] for each in schema["fields"]}
        (path,) = self.folder.glob(f"**/bucket-{entry['_BUCKET']}/{entry['_FILE']['_FILE_NAME']}")
        stored = parquet.ParquetFile(path).read()
        columns = []
        for name in self.types:
            own = names.get(self._ids[name])
            if own is None or own not in stored.column_names:
                columns.append([None] * stored.num_rows)
                continue
            column = stored.column(own)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())
            columns.append(column.to_pylist())
        system = [stored.column(name).to_pylist() for name in ("_SEQUENCE_NUMBER", "_VALUE_KIND")]
        for at in range(stored.num_rows):
            yield system[0][at], system[1][at], tuple(column[at] for column in columns)

    def named(self) -> dict[str, bytes]:
        """Return path -> bytes of all files below the table."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
