"""Upgrades: of a record only the level changes, whoever wrote it."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.raw_entries import RawEntry, as_delete, read_raw_manifest
from lakesweep.format.upgrades import as_level

from .random_records import values
from .samples import FUTURE_MANIFEST, NEW_MANIFEST, Schema, avro_file, manifest_record, nullable, record

FUTURE: dict[str, Any] = {"_FROM_THE_FUTURE": {"a": {"k": None, "l": 2.5}, "b": b"abc"}}
WRAPPED: Schema = record(
    "record",
    _VERSION="int",
    _KIND="int",
    _FLAGS={"type": "map", "values": {"type": "array", "items": nullable("double")}},
    **{
        field["name"]: nullable(field["type"]) if field["name"] == "_FILE" else field["type"]
        for field in NEW_MANIFEST["fields"][2:]
    },
)
FLAGS = {"_FLAGS": {"a": [1.5, None], "b": []}}


def decoded(schema: Schema, body: bytes) -> Any:
    """Return the record that fastavro reads, to the last byte."""
    stream = io.BytesIO(body)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.tell() == len(body)
    return found


def raws(schema: Schema, *records: Any) -> tuple[bytes, list[RawEntry]]:
    """Return the writer's schema and the entries of a manifest with these records."""
    manifest = read_raw_manifest(avro_file(schema, records), "m")
    return manifest.schema_text, list(manifest.entries())


@pytest.mark.parametrize("level", [0, 5, 63, 64, 1 << 20])
@pytest.mark.parametrize(
    ("schema", "more"), [(NEW_MANIFEST, {}), (FUTURE_MANIFEST, FUTURE), (WRAPPED, FLAGS)], ids=["1.3", "future", "odd"]
)
def test_only_the_level_changes(schema: Schema, more: dict[str, Any], level: int) -> None:
    """Also beside fields of later versions, and where the level begins as a longer number."""
    before = manifest_record(_LEVEL=70, _EXTRA_FILES=["a", "bc"])
    for name, each in more.items():
        (before if name == "_FLAGS" else before["_FILE"])[name] = each
    text, (raw,) = raws(schema, before)
    after = as_level(text, raw, level)
    expected = decoded(schema, raw.record)
    assert expected["_FILE"]["_LEVEL"] == 70
    expected["_FILE"]["_LEVEL"] = level
    assert decoded(schema, after.record) == expected
    assert after == raw._replace(record=after.record, entry=raw.entry._replace(level=level))
    assert as_level(text, after, 70) == raw


@settings(max_examples=40)
@given(st.data())
def test_records_of_any_values(data: st.DataObject) -> None:
    """There and back again: the same bytes."""
    stats = NEW_MANIFEST["fields"][-1]["type"]["fields"][6]["type"]
    level, other = data.draw(st.tuples(st.integers(0, 300), st.integers(0, 300)))
    text, (raw,) = raws(NEW_MANIFEST, manifest_record(_VALUE_STATS=data.draw(values(stats)), _LEVEL=level))
    moved = as_level(text, raw, other)
    assert decoded(NEW_MANIFEST, moved.record)["_FILE"]["_LEVEL"] == other
    assert as_level(text, moved, level) == raw


def test_arrays_in_blocks_with_their_size() -> None:
    """Another writer's form of an array before the level: a negative number of items, and their bytes."""
    text, (raw,) = raws(NEW_MANIFEST, manifest_record(_VALUE_STATS={
        "_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": [1, 2, 3]}))  # fmt: skip
    usual, blocks = b"\x06\x02\x02\x02\x04\x02\x06\x00", b"\x05\x0c\x02\x02\x02\x04\x02\x06\x00"
    assert raw.record.count(usual) == 1
    odd = raw._replace(record=raw.record.replace(usual, blocks))
    assert as_level(text, odd, 3).record == as_level(text, raw, 3).record.replace(usual, blocks)


def test_damage_is_refused() -> None:
    """Every cut, more bytes, a length below zero, and a level that the entry does not know."""
    text, (raw,) = raws(NEW_MANIFEST, manifest_record())
    for end in range(2, len(raw.record)):
        with pytest.raises(FormatError, match=r"^entry of 'data-1-0\.parquet': expected a record of its schema"):
            as_level(text, raw._replace(record=raw.record[:end]), 1)
    with pytest.raises(FormatError, match="of which it takes"):
        as_level(text, raw._replace(record=raw.record + b"\0"), 1)
    name = raw.record.index(b"data-1-0.parquet")
    negative = raw.record[: name - 1] + b"\x01" + raw.record[name:]
    with pytest.raises(FormatError, match="a negative length"):
        as_level(text, raw._replace(record=negative), 1)
    with pytest.raises(FormatError, match="expected the level 2, found 0"):
        as_level(text, raw._replace(entry=raw.entry._replace(level=2)), 1)


def test_only_an_add_gets_a_level() -> None:
    text, (raw,) = raws(NEW_MANIFEST, manifest_record())
    with pytest.raises(FormatError, match="expected an ADD, found a record that begins 0402"):
        as_level(text, raw._replace(record=as_delete(raw.record)), 1)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ([{"name": "_FILE", "type": "int"}], "a int without it"),
        ([{"name": "_FILE", "type": record("f", _LEVEL="string")}], "a string without it"),
        ([{"name": "_FILE", "type": record("f", _LEVELS="int")}], "a record of 1 fields without it"),
    ],
)
def test_schemas_without_a_level(fields: list[Any], found: str) -> None:
    _, (raw,) = raws(NEW_MANIFEST, manifest_record())
    start = [{"name": "_VERSION", "type": "int"}, {"name": "_KIND", "type": "int"}]
    text = json.dumps({"type": "record", "name": "record", "fields": start + fields}).encode()
    with pytest.raises(UnsupportedFormatError, match=f"expected the number _FILE._LEVEL, found {found}") as caught:
        as_level(text, raw, 1)
    assert caught.value.code == "manifest_schema"


def test_manifests_of_real_engines(fixtures_dir: Path) -> None:
    """Every ADD of every fixture changes its level and gets it back."""
    count = 0
    for path in sorted((fixtures_dir / "tables").glob("*/manifest/manifest-*")):
        if path.name.startswith("manifest-list") or path.read_bytes()[:4] != b"Obj\x01":
            continue
        try:
            manifest = read_raw_manifest(path.read_bytes(), path.name)
        except UnsupportedFormatError:
            continue
        for raw in manifest.entries():
            if raw.is_add:
                moved = as_level(manifest.schema_text, raw, 5)
                assert as_level(manifest.schema_text, moved, raw.entry.level) == raw
                count += 1
    assert count > 50
