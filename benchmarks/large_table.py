"""A large table, metadata only: a million live files, a thousand snapshots, thirty tags.

    python -m benchmarks.large_table FOLDER [SCALE]        SCALE 0.01 makes a hundredth of the files

No data file exists: what is planned of them is in the manifests. The history is that of a table that takes a commit
every quarter of an hour, of which only the newest partitions change:

- *Cold* manifests, about 8 MiB each, hold most files and never change.
- *Hot* manifests hold the newest files. A full compaction rewrites them at the beginning of each day.
- Each commit adds 100 files and deletes 100: half of them of the same day, half of earlier days. Its manifest is small;
  every thirty of them are merged, as the engine merges them.
- Each day ends with a tag. Snapshots of the last ten of the thirty days are there, the older ones are gone.
"""

from __future__ import annotations

import io
import json
import random
import struct
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from tests.support.binary_row import encode_row
from tests.support.metadata_schemas import MANIFEST, MANIFEST_LIST

LIVE_FILES = 1_000_000
FILES_OF_A_MANIFEST = 25_000
HOT_MANIFESTS = 2
DAYS = 30
DAYS_WITH_SNAPSHOTS = 10
COMMITS_A_DAY = 100
FILES_OF_A_COMMIT = 100
MERGED = 30
COLUMNS = 20
START_MS = 1_767_225_600_000
"""The beginning of 2026."""
COMMIT_MS = 15 * 60 * 1000
RETENTION = {
    "snapshot.num-retained.min": "10",
    "snapshot.num-retained.max": str((DAYS_WITH_SNAPSHOTS - 1) * COMMITS_A_DAY),
    "snapshot.time-retained": "10000 d",
    "snapshot.expire.limit": "1000",
}
"""One day of the ten expires."""

_FIELDS = fastavro.parse_schema(MANIFEST)
_LIST_FIELDS = fastavro.parse_schema(MANIFEST_LIST)
_EMPTY = encode_row((), ())

File = dict[str, Any]
"""The entry that adds it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that was written, as its list names it."""

    line: dict[str, Any]
    entries: tuple[File, ...] = ()
    """Kept of small ones, to be merged."""


class Writer:
    """Writes one table below a folder."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self._random = random.Random(11)
        self._statistics = [self._values() for _ in range(4096)]
        self._live = int(LIVE_FILES * scale)
        self._of_a_manifest = max(int(FILES_OF_A_MANIFEST * scale), FILES_OF_A_COMMIT * COMMITS_A_DAY)
        self._lists = 0
        for name in ("manifest", "snapshot", "schema", "tag"):
            (folder / name).mkdir(parents=True)

    def write(self) -> None:
        """Write everything, oldest first."""
        self._schema()
        hot_files = self._of_a_manifest * HOT_MANIFESTS
        cold: list[Manifest] = []
        for start in range(0, self._live - hot_files, self._of_a_manifest):
            count = min(self._of_a_manifest, self._live - hot_files - start)
            cold.append(self._manifest(self._file(f"2025-{1 + len(cold) % 12:02}-01") for _ in range(count)))
        hot = [self._file("2026-01-01") for _ in range(hot_files)]
        for day in range(DAYS):
            hot = self._day(day, cold, hot)
        self._document("snapshot", "LATEST", str(DAYS * COMMITS_A_DAY))
        self._document("snapshot", "EARLIEST", str((DAYS - DAYS_WITH_SNAPSHOTS) * COMMITS_A_DAY + 1))

    def _day(self, day: int, cold: Sequence[Manifest], hot: list[File]) -> list[File]:
        """Write one day and return the hot files as they are at its end."""
        half = len(hot) // HOT_MANIFESTS
        base = [*cold, *(self._manifest(hot[start : start + half]) for start in range(0, len(hot), half))]
        has_snapshots = day >= DAYS - DAYS_WITH_SNAPSHOTS
        partition = f"2026-01-{1 + day:02}"
        added: list[File] = []
        small: list[Manifest] = []
        deleted_before = 0
        for commit in range(1, COMMITS_A_DAY + 1):
            old = FILES_OF_A_COMMIT // 2 if len(added) >= FILES_OF_A_COMMIT else FILES_OF_A_COMMIT
            gone = hot[deleted_before : deleted_before + old]
            deleted_before += old
            for _ in range(FILES_OF_A_COMMIT - old):
                gone.append(added.pop(self._random.randrange(len(added))))
            new = [self._file(partition) for _ in range(FILES_OF_A_COMMIT)]
            added += new
            if not has_snapshots and commit != COMMITS_A_DAY:
                continue  # nothing names what this commit wrote
            delta = self._manifest([*new, *({**file, "_KIND": 1} for file in gone)], keep=True)
            if len(small) >= MERGED:
                base.append(self._manifest(_merged(small)))
                small = []
            self._snapshot(day * COMMITS_A_DAY + commit, [*base, *small], delta, is_tagged=commit == COMMITS_A_DAY)
            small.append(delta)
            if not has_snapshots:
                break
        return hot[deleted_before:] + added

    def _snapshot(self, snapshot_id: int, base: Sequence[Manifest], delta: Manifest, *, is_tagged: bool) -> None:
        text = self._snapshot_text(snapshot_id, base, [delta])
        if snapshot_id > (DAYS - DAYS_WITH_SNAPSHOTS) * COMMITS_A_DAY:
            self._document("snapshot", f"snapshot-{snapshot_id}", text)
        if is_tagged:
            self._document("tag", f"tag-day-{snapshot_id // COMMITS_A_DAY:02}", text)

    def _snapshot_text(self, snapshot_id: int, base: Sequence[Manifest], delta: Sequence[Manifest]) -> str:
        base_name, base_size = self._list(base)
        delta_name, delta_size = self._list(delta)
        document = {
            "version": 3,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": base_name,
            "baseManifestListSize": base_size,
            "deltaManifestList": delta_name,
            "deltaManifestListSize": delta_size,
            "commitUser": "writer",
            "commitIdentifier": 9223372036854775807,
            "commitKind": "OVERWRITE",
            "timeMillis": START_MS + snapshot_id * COMMIT_MS,
            "totalRecordCount": self._live * 1000,
            "deltaRecordCount": 0,
        }
        return json.dumps(document, indent=2)

    def _schema(self) -> None:
        names = ["dt", *(f"c{number:02}" for number in range(1, COLUMNS))]
        document = {
            "version": 3,
            "id": 0,
            "fields": [
                {"id": number, "name": name, "type": "BIGINT" if number else "STRING"}
                for number, name in enumerate(names)
            ],
            "highestFieldId": len(names) - 1,
            "partitionKeys": ["dt"],
            "primaryKeys": [],
            "options": {"bucket": "-1", **RETENTION},
            "timeMillis": START_MS,
        }
        self._document("schema", "schema-0", json.dumps(document, indent=2))

    def _document(self, folder: str, name: str, text: str) -> None:
        (self._folder / folder / name).write_text(text)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _values(self) -> dict[str, Any]:
        """Return statistics as rows of 20 numbers have them."""
        low = [self._random.randrange(1 << 40) for _ in range(COLUMNS)]
        high = [value + self._random.randrange(1 << 36) for value in low]
        return {
            "_MIN_VALUES": struct.pack(f">i8x{COLUMNS}q", COLUMNS, *low),
            "_MAX_VALUES": struct.pack(f">i8x{COLUMNS}q", COLUMNS, *high),
            "_NULL_COUNTS": [self._random.randrange(100) for _ in range(COLUMNS)],
        }

    def _file(self, day: str) -> File:
        rows = 1000 + self._random.randrange(100_000)
        return {
            "_VERSION": 2,
            "_KIND": 0,
            "_PARTITION": encode_row(("STRING",), (day,)),
            "_BUCKET": 0,
            "_TOTAL_BUCKETS": -1,
            "_FILE": {
                "_FILE_NAME": f"data-{self._uuid()}-0.parquet",
                "_FILE_SIZE": rows * 70,
                "_ROW_COUNT": rows,
                "_MIN_KEY": _EMPTY,
                "_MAX_KEY": _EMPTY,
                "_KEY_STATS": {"_MIN_VALUES": _EMPTY, "_MAX_VALUES": _EMPTY, "_NULL_COUNTS": []},
                "_VALUE_STATS": self._random.choice(self._statistics),
                "_MIN_SEQUENCE_NUMBER": 0,
                "_MAX_SEQUENCE_NUMBER": rows - 1,
                "_SCHEMA_ID": 0,
                "_LEVEL": 0,
                "_EXTRA_FILES": [],
                "_CREATION_TIME": START_MS,
                "_DELETE_ROW_COUNT": 0,
                "_FILE_SOURCE": 0,
            },
        }

    def _manifest(self, files: Iterable[File], *, keep: bool = False) -> Manifest:
        entries = tuple(files)
        name = f"manifest-{self._uuid()}-0"
        size = self._avro(name, _FIELDS, entries)
        rows = sorted({entry["_PARTITION"] for entry in entries})
        deleted = sum(entry["_KIND"] for entry in entries)
        line = {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": len(entries) - deleted,
            "_NUM_DELETED_FILES": deleted,
            "_PARTITION_STATS": {"_MIN_VALUES": rows[0], "_MAX_VALUES": rows[-1], "_NULL_COUNTS": [0]},
            "_SCHEMA_ID": 0,
            "_MIN_BUCKET": 0,
            "_MAX_BUCKET": 0,
            "_MIN_LEVEL": 0,
            "_MAX_LEVEL": 0,
        }
        return Manifest(line, entries if keep else ())

    def _list(self, manifests: Sequence[Manifest]) -> tuple[str, int]:
        self._lists += 1
        name = f"manifest-list-{self._uuid()}-{self._lists % 2}"
        return name, self._avro(name, _LIST_FIELDS, [manifest.line for manifest in manifests])

    def _avro(self, name: str, schema: Any, records: Iterable[Any]) -> int:
        target = io.BytesIO()
        fastavro.writer(target, schema, records, codec="zstandard", sync_interval=64_000)
        return (self._folder / "manifest" / name).write_bytes(target.getvalue())


def _merged(manifests: Sequence[Manifest]) -> list[File]:
    """Return the entries of some manifests without those that cancel out."""
    entries: dict[str, File] = {}
    for manifest in manifests:
        for entry in manifest.entries:
            name = entry["_FILE"]["_FILE_NAME"]
            if entry["_KIND"] == 1 and name in entries:
                del entries[name]
            else:
                entries[name] = entry
    return list(entries.values())


if __name__ == "__main__":
    Writer(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0).write()
