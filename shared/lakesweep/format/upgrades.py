"""Upgrades: entries that give a data file another level.

A compaction need not rewrite a file whose keys nothing else has: it deletes the file's entry, and adds one with another
level. That is the same record but for one number, so that fields of later versions stay too.

Source: Paimon `DataFileMeta#upgrade`, `MergeTreeCompactTask`.
"""

from functools import lru_cache

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.decoder_source import BrokenRecordError
from lakesweep.format.avro.encoder import long_bytes
from lakesweep.format.avro.ends import branch_at, end_of
from lakesweep.format.avro.places import read_number
from lakesweep.format.avro.schema import AvroType, parse_avro_schema
from lakesweep.format.raw_entries import ADD_START, RawEntry
from lakesweep.format.values.json_document import describe, parse_value, shorten

_WHERE = ("_FILE", "_LEVEL")
_SCHEMA = "the writer's schema"


def as_level(schema_text: bytes, raw: RawEntry, level: int) -> RawEntry:
    """Return the ADD of the same file on another level.

    Args:
        schema_text: The writer's schema, of the record.
        raw: The ADD of the file.
        level: The level.

    Raises:
        FormatError: The record is no ADD, is not of this schema, or has another level than its entry.
        UnsupportedFormatError: The schema says of no number that it is the level (`manifest_schema`).
    """
    record, name = raw.record, raw.entry.file_name
    if not record.startswith(ADD_START):
        raise FormatError(f"entry of {describe(name)}: expected an ADD, found a record that begins {record[:2].hex()}")
    try:
        start = _start(_type(schema_text), record, _WHERE)
        old, end = read_number(record, start)
        if (whole := end_of(_type(schema_text), record, 0)) != len(record):
            raise BrokenRecordError(f"{len(record)} bytes of which it takes {whole}")
    except (BrokenRecordError, IndexError) as error:
        found = shorten(str(error)) if isinstance(error, BrokenRecordError) else "one that is cut short"
        raise FormatError(f"entry of {describe(name)}: expected a record of its schema, found {found}") from error
    if old != raw.entry.level:
        raise FormatError(f"entry of {describe(name)}: expected the level {raw.entry.level}, found {old}")
    return raw._replace(record=record[:start] + long_bytes(level) + record[end:], entry=raw.entry._replace(level=level))


@lru_cache(maxsize=64)
def _type(schema_text: bytes) -> AvroType:
    return parse_avro_schema(parse_value(schema_text, _SCHEMA), _SCHEMA)


def _start(type_: AvroType, record: bytes, names: tuple[str, ...]) -> int:
    """Return where the number begins to which these names lead."""
    pos = 0
    for name in names:
        type_, pos = _inner(type_, record, pos)
        for each, field in type_.fields:
            if each == name:
                type_ = field
                break
            pos = end_of(field, record, pos)
        else:
            raise _no_level(type_)
    type_, pos = _inner(type_, record, pos)
    if type_.kind not in ("int", "long"):
        raise _no_level(type_)
    return pos


def _inner(type_: AvroType, record: bytes, pos: int) -> tuple[AvroType, int]:
    return branch_at(type_, record, pos) if type_.kind == "union" else (type_, pos)


def _no_level(type_: AvroType) -> UnsupportedFormatError:
    found = f"a {type_.kind} of {len(type_.fields)} fields" if type_.fields else f"a {type_.kind}"
    return UnsupportedFormatError(
        f"{_SCHEMA}: expected the number {'.'.join(_WHERE)}, found {found} without it", code="manifest_schema"
    )
