"""Data files with a primary key beside those of the engine: the same rows, columns and entries, for keys of every type.

The engine writes a file. Ours with the same rows takes its place in the manifest. The engine and pypaimon read the
same rows then, and the engine goes on with it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet
from pypaimon import CatalogFactory

from lakesweep.format.entry_writer import ENTRY_SCHEMA, NewDataFile, new_entry
from lakesweep.format.manifest import APPEND
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.model.keyed import MergeRules
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing.keyed import keyed_files
from lakesweep.operations.writing.options import writing_of
from tests.differential.compacted import some_value
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.metadata_edit import Record, change_entries
from tests.differential.typed_history import lines
from tests.differential.typed_values import value
from tests.support.typed_rows import shown_rows

pytestmark = pytest.mark.differential

KEYS: Mapping[str, Sequence[str]] = {
    **{
        type_: (type_,)
        for type_ in (
            "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(9, 2)", "DECIMAL(18, 4)", "DECIMAL(38, 10)",
            "DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
            "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(9)", "CHAR(4)", "VARCHAR(5)", "STRING",
        )
    },
    "several": ("STRING", "DECIMAL(20, 6)", "TIMESTAMP(6)", "INT"),
    "several of nanoseconds": ("TIMESTAMP(9)", "STRING", "BOOLEAN"),
}  # fmt: skip
VALUES = ("TINYINT", "BIGINT", "STRING", "BYTES", "DECIMAL(38, 10)", {"type": "ARRAY", "element": "INT"})
OPTIONS: Sequence[Mapping[str, str]] = (
    {},
    {"data-file.thin-mode": "true"},
    {"metadata.stats-mode": "truncate(2)"},
    {"data-file.thin-mode": "true", "metadata.stats-dense-store": "false"},
    {"metadata.stats-mode": "none", "fields.v2.stats-mode": "full"},
)
OURS = ("_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME")
"""What differs between the entries of two files with the same rows; the engine has no bounds of nanoseconds."""


class Keyed:
    """One table of the engine with a primary key, which compacts nothing by itself."""

    def __init__(self, engine: Engine, name: str, types: Sequence[str], options: Mapping[str, str]) -> None:
        self.engine, self.table, self.random = engine, name, Random(7)
        self.location = engine.location(name)
        self.keys = [f"k{number}" for number in range(len(types))]
        columns = [[f"v{number}", type_] for number, type_ in enumerate(VALUES)]
        columns[3:3] = [[key, type_] for key, type_ in zip(self.keys, types, strict=True)]
        engine(
            "typed_create", table=name, columns=columns, primary_keys=self.keys[::-1], partition_keys=[],
            options={**RETAIN_EVERYTHING, "bucket": "1", "write-only": "true", "file.format": "parquet", **options},
        )  # fmt: skip
        self.schema: TableSchema = parse_schema((self.location / "schema" / "schema-0").read_bytes(), "schema-0")
        self.fields = self.schema.fields

    def put(self, count: int, *, deletes: float = 0.0) -> None:
        """Let the engine write a file of level 0."""
        rows = [
            [
                value(self.random, each.type, 0) if each.name in self.keys else some_value(self.random, each.type)
                for each in self.fields
            ]
            for _ in range(count)
        ]
        kinds = [3 if self.random.random() < deletes else 0 for _ in rows]
        self.engine("typed_put", table=self.table, rows=rows, kinds=kinds)

    def path(self, entry: Record) -> Path:
        return self.location / "bucket-0" / str(entry["_FILE"]["_FILE_NAME"])

    def written(self, entry: Record) -> tuple[NewDataFile, bytes]:
        """Write the rows of a file of the engine once more."""
        table = parquet.ParquetFile(self.path(entry)).read()
        arrays = [table[field.name].cast(arrow_type(field.type)) for field in self.fields]
        arrays += [table["_SEQUENCE_NUMBER"], table["_VALUE_KIND"].cast(pa.int8())]
        names = [*(field.name for field in self.fields), "_SEQUENCE_NUMBER", "_VALUE_KIND"]
        rows = pa.Table.from_arrays(arrays, names=names)
        options, writing = self.schema.options, writing_of(self.schema, self.fields)
        rules = MergeRules(
            tuple(self.keys[::-1]), has_vectors=False, is_thin=options.get("data-file.thin-mode") == "true"
        )
        (made,) = keyed_files(rows.to_batches(max_chunksize=5), self.fields, rules, writing)
        file = NewDataFile(
            name=made.name, size_bytes=len(made.body), rows=made.rows, stats=made.stats, stats_cols=writing.stats_cols,
            schema_id=0, min_sequence=made.min_sequence, max_sequence=made.max_sequence, creation_time_ms=1,
            source=APPEND, level=entry["_FILE"]["_LEVEL"], min_key=made.min_key, max_key=made.max_key,
            key_stats=made.key_stats, delete_rows=made.delete_rows,
        )  # fmt: skip
        return file, made.body

    def take_place(self) -> list[tuple[Record, Record]]:
        """Put files of ours in the places of all files of the engine; return the entries before and after."""
        changed = []

        def change(entry: Record) -> None:
            before = entry["_FILE"]
            file, body = self.written(entry)
            theirs, ours = self.path(entry), self.location / "bucket-0" / file.name
            ours.write_bytes(body)
            assert _columns(ours) == _columns(theirs)
            assert _rows(ours) == _rows(theirs)
            theirs.unlink()
            text, raw = new_entry(file, entry["_PARTITION"], entry["_BUCKET"], entry["_TOTAL_BUCKETS"])
            entry["_FILE"] = _decoded(text, raw.record)["_FILE"]
            changed.append((before, entry["_FILE"]))

        change_entries(self.location, change, json.loads(ENTRY_SCHEMA))
        return changed

    def _place(self, name: str) -> int:
        return [field.name for field in self.fields].index(name)

    def rows(self) -> list[str]:
        found = self.engine("typed_rows", table=self.table)
        return sorted(lines(found["rows"], [each.type for each in self.fields]))

    def rows_of_python(self) -> list[str] | str:
        """Return what pypaimon reads, or why it does not."""
        try:
            table = CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)
            builder = table.new_read_builder()
            rows = shown_rows(builder.new_read().to_arrow(builder.new_scan().plan().splits()), self.fields)
        except Exception as error:
            return type(error).__name__
        return sorted(lines(rows, [each.type for each in self.fields]))

    def wrong_filters(self) -> list[str]:
        rows = self.engine("typed_rows", table=self.table)["rows"]
        literals = [[name, [row[self._place(name)] for row in rows[::20]]] for name in (*self.keys, "v2")]
        found = self.engine("typed_filters", table=self.table, literals=literals)
        wrong: list[str] = found["wrong"]
        return wrong


def _decoded(text: bytes, record: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(record), fastavro.parse_schema(json.loads(text)), None)


def _columns(path: Path) -> str:
    """Return the columns as Parquet describes them, but for the name of the root."""
    return str(parquet.ParquetFile(path).schema).split("{", 1)[1]


def _rows(path: Path) -> Any:
    return str(parquet.ParquetFile(path).read().to_pylist())


@pytest.mark.parametrize("name", KEYS)
def test_keys(engine: Engine, name: str) -> None:
    number = list(KEYS).index(name)
    scene = Keyed(engine, f"keyed.t{number}", KEYS[name], OPTIONS[number % len(OPTIONS)])
    scene.put(30, deletes=0.2)
    scene.put(12)
    before, python = scene.rows(), scene.rows_of_python()
    differ = (*OURS, "_KEY_STATS", "_VALUE_STATS") if any("(9)" in type_ for type_ in KEYS[name]) else OURS
    for entries in scene.take_place():
        theirs, ours = ({key: each for key, each in entry.items() if key not in differ} for entry in entries)
        assert ours == theirs
    assert scene.rows() == before
    assert scene.rows_of_python() == python
    assert scene.wrong_filters() == []
    scene.put(12, deletes=0.5)
    merged = scene.rows()
    engine("compact", table=scene.table)
    assert scene.rows() == merged
