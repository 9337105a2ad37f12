"""Raw entries: the bytes of each record, and the one byte that turns an ADD into a DELETE."""

import io
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro import patterns
from lakesweep.format.avro.container import read_container
from lakesweep.format.manifest import read_manifest
from lakesweep.format.raw_entries import as_delete, read_raw_manifest
from tests.support.sampling import examples

from .random_records import values
from .samples import (
    FUTURE_MANIFEST,
    NEW_MANIFEST,
    OLD_MANIFEST,
    Schema,
    avro_file,
    container,
    long,
    manifest_record,
    nullable,
    record,
)

LATER: dict[str, Any] = {"_EMBEDDED_FILE_INDEX": b"index", "_EXTERNAL_PATH": "s3a://bucket/x/data-1-0.parquet"}
FUTURE = {"_FROM_THE_FUTURE": {"a": {"k": None, "l": 2.5}, "b": b"abc"}}


def encoded(schema: Schema, value: Any) -> bytes:
    """One record as fastavro writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


@pytest.mark.parametrize("schema", [NEW_MANIFEST, FUTURE_MANIFEST], ids=["1.3", "future"])
@pytest.mark.parametrize("codec", ["null", "zstandard"])
def test_every_record_comes_with_its_bytes(schema: Schema, codec: str) -> None:
    """Bytes as in the file, entries as the reader's, and three more fields; some with a pattern, some without."""
    records = [
        manifest_record(f"data-1-{n}.parquet", kind=n % 2, _SCHEMA_ID=n, _CREATION_TIME=1_700_000_000_000 + n, **extra)
        for n, extra in enumerate([{}, LATER, {"_FIRST_ROW_ID": 7}, {"_EXTRA_FILES": ["a", "b"]}, FUTURE] * 150)
    ]
    for each in records[::7]:
        each["_FILE"]["_CREATION_TIME"] = None
    body = avro_file(schema, records, codec)
    manifest = read_raw_manifest(body, "m", expected_size=len(body))
    found = list(manifest.entries())
    assert [raw.record for raw in found] == [encoded(schema, each) for each in records]
    assert [raw.entry for raw in found] == list(read_manifest(body, "m"))
    assert [raw.schema_id for raw in found] == [each["_FILE"]["_SCHEMA_ID"] for each in records]
    assert [raw.creation_time_ms for raw in found] == [each["_FILE"]["_CREATION_TIME"] for each in records]
    assert [raw.first_row_id for raw in found] == [each["_FILE"].get("_FIRST_ROW_ID") for each in records]
    assert [raw.is_add for raw in found] == [each["_KIND"] == 0 for each in records]
    assert manifest.schema_text == read_container(body, "m").schema_text
    entries = [raw.entry for raw in found]
    facts = [(entry.is_add, entry.partition, entry.file_size, entry.row_count) for entry in entries]
    ids = [raw.first_row_id for raw in found]
    times = [raw.creation_time_ms for raw in found]
    assert list(manifest.facts(dated=True)) == [(*each, *rest) for each, *rest in zip(facts, times, ids, strict=True)]
    assert list(manifest.facts(dated=False)) == [(*each, None, last) for each, last in zip(facts, ids, strict=True)]


@pytest.mark.parametrize("wrong", [{"kind": 2}, {"_FILE_SIZE": -1}, {"_ROW_COUNT": -1}, {"_BUCKET": -3}])
@pytest.mark.parametrize("dated", [False, True])
def test_facts_that_cannot_be(wrong: dict[str, Any], dated: bool) -> None:
    """Whatever adds up to something is checked as in an entry."""
    manifest = read_raw_manifest(avro_file(NEW_MANIFEST, [manifest_record("data-1-0.parquet", **wrong)]), "m")
    with pytest.raises(FormatError, match="expected a kind, bucket, size and row count"):
        list(manifest.facts(dated=dated))
    with pytest.raises(FormatError):
        list(manifest.entries())


@settings(max_examples=examples(30))
@given(st.data())
def test_bytes_of_any_records(data: st.DataObject) -> None:
    """Random column statistics and names of any length, patterns from the first block on."""
    stats = NEW_MANIFEST["fields"][-1]["type"]["fields"][6]["type"]
    drawn = data.draw(
        st.lists(st.tuples(values(stats), st.from_regex(r"data-[a-z0-9]{1,60}", fullmatch=True)), max_size=20)
    )
    records = [manifest_record(name, _VALUE_STATS=column) for column, name in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "WARM_UP", 0)
        for _ in range(2):
            found = list(read_raw_manifest(avro_file(NEW_MANIFEST, records, sync_interval=300), "m").entries())
            assert [raw.record for raw in found] == [encoded(NEW_MANIFEST, each) for each in records]


def test_a_delete_differs_in_one_byte() -> None:
    """fastavro reads the same record with the other kind, all later fields included."""
    add = encoded(FUTURE_MANIFEST, manifest_record(**LATER, **FUTURE))
    delete = as_delete(add)
    assert [n for n in range(len(add)) if add[n] != delete[n]] == [1]
    parsed = fastavro.parse_schema(FUTURE_MANIFEST)
    before, after = (fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in (add, delete))
    assert after == before | {"_KIND": 1}


@pytest.mark.parametrize("start", [b"", b"\x04", b"\x04\x02", b"\x02\x04", b"\x84\x00", b"\x06\x00"])
def test_only_an_add_becomes_a_delete(start: bytes) -> None:
    with pytest.raises(
        FormatError, match=rf"^a record: expected an entry that begins 0400 or 0402, found {start.hex()}$"
    ):
        as_delete(start)


def test_a_kind_of_two_bytes_is_refused() -> None:
    """A legal but unusual number, whose second byte would not be the kind."""
    usual = encoded(NEW_MANIFEST, manifest_record())
    for start in (b"\x84\x00\x00", b"\x04\x80\x00"):
        body = container(NEW_MANIFEST, [(1, start + usual[2:])])
        assert len(list(read_manifest(body, "m"))) == 1
        with pytest.raises(FormatError, match=r"^m: expected an entry that begins 0400 or 0402, found ....$"):
            list(read_raw_manifest(body, "m").entries())


def changed(*fields: dict[str, Any]) -> Schema:
    return {**NEW_MANIFEST, "fields": [*fields, *NEW_MANIFEST["fields"][2:]]}


VERSION, KIND = NEW_MANIFEST["fields"][:2]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (OLD_MANIFEST, "no plain record"),
        (changed(KIND, VERSION), "'_KIND': int, '_VERSION': int"),
        (changed(VERSION, {"name": "_KIND", "type": ["null", "int"]}), "'_VERSION': int, '_KIND': union"),
        (changed({"name": "_VERSION", "type": "long"}, KIND), "'_VERSION': long, '_KIND': int"),
        (changed(VERSION, {"name": "_NEW", "type": "int"}, KIND), "'_VERSION': int, '_NEW': int"),
        (record("r", _VERSION="int"), "'_VERSION': int"),
        ("int", "no plain record"),
    ],
)
def test_other_writers_schemas_are_refused(schema: Schema, found: str) -> None:
    body = container(schema, [])
    with pytest.raises(UnsupportedFormatError, match=rf": int, _KIND: int, found {re.escape(found)}$") as caught:
        read_raw_manifest(body, "m")
    assert caught.value.code == "manifest_schema"


def test_a_wrapped_type_is_the_same_type() -> None:
    schema = changed({"name": "_VERSION", "type": {"type": "int"}}, KIND)
    assert len(list(read_raw_manifest(avro_file(schema, [manifest_record()]), "m").entries())) == 1


@pytest.mark.parametrize(("magic", "name"), [(b"ORC", "ORC"), (b"PAR1", "Parquet")])
def test_other_containers_are_refused(magic: bytes, name: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"^m: expected an Avro file, .*, found {name}$") as caught:
        read_raw_manifest(magic + bytes(100), "m")
    assert caught.value.code == "manifest_format"


def test_damage_and_lies_about_the_size() -> None:
    body = avro_file(NEW_MANIFEST, [manifest_record()])
    with pytest.raises(FormatError, match=rf"^m: expected {len(body) - 1} bytes, as recorded .*, found {len(body)}$"):
        read_raw_manifest(body, "m", expected_size=len(body) - 1)
    for damaged in (b"", b"{}", body[:-1]):
        with pytest.raises(FormatError, match=r"^m: expected "):
            read_raw_manifest(damaged, "m")
    for records in ([manifest_record(kind=2)], [manifest_record(_LEVEL=-1)], [manifest_record("../x")]):
        with pytest.raises(FormatError, match=r"^m: expected "):
            list(read_raw_manifest(avro_file(NEW_MANIFEST, records), "m").entries())
    with pytest.raises(UnsupportedFormatError, match=r"^m: expected entries of version 2, found version 3$"):
        list(read_raw_manifest(avro_file(NEW_MANIFEST, [manifest_record(_VERSION=3)]), "m").entries())


def test_a_field_without_a_name_is_a_field() -> None:
    """A writer's schema may call a field what the reader calls the record's bytes."""
    schema = {**NEW_MANIFEST, "fields": [*NEW_MANIFEST["fields"], {"name": "", "type": nullable("string")}]}
    text = encoded(NEW_MANIFEST, manifest_record()) + b"\x02" + long(1) + b"x"
    (raw,) = read_raw_manifest(container(schema, [(1, text)]), "m").entries()
    assert raw.record == text


def test_manifests_of_real_engines(fixtures_dir: Path) -> None:
    """The records of each Avro manifest are its blocks, cut without a rest; the others are refused by their code."""
    seen = {"manifest_format": 0, "manifest_schema": 0, "": 0}
    for path in sorted((fixtures_dir / "tables").glob("*/manifest/manifest-*")):
        if path.name.startswith("manifest-list-"):
            continue
        body, code = path.read_bytes(), ""
        try:
            found = list(read_raw_manifest(body, path.name, expected_size=len(body)).entries())
        except UnsupportedFormatError as error:
            code = error.code
        else:
            assert b"".join(raw.record for raw in found) == b"".join(d for _, d in read_container(body, "m").blocks())
            assert [raw.entry for raw in found] == list(read_manifest(body, "m"))
        seen[code] += 1
    assert min(seen.values()) > 5
