"""Bytes of Paimon's metadata files, from plain values: manifests, manifest lists, index manifests, deletion vectors.

The values are what a test thinks in (`DataFile`, `Manifest`, `IndexFile`); sizes and counts are taken from the bytes
that are really written.
"""

import io
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import fastavro

from tests.support.binary_row import encode_row
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST

Sign = Literal["+", "-"]

# Parsed once: that takes longer than it takes to write a manifest.
_MANIFEST, _MANIFEST_LIST, _INDEX_MANIFEST = map(fastavro.parse_schema, (MANIFEST, MANIFEST_LIST, INDEX_MANIFEST))
_NAMES = uuid.UUID("6f0f2f52-6c61-5b6b-9a1e-6c616b657377")
_EMPTY_ROW = encode_row((), ())


def stable_uuid(text: str) -> str:
    """Return the same UUID for the same text in every run, so that names and bytes can be compared."""
    return str(uuid.uuid5(_NAMES, text))


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data or changelog file on one level."""

    symbol: str
    name: str
    folder: str
    """Where it lies, with a closing slash: a key prefix, or a URI prefix when external."""
    partition: tuple[Any, ...]
    partition_row: bytes
    bucket: int
    total_buckets: int
    size: int
    rows: int
    schema_id: int
    creation_ms: int
    level: int = 0
    file_source: int | None = 0
    extra_files: tuple[str, ...] = ()
    is_external: bool = False
    min_key: bytes = _EMPTY_ROW
    max_key: bytes = _EMPTY_ROW
    key_null_counts: tuple[int, ...] = ()
    sequence: tuple[int, int] = (0, 0)
    stats: tuple[bytes, bytes, tuple[int, ...]] | None = None
    """The least and the greatest value of each column, and how many are null; `None`: there are no statistics."""

    @property
    def path(self) -> str:
        """The key below the table root, or the URI of an external file."""
        return self.folder + self.name

    @property
    def extra_paths(self) -> tuple[str, ...]:
        """The paths of its extra files."""
        return tuple(self.folder + extra for extra in self.extra_files)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a DELETE entry must repeat to take this file out of the table."""
        external = self.path if self.is_external else None
        return (self.partition_row, self.bucket, self.level, self.name, self.extra_files, external)

    def record(self) -> dict[str, Any]:
        """Return the `_FILE` record."""
        low, high, nulls = self.stats or (_EMPTY_ROW, _EMPTY_ROW, ())
        key_stats = {
            "_MIN_VALUES": self.min_key,
            "_MAX_VALUES": self.max_key,
            "_NULL_COUNTS": list(self.key_null_counts),
        }
        return {
            "_FILE_NAME": self.name,
            "_FILE_SIZE": self.size,
            "_ROW_COUNT": self.rows,
            "_MIN_KEY": self.min_key,
            "_MAX_KEY": self.max_key,
            "_KEY_STATS": key_stats,
            "_VALUE_STATS": {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": list(nulls)},
            "_MIN_SEQUENCE_NUMBER": self.sequence[0],
            "_MAX_SEQUENCE_NUMBER": self.sequence[1],
            "_SCHEMA_ID": self.schema_id,
            "_LEVEL": self.level,
            "_EXTRA_FILES": list(self.extra_files),
            "_CREATION_TIME": self.creation_ms,
            "_DELETE_ROW_COUNT": 0,
            "_FILE_SOURCE": self.file_source,
            "_VALUE_STATS_COLS": [] if self.stats is None else None,
            "_EXTERNAL_PATH": self.path if self.is_external else None,
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a manifest: this file came, or went."""

    sign: Sign
    file: DataFile


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as its list describes it."""

    name: str
    size: int
    entries: tuple[Entry, ...]
    partition_types: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return this manifest's line in a manifest list."""
        files = [entry.file for entry in self.entries]
        return {
            "_VERSION": 2,
            "_FILE_NAME": self.name,
            "_FILE_SIZE": self.size,
            "_NUM_ADDED_FILES": sum(entry.sign == "+" for entry in self.entries),
            "_NUM_DELETED_FILES": sum(entry.sign == "-" for entry in self.entries),
            "_PARTITION_STATS": _partition_stats(self.partition_types, [file.partition for file in files]),
            "_SCHEMA_ID": max((file.schema_id for file in files), default=0),
            "_MIN_BUCKET": min((file.bucket for file in files), default=None),
            "_MAX_BUCKET": max((file.bucket for file in files), default=None),
            "_MIN_LEVEL": min((file.level for file in files), default=None),
            "_MAX_LEVEL": max((file.level for file in files), default=None),
        }


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of an index, as the index manifest describes it."""

    symbol: str
    name: str
    path: str
    size: int
    index_type: str
    partition_row: bytes
    bucket: int
    row_count: int
    ranges: tuple[tuple[str, int, int, int], ...] | None = None
    """Deletion vectors: data file, offset, length, how many rows."""
    is_external: bool = False

    def record(self) -> dict[str, Any]:
        """Return this file's line in an index manifest."""
        return {
            "_VERSION": 1,
            "_KIND": 0,
            "_PARTITION": self.partition_row,
            "_BUCKET": self.bucket,
            "_INDEX_TYPE": self.index_type,
            "_FILE_NAME": self.name,
            "_FILE_SIZE": self.size,
            "_ROW_COUNT": self.row_count,
            "_DELETIONS_VECTORS_RANGES": None
            if self.ranges is None
            else [
                {"f0": name, "f1": start, "f2": length, "_CARDINALITY": rows}
                for name, start, length, rows in self.ranges
            ],
            "_EXTERNAL_PATH": self.path if self.is_external else None,
        }


def live_files(manifests: Iterable[Manifest]) -> tuple[DataFile, ...]:
    """Return what some manifests leave of a table: everything added whose identity no entry deletes."""
    entries = [entry for manifest in manifests for entry in manifest.entries]
    gone = {entry.file.identity for entry in entries if entry.sign == "-"}
    return tuple(entry.file for entry in entries if entry.sign == "+" and entry.file.identity not in gone)


def encode_manifest(entries: Iterable[Entry]) -> bytes:
    """Encode a manifest."""
    return _avro(
        _MANIFEST,
        [
            {
                "_VERSION": 2,
                "_KIND": 0 if entry.sign == "+" else 1,
                "_PARTITION": entry.file.partition_row,
                "_BUCKET": entry.file.bucket,
                "_TOTAL_BUCKETS": entry.file.total_buckets,
                "_FILE": entry.file.record(),
            }
            for entry in entries
        ],
    )


def encode_manifest_list(manifests: Iterable[Manifest]) -> bytes:
    """Encode a manifest list."""
    return _avro(_MANIFEST_LIST, [manifest.record() for manifest in manifests])


def encode_index_manifest(files: Iterable[IndexFile]) -> bytes:
    """Encode an index manifest."""
    return _avro(_INDEX_MANIFEST, [file.record() for file in files])


def encode_vectors(
    vectors: Mapping[str, Sequence[int]], wide: bool = False
) -> tuple[bytes, tuple[tuple[str, int, int, int], ...]]:
    """Encode a file of deletion vectors.

    Args:
        vectors: Name of a data file -> positions of its deleted rows, each below 65 536.
        wide: As 64-bit bitmaps.

    Returns:
        The bytes, and per vector its data file, offset, length and count.
    """
    body = bytearray(b"\1")
    ranges = []
    for name, positions in vectors.items():
        bitmap = _roaring(sorted(set(positions)))
        content = struct.pack("<Iqi", 1681511377, 1, 0) + bitmap if wide else struct.pack(">i", 1581511376) + bitmap
        ranges.append((name, len(body), len(content) + (8 if wide else 0), len(set(positions))))
        body += struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    return bytes(body), tuple(ranges)


def _roaring(positions: list[int]) -> bytes:
    """Return a portable Roaring bitmap of one array container."""
    if not positions:
        return struct.pack("<II", 12346, 0)
    if positions[-1] > 0xFFFF or len(positions) > 4096:
        raise NotImplementedError("deletion vectors of more than one small container")
    return struct.pack("<IIHHI", 12346, 1, 0, len(positions) - 1, 16) + struct.pack(f"<{len(positions)}H", *positions)


def _avro(schema: Any, records: list[dict[str, Any]]) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec="zstandard", sync_marker=b"lakesweep-tests!")
    return target.getvalue()


def _partition_stats(types: tuple[str, ...], partitions: list[tuple[Any, ...]]) -> dict[str, Any]:
    if not partitions:
        types = ()
    columns = [[partition[i] for partition in partitions] for i in range(len(types))]

    def extreme(choose: Callable[[Iterable[Any]], Any]) -> bytes:
        known = [[value for value in column if value is not None] for column in columns]
        return encode_row(types, [choose(values) if values else None for values in known])

    return {
        "_MIN_VALUES": extreme(min),
        "_MAX_VALUES": extreme(max),
        "_NULL_COUNTS": [sum(value is None for value in column) for column in columns],
    }
