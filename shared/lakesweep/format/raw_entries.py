"""Raw entries: the entries of a manifest together with their bytes, so that a commit can copy them.

An entry is never encoded again. A reader deletes a file only if every value of the DELETE equals the ADD's byte by
byte, and a copy also keeps fields of later versions and statistics that Lakesweep does not know. To make the ADD of a
file its DELETE, one byte changes: in a record that begins with the two numbers `_VERSION` and `_KIND`, the kind is the
second byte. So a writer's schema of another form is refused.

Source: Paimon `ManifestEntry`, `FileEntry.Identifier`, `ManifestFileBlockMerger`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import AvroFile
from lakesweep.format.avro.projection import Row, read_blocks
from lakesweep.format.avro.schema import parse_avro_schema
from lakesweep.format.manifest import ADD, DELETE, METADATA_VERSION, POSTPONE_BUCKET, ManifestEntry, entries_of
from lakesweep.format.manifest_fields import COPY, DATED_FACTS, FACTS, IDENTIFIED_COPY, RAW_ENTRY
from lakesweep.format.metadata_file import check_version, read_avro
from lakesweep.format.values.json_document import describe, parse_value

ADD_START = b"\x04\x00"
"""The version 2 and the kind 0, as Avro writes them."""
DELETE_START = b"\x04\x02"
MAX_ROW_ID = (1 << 63) - 1
_MAX_INT = (1 << 31) - 1
"""Of buckets and levels, in lists and in Java."""
_VERSION_BYTE = 4
_FIRST_FIELDS = ("_VERSION", "_KIND")


class RawEntry(NamedTuple):
    """One entry and its bytes."""

    record: bytes
    """The whole Avro record, as in the file."""
    entry: ManifestEntry
    schema_id: int
    """The schema with which the data file was written."""
    creation_time_ms: int | None
    """The wall clock of the writer without its zone, in milliseconds as if it were UTC."""
    first_row_id: int | None

    @property
    def is_add(self) -> bool:
        """Tell whether the record, which `as_delete` may have changed, is an ADD."""
        return self.record[1] == 0


EntryFacts = tuple[bool, bytes, int, int, int | None, int | None]
"""Of an entry: whether it adds a file, the partition, the file's size, its rows, its creation time and first row id."""


@dataclass(frozen=True, slots=True)
class RawManifest:
    """A manifest with a valid frame."""

    path: str
    schema_text: bytes
    """The writer's schema, of all records."""
    _file: AvroFile = field(repr=False)

    def entries(self) -> Iterator[RawEntry]:
        """Decode the entries, in the order of the file.

        An error may come after some of them; the entries so far are not all.

        Raises:
            FormatError: The file is damaged.
            UnsupportedFormatError: A later version wrote it.
        """
        new = tuple.__new__  # The constructor of a named tuple takes twice as long.
        for rows in read_blocks(self._file, RAW_ENTRY):
            for (_, kind, _, _, file, record), entry in zip(rows, entries_of(rows, self.path), strict=True):
                if record[0] != _VERSION_BYTE or record[1] != kind << 1:
                    raise _odd_start(record, self.path)
                yield new(RawEntry, (record, entry, file[-3], file[-2], file[-1]))

    def facts(self, *, dated: bool) -> Iterator[EntryFacts]:
        """Decode what counts of entries that are not copied, in half the time of `entries`.

        Args:
            dated: With creation times; otherwise there is none.

        Raises:
            FormatError: The file is damaged. A name is not checked.
            UnsupportedFormatError: A later version wrote it.
        """
        path = self.path
        created_ms = None
        for rows in read_blocks(self._file, DATED_FACTS if dated else FACTS):
            for version, kind, partition, bucket, (_, size, row_count, first_row_id, *times) in rows:
                if version != METADATA_VERSION:
                    check_version(version, METADATA_VERSION, path)
                if (kind != ADD and kind != DELETE) or bucket < POSTPONE_BUCKET or size < 0 or row_count < 0:
                    raise FormatError(
                        f"{path}: expected a kind, bucket, size and row count of an entry, found {kind}, {bucket}, "
                        f"{size} and {row_count}"
                    )
                if dated:
                    (created_ms,) = times
                yield kind == ADD, partition, size, row_count, created_ms, first_row_id

    def copies(self, *, identified: bool) -> Iterator[tuple[list[Row], list[Row]]]:
        """Decode what a copy needs, block by block, in a third of the time of `entries`.

        Args:
            identified: With what `identity_digest` needs.

        Yields:
            The rows of the ADDs and of the DELETEs of a block: partition, bucket, file, record. The file is a row of
            level, schema id, row count and first row id, then of name, extra files, embedded index and external path.

        Raises:
            FormatError: The file is damaged, or a number is none of an entry. A name is not checked: a copy keeps it,
                and nobody makes a path of it.
            UnsupportedFormatError: A later version wrote it.
        """
        for rows in read_blocks(self._file, IDENTIFIED_COPY if identified else COPY):
            self._check_numbers(rows)
            adds = [row for row in rows if row[3].startswith(ADD_START)]
            deletes = [] if len(adds) == len(rows) else [row for row in rows if row[3].startswith(DELETE_START)]
            if len(adds) + len(deletes) != len(rows):
                raise self._odd(rows)
            yield adds, deletes

    def _check_numbers(self, rows: list[Row]) -> None:
        """Make sure of the numbers by which readers pass over manifests, once a list has their ranges."""
        odd = [
            row
            for row in rows
            if not POSTPONE_BUCKET <= row[1] <= _MAX_INT
            or not 0 <= row[2][0] <= _MAX_INT
            or row[2][2] < 0
            or (row[2][3] or 0) + row[2][2] > MAX_ROW_ID
        ]
        if odd:
            _, bucket, (level, _, row_count, first_row_id, *_), _ = odd[0]
            raise FormatError(
                f"{self.path}: expected a bucket, level, row count and row ids of an entry, found {bucket}, {level}, "
                f"{row_count} and {first_row_id}"
            )

    def _odd(self, rows: list[Row]) -> FormatError | UnsupportedFormatError:
        """Return the error of an entry that does not begin as a known one."""
        odd = next(row[3] for row in rows if not row[3].startswith((ADD_START, DELETE_START)))
        if odd[0] < 128:
            check_version(odd[0] >> 1 ^ -(odd[0] & 1), METADATA_VERSION, self.path)
        return _odd_start(odd, self.path)


def read_raw_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> RawManifest:
    """Read the frame of a manifest.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The `file_size` that the manifest list records.

    Raises:
        FormatError: The frame is damaged, or the size differs.
        UnsupportedFormatError: The file is not Avro (`manifest_format`), or its records do not begin with the version
            and the kind (`manifest_schema`).
    """
    file = read_avro(body, path, expected_size)
    fields = _first_fields(file.schema_text, path)
    if fields != tuple((name, "int") for name in _FIRST_FIELDS):
        found = ", ".join(f"{describe(name)}: {kind}" for name, kind in fields) or "no plain record"
        raise UnsupportedFormatError(
            f"{path}: expected records that begin with _VERSION: int, _KIND: int, found {found}",
            code="manifest_schema",
        )
    return RawManifest(path, file.schema_text, file)


def _first_fields(schema_text: bytes, path: str) -> tuple[tuple[str, str], ...]:
    # The path is not part of the cache key: it only serves messages.
    try:
        return _first_two(schema_text)
    except (FormatError, UnsupportedFormatError) as error:
        raise type(error)(f"{path}: {error}", code=error.code) from error


@lru_cache(maxsize=64)
def _first_two(schema_text: bytes) -> tuple[tuple[str, str], ...]:
    fields = parse_avro_schema(parse_value(schema_text, "the writer's schema"), "the writer's schema").fields
    return tuple((name, type_.kind) for name, type_ in fields[:2])


def as_delete(record: bytes) -> bytes:
    """Return the DELETE of the file that this record adds.

    Raises:
        FormatError: The record is not an ADD.
    """
    if record[:2] != ADD_START:
        raise _odd_start(record, "a record")
    return DELETE_START + record[2:]


def _odd_start(record: bytes, path: str) -> FormatError:
    return FormatError(f"{path}: expected an entry that begins 0400 or 0402, found {record[:2].hex()}")
