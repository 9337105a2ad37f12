"""What a snapshot of a table with a primary key holds, row by row. Nothing of `lakesweep` reads here.

fastavro reads the manifests, pyarrow the data files, and code of the tests the binary rows and the deletion vectors.
A value is what Python has for its type; a date is a number of days, and a point in time a pair of milliseconds and
nanoseconds of the millisecond.
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet

from tests.support.binary_row import decode_row, parse_type, partition_path
from tests.support.vector_bytes import decode_file

Bucket = tuple[bytes, int]
"""A partition and a bucket."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class KeyedRow(NamedTuple):
    """One row of a data file."""

    key: tuple[Any, ...]
    sequence: int
    kind: int
    values: Mapping[int, Any]
    """Number of the field -> value."""
    is_marked: bool
    """A deletion vector says that it is deleted."""

    @property
    def adds(self) -> bool:
        return self.kind in (0, 2)


@dataclass(slots=True)
class KeyedFile:
    """One live data file."""

    bucket: Bucket
    record: Mapping[str, Any]
    """`_FILE` of its entry."""
    path: Path
    total_buckets: int
    rows: list[KeyedRow] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.record["_FILE_NAME"])

    @property
    def level(self) -> int:
        return int(self.record["_LEVEL"])

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        return [comparable(row.key) for row in self.rows]

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.name} of level {self.level}"


class KeyedSnapshot:
    """A snapshot: the newest one, or the one with a number."""

    def __init__(self, location: Path, number: int | None = None) -> None:
        self.location = location
        self.number = number or max(int(path.name[9:]) for path in location.glob("snapshot/snapshot-*"))
        self.document = json.loads((location / "snapshot" / f"snapshot-{self.number}").read_bytes())
        self.schema = self.schema_of(max(int(path.name[7:]) for path in location.glob("schema/schema-*")))
        self.options: Mapping[str, str] = self.schema["options"]
        types = {each["name"]: type_text(each) for each in self.schema["fields"]}
        self.partition_keys: list[str] = self.schema["partitionKeys"]
        self.keys = [name for name in self.schema["primaryKeys"] if name not in self.partition_keys]
        self.key_types = [types[name] for name in self.keys]
        self._partition_types = [types[name] for name in self.partition_keys]
        self.has_vectors = self.options.get("deletion-vectors.enabled") == "true"
        self.index = self._index()
        self.files = self._files()

    def schema_of(self, number: int) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.location / "schema" / f"schema-{number}").read_bytes())
        return document

    # --- metadata ----------------------------------------------------------------------------------------------------

    def entries(self, list_: str) -> Iterator[dict[str, Any]]:
        """Yield the entries of the manifests of `baseManifestList`, `deltaManifestList` or `changelogManifestList`."""
        for line in self._records(self.document[list_]):
            yield from self._records(line["_FILE_NAME"])

    def _records(self, name: str) -> list[Any]:
        with (self.location / "manifest" / name).open("rb") as file:
            return list(fastavro.reader(file))

    def _index(self) -> list[dict[str, Any]]:
        name = self.document.get("indexManifest")
        return self._records(name) if name else []

    def folder(self, bucket: Bucket) -> Path:
        """Return the folder of a bucket."""
        values = decode_row(self._partition_types, bucket[0])
        partition = partition_path(self.partition_keys, values)
        return self.location / partition / f"bucket-{bucket[1]}"

    def index_path(self, record: Mapping[str, Any]) -> Path:
        """Return where a file of an index lies."""
        if self.options.get("index-file-in-data-file-dir") == "true":
            return self.folder((record["_PARTITION"], record["_BUCKET"])) / record["_FILE_NAME"]
        return self.location / "index" / record["_FILE_NAME"]

    @cached_property
    def vectors(self) -> Mapping[Bucket, Mapping[str, Sequence[int]]]:
        """Bucket -> data file -> positions; a bucket with two files of vectors fails."""
        found: dict[Bucket, dict[str, list[int]]] = {}
        for record in self.index:
            if record["_INDEX_TYPE"] != "DELETION_VECTORS":
                continue
            ranges = record["_DELETIONS_VECTORS_RANGES"] or ()
            bucket = record["_PARTITION"], record["_BUCKET"]
            body = self.index_path(record).read_bytes()
            assert (len(body), len(ranges)) == (record["_FILE_SIZE"], record["_ROW_COUNT"]), record
            assert bucket not in found, f"two files of vectors in {bucket}"
            found[bucket] = decode_file(body, [(r["f0"], r["f1"], r["f2"], r["_CARDINALITY"]) for r in ranges])
        return found

    # --- data --------------------------------------------------------------------------------------------------------

    def _files(self) -> list[KeyedFile]:
        live: dict[tuple[Any, ...], dict[str, Any]] = {}
        gone = set[tuple[Any, ...]]()
        for list_ in ("baseManifestList", "deltaManifestList"):
            for entry in self.entries(list_):
                file = entry["_FILE"]
                place = entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"]
                if entry["_KIND"] == 0:
                    assert place not in live, f"{place} is added twice"
                    assert place not in gone, f"{place} is added, but readers that look at DELETEs first do not see it"
                    live[place] = entry
                else:
                    assert live.pop(place, None), f"{place} is deleted and was not there"
                    gone.add(place)
        found = []
        for entry in live.values():
            bucket = entry["_PARTITION"], entry["_BUCKET"]
            path = self.folder(bucket) / entry["_FILE"]["_FILE_NAME"]
            file = KeyedFile(bucket, entry["_FILE"], path, entry["_TOTAL_BUCKETS"])
            file.rows = self._rows(file)
            found.append(file)
        return sorted(
            found, key=lambda file: (file.bucket, file.level, file.keys[:1], file.record["_MIN_SEQUENCE_NUMBER"])
        )

    def _rows(self, file: KeyedFile) -> list[KeyedRow]:
        stored = pyarrow.parquet.ParquetFile(file.path).read()
        fields = {each["name"]: each for each in self.schema_of(file.record["_SCHEMA_ID"])["fields"]}
        columns = {name: values_of(stored.column(name)) for name in stored.column_names}
        prefix = "_KEY_" if f"_KEY_{self.keys[0]}" in columns else ""
        keys = list(zip(*(columns[prefix + name] for name in self.keys), strict=True))
        assert keys == list(zip(*(columns[name] for name in self.keys), strict=True)), f"{file}: two keys of a row"
        marked = frozenset(self.vectors.get(file.bucket, {}).get(file.name, ())) if self.has_vectors else frozenset()
        numbers = {name: fields[name]["id"] for name in columns if name in fields}
        return [
            KeyedRow(
                keys[at], columns["_SEQUENCE_NUMBER"][at], columns["_VALUE_KIND"][at],
                {number: columns[name][at] for name, number in numbers.items()}, at in marked,
            )
            for at in range(stored.num_rows)
        ]  # fmt: skip

    def buckets(self) -> Mapping[Bucket, list[KeyedFile]]:
        """Return the files by bucket."""
        found: dict[Bucket, list[KeyedFile]] = defaultdict(list)
        for file in self.files:
            found[file.bucket].append(file)
        return found

    def visible(self) -> list[list[Any]]:
        """Return the rows that a reader sees, in the columns of the newest schema, as the engine's driver says them."""
        fields = [each["id"] for each in self.schema["fields"]]
        found = []
        for files in self.buckets().values():
            for row in self._seen(files):
                found.append([stated(row.values.get(number)) for number in fields])
        return found

    def _seen(self, files: Sequence[KeyedFile]) -> Iterator[KeyedRow]:
        if self.has_vectors:
            rows = (row for file in files if file.level for row in file.rows)
            yield from (row for row in rows if row.adds and not row.is_marked)
            return
        best: dict[tuple[Any, ...], KeyedRow] = {}
        for row in sorted((row for file in files for row in file.rows), key=self.rank):
            if row.adds or self.options.get("ignore-delete") != "true":
                best[row.key] = row
        yield from (row for row in best.values() if row.adds)

    def rank(self, row: KeyedRow) -> tuple[Any, ...]:
        """Return what decides which of the rows with a key counts: the greatest does."""
        numbers = {each["name"]: each["id"] for each in self.schema["fields"]}
        named = self.options.get("sequence.field")
        values = [row.values.get(numbers[name]) for name in named.split(",")] if named else []
        if self.options.get("sequence.field.sort-order") == "descending":
            values = [None if value is None else -value for value in values]
        return (*((value is not None, value or 0) for value in values), row.sequence)


def type_text(field_: Mapping[str, Any]) -> str:
    """Return the type of a field of a schema; nested ones have no values in statistics."""
    return field_["type"] if isinstance(field_["type"], str) else "STRING"


def values_of(column: Any) -> list[Any]:
    """Return the values of a column of Arrow."""
    array = column.combine_chunks()
    if pa.types.is_timestamp(array.type):
        per_ms = _PER_SECOND[array.type.unit] / 1000
        numbers = array.cast(pa.int64()).to_pylist()
        if per_ms < 1:
            return [None if n is None else (n * 1000, 0) for n in numbers]
        step = 1_000_000 // int(per_ms)
        return [None if n is None else (n // int(per_ms), n % int(per_ms) * step) for n in numbers]
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_time(array.type):
        return array.cast(pa.int32()).to_pylist()
    return array.to_pylist()


def decoded(types: Sequence[str], row: bytes) -> tuple[Any, ...]:
    """Return the values of a binary row in the forms of `values_of`."""
    parsed = [parse_type(each) for each in types]
    plain = [_PLAIN.get(keyword, type_) for (keyword, _, _), type_ in zip(parsed, types, strict=True)]
    return tuple(
        _point(value, precision, row) if value is not None and keyword.startswith("TIMESTAMP") else value
        for value, (keyword, precision, _) in zip(decode_row(plain, row), parsed, strict=True)
    )


_PLAIN = {"DATE": "INT", "TIME": "INT", "TIMESTAMP": "BIGINT", "TIMESTAMP_LTZ": "BIGINT"}


def _point(slot: int, precision: int, row: bytes) -> tuple[int, int]:
    """Return a point in time; a row keeps those of more than three digits in two places."""
    if precision <= 3:
        return slot, 0
    return struct.unpack_from("<q", row, 4 + (slot >> 32))[0], slot & 0xFFFFFFFF


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values in the engine's order: a text is its UTF-8."""
    return tuple(value.encode() if isinstance(value, str) else value for value in values)


def stated(value: Any) -> Any:
    """Return a value as the engine's driver says it."""
    match value:
        case tuple() | list():
            return [stated(each) for each in value]
        case bytes():
            return value.hex()
        case None | bool() | int() | str():
            return value
        case date() | float():
            raise NotImplementedError(type(value).__name__)
    return f"{value:f}"
