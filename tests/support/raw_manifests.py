"""Snapshots whose manifests a test states record by record, in the schema of any writer; only fastavro writes here."""

import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro

from lakesweep.storage.store import Store
from tests.support.binary_row import encode_row
from tests.support.metadata_schemas import MANIFEST, MANIFEST_LIST

EMPTY = bytes(12)
TYPES = ("STRING",)
Record = dict[str, Any]


def day(name: str | None) -> bytes:
    """Return a partition of a table with the key `dt STRING`."""
    return encode_row(TYPES, (name,))


def entry(name: str, dt: str | None = "1", *, kind: int = 0, **file: Any) -> Record:
    """Return an entry: of the file `data-<name>.parquet`, unless `_FILE_NAME` says otherwise."""
    return {
        "_VERSION": 2,
        "_KIND": kind,
        "_PARTITION": file.pop("_PARTITION", day(dt)),
        "_BUCKET": file.pop("_BUCKET", 0),
        "_TOTAL_BUCKETS": 1,
        "_FILE": {
            "_FILE_NAME": f"data-{name}.parquet",
            "_FILE_SIZE": 1234,
            "_ROW_COUNT": 10,
            "_MIN_KEY": EMPTY,
            "_MAX_KEY": EMPTY,
            "_KEY_STATS": {"_MIN_VALUES": EMPTY, "_MAX_VALUES": EMPTY, "_NULL_COUNTS": []},
            "_VALUE_STATS": {"_MIN_VALUES": EMPTY, "_MAX_VALUES": EMPTY, "_NULL_COUNTS": [0, None, 300]},
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 9,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1_700_000_000_000,
            **file,
        },
    }


def deleted(record: Record) -> Record:
    """Return the DELETE of an entry."""
    return {**record, "_KIND": 1}


@dataclass(slots=True)
class Made:
    """One manifest of a test."""

    entries: Sequence[Record]
    schema: Any = field(default_factory=lambda: MANIFEST)
    line: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its list record that say something else than the entries."""
    body: bytes | None = None
    """Its bytes, if they are no manifest."""
    partition_types: Sequence[str] = TYPES


class RawManifests:
    """Writes snapshots of the newest schema of a table."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._numbers = itertools.count(1)

    def snapshot(self, *base: Made, delta: Sequence[Made] = (), snapshot_id: int = 1, **document: Any) -> list[str]:
        """Write a snapshot with these manifests, and return their names."""
        lines = [[self._manifest(each) for each in group] for group in (base, delta)]
        lists = [self._list(group) for group in lines]
        rows = sum(
            each["_FILE"]["_ROW_COUNT"] * (1 if each["_KIND"] == 0 else -1)
            for made in (*base, *delta)
            for each in made.entries
        )
        stated = {
            "version": 3,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": lists[0][0],
            "baseManifestListSize": lists[0][1],
            "deltaManifestList": lists[1][0],
            "deltaManifestListSize": lists[1][1],
            "commitUser": "writer",
            "commitIdentifier": 9223372036854775807,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + snapshot_id,
            "totalRecordCount": rows,
            "deltaRecordCount": 0,
            **document,
        }
        self.store.put(f"snapshot/snapshot-{snapshot_id}", json.dumps(stated).encode())
        self.store.put("snapshot/LATEST", str(snapshot_id).encode())
        return [line["_FILE_NAME"] for group in lines for line in group]

    def append(self, *delta: Made, kind: str = "APPEND") -> list[str]:
        """Commit manifests on top of the newest snapshot, as a writer does that merges none."""
        keys = (each.key for each in self.store.list("snapshot/"))
        ids = [int(key.rpartition("-")[2]) for key in keys if key.startswith("snapshot/snapshot-")]
        before = json.loads(self.store.read(f"snapshot/snapshot-{max(ids)}").data)
        lines = [
            line
            for key in ("baseManifestList", "deltaManifestList")
            for line in fastavro.reader(io.BytesIO(self.store.read(f"manifest/{before[key]}").data))
        ]
        new = [self._manifest(each) for each in delta]
        (base, base_size), (name, size) = self._list(lines), self._list(new)
        lists = {"baseManifestList": base, "baseManifestListSize": base_size}
        lists |= {"deltaManifestList": name, "deltaManifestListSize": size}
        stated = {**before, **lists, "id": max(ids) + 1, "uuid": None, "commitUser": "writer", "commitKind": kind}
        stated["timeMillis"] += 1
        self.store.put(f"snapshot/snapshot-{max(ids) + 1}", json.dumps(stated).encode(), if_absent=True)
        self.store.put("snapshot/LATEST", str(max(ids) + 1).encode())
        return [line["_FILE_NAME"] for line in new]

    def _manifest(self, made: Made) -> Record:
        name = f"manifest-0b6b9a1e-6c61-4b6b-9a1e-{next(self._numbers):012}-0"
        body = _avro(made.schema, made.entries) if made.body is None else made.body
        self.store.put(f"manifest/{name}", body)
        added = sum(each["_KIND"] == 0 for each in made.entries)
        return {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": len(body),
            "_NUM_ADDED_FILES": added,
            "_NUM_DELETED_FILES": len(made.entries) - added,
            "_PARTITION_STATS": stats([each["_PARTITION"] for each in made.entries], made.partition_types),
            "_SCHEMA_ID": max((each["_FILE"]["_SCHEMA_ID"] for each in made.entries), default=0),
            **made.line,
        }

    def _list(self, lines: Sequence[Record]) -> tuple[str, int]:
        name = f"manifest-list-0b6b9a1e-6c61-4b6b-9a1e-{next(self._numbers):012}-0"
        body = _avro(MANIFEST_LIST, lines)
        self.store.put(f"manifest/{name}", body)
        return name, len(body)


def stats(partitions: Sequence[bytes], types: Sequence[str] = TYPES) -> Record:
    """Return the statistics of partitions with one text key, or without keys."""
    if not types or not partitions:
        return {"_MIN_VALUES": EMPTY, "_MAX_VALUES": EMPTY, "_NULL_COUNTS": []}
    known = sorted(each for each in partitions if each != day(None))
    ends = (known[0], known[-1]) if known else (day(None), day(None))
    return {"_MIN_VALUES": ends[0], "_MAX_VALUES": ends[1], "_NULL_COUNTS": [len(partitions) - len(known)]}


def _avro(schema: Any, records: Iterable[Record]) -> bytes:
    body = io.BytesIO()
    fastavro.writer(body, fastavro.parse_schema(schema), list(records), codec="zstandard", sync_marker=b"s" * 16)
    return body.getvalue()
