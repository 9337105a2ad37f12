"""Manifest lists from records of other lists and from new manifests."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.manifest import ManifestMeta, read_manifest_list
from lakesweep.format.manifest_list_schema import FULL_LIST_SCHEMA, LIST_SCHEMA
from lakesweep.format.manifest_list_writer import RawList, raw_list_of, read_raw_list, write_manifest_list
from lakesweep.format.manifest_writer import WrittenManifest
from tests.support import metadata_schemas

from .samples import (
    EMPTY_ROW,
    MANIFEST_LIST,
    NEW_MANIFEST_LIST,
    Schema,
    avro_file,
    container,
    list_record,
    nullable,
    record,
    stats_schema,
)

JAVA_LIST: Schema = metadata_schemas.MANIFEST_LIST
RANGES = {"_MIN_BUCKET": 0, "_MAX_BUCKET": 3, "_MIN_LEVEL": 0, "_MAX_LEVEL": 5}
LATER = {"_TOTAL_BUCKETS": 4, "_EXTRA_FILES": ["manifest-1-0.avro.sidecar"]}
META = ManifestMeta("manifest-u-0", 1000, 3, 2, 7, b"min", b"max", (), -1, 3, 0, 5, None, None)
NEW = WrittenManifest(b"", META, (0, None))
NEW_RECORD = {
    "_VERSION": 2,
    "_FILE_NAME": "manifest-u-0",
    "_FILE_SIZE": 1000,
    "_NUM_ADDED_FILES": 3,
    "_NUM_DELETED_FILES": 2,
    "_PARTITION_STATS": {"_MIN_VALUES": b"min", "_MAX_VALUES": b"max", "_NULL_COUNTS": [0, None]},
    "_SCHEMA_ID": 7,
    "_MIN_BUCKET": -1,
    "_MAX_BUCKET": 3,
    "_MIN_LEVEL": 0,
    "_MAX_LEVEL": 5,
    "_MIN_ROW_ID": None,
    "_MAX_ROW_ID": None,
}


def raw_list(schema: Schema, *records: dict[str, Any]) -> RawList:
    return read_raw_list(avro_file(schema, records), "l")


def written(*lists: RawList, added: tuple[WrittenManifest, ...] = ()) -> bytes:
    return write_manifest_list(lists, added, codec="zstandard")


def fastavro_records(body: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(body)))


def text_of(body: bytes) -> bytes:
    return read_container(body, "l").schema_text


def test_an_empty_list_has_the_bytes_of_java() -> None:
    """1 006 of them: its schema text, its codec and a marker; no block."""
    body = written()
    assert len(body) == 1006
    assert read_manifest_list(body, "l", expected_size=1006) == ()
    assert fastavro_records(body) == []


def test_the_schema_is_that_of_java() -> None:
    """With its names of records, since Java's releases compare texts when they copy blocks."""
    assert json.loads(LIST_SCHEMA) == JAVA_LIST
    assert json.dumps(JAVA_LIST, separators=(",", ":")).encode() == LIST_SCHEMA


def test_lists_of_real_engines_have_the_schema(fixtures_dir: Path) -> None:
    """Some of the tables were written by 1.4, whose lists are copied into one with the same header."""
    texts = set()
    for path in (fixtures_dir / "tables").glob("*/manifest/manifest-list-*"):
        if (body := path.read_bytes()).startswith(b"Obj"):
            raw = read_raw_list(body, path.name, expected_size=len(body))
            texts.add(raw.schema_text)
            copied = read_raw_list(written(raw), "l")
            assert copied.records == raw.records
            assert copied.metas == read_manifest_list(body, "l")
    assert LIST_SCHEMA in texts
    assert len(texts) > 2


def test_a_new_manifest() -> None:
    body = written(added=(NEW,))
    assert text_of(body) == LIST_SCHEMA
    assert fastavro_records(body) == [NEW_RECORD]
    assert read_manifest_list(body, "l") == (META,)


def test_records_of_one_schema_are_copied() -> None:
    """Base and delta of a table of Java, and then a new manifest: in this order, bytes unchanged."""
    base = raw_list(JAVA_LIST, list_record("manifest-1-0"), list_record("manifest-1-1", **RANGES))
    delta = raw_list(JAVA_LIST, list_record("manifest-2-0"))
    body = written(base, delta, added=(NEW,))
    found = read_raw_list(body, "l", expected_size=len(body))
    assert found.records[:3] == base.records + delta.records
    assert found.metas == (*base.metas, *delta.metas, META)
    assert fastavro_records(body)[3] == NEW_RECORD


def test_another_text_of_the_same_schema() -> None:
    """Names of records and blanks say nothing about the bytes: pypaimon's records beside Java's of later releases."""
    java = {**json.loads(FULL_LIST_SCHEMA)}
    theirs = raw_list({**NEW_MANIFEST_LIST, "name": "ManifestFileMeta"}, list_record("a", **LATER))
    ours = raw_list(java, list_record("b", **RANGES))
    body = written(theirs, ours, added=(NEW,))
    assert read_raw_list(body, "l").records[:2] == theirs.records + ours.records
    assert text_of(body) == theirs.schema_text
    assert fastavro_records(body)[2] == NEW_RECORD | {"_TOTAL_BUCKETS": None, "_EXTRA_FILES": []}


OLD = record(
    "record",
    **{field["name"]: field["type"] for field in MANIFEST_LIST["fields"]}
    | {"_PARTITION_STATS": nullable(stats_schema("record__PARTITION_STATS"))},
)
ABSENT = dict.fromkeys(field["name"] for field in JAVA_LIST["fields"][7:])


@pytest.mark.parametrize("schema", [MANIFEST_LIST, OLD, nullable(OLD)], ids=["1.0", "stats", "0.9"])
def test_old_records_beside_new_ones(schema: Schema) -> None:
    """Each is written anew in the schema of 1.4; what old releases did not record is null."""
    old, new = raw_list(schema, list_record("old")), raw_list(JAVA_LIST, list_record("new", **RANGES))
    assert len(old.records) == 1
    for lists, added in (((old, new), ()), ((new, old), (NEW,)), ((old,), (NEW,))):
        body = written(*lists, added=added)
        assert text_of(body) == LIST_SCHEMA
        expected = {"l": list_record("old") | ABSENT, "n": ABSENT | list_record("new", **RANGES)}
        wanted = [expected["l" if each is old else "n"] for each in lists] + [NEW_RECORD] * len(added)
        assert fastavro_records(body) == wanted
        assert read_manifest_list(body, "l") == tuple(meta for each in lists for meta in each.metas) + (META,) * len(
            added
        )


def test_old_records_alone_are_copied() -> None:
    """Where nothing is added, even a schema with unknown fields remains."""
    future = {**JAVA_LIST, "fields": [*JAVA_LIST["fields"], {"name": "_NEW", "type": "long"}]}
    for schema, values in ((nullable(OLD), {}), (MANIFEST_LIST, {}), (future, {"_NEW": 5})):
        base, delta = raw_list(schema, list_record("a", **values)), raw_list(schema, list_record("b", **values))
        body = written(base, delta)
        assert fastavro_records(body) == fastavro_records(
            avro_file(schema, [list_record("a", **values), list_record("b", **values)])
        )
        assert read_raw_list(body, "l").records == base.records + delta.records


def test_a_list_without_records_does_not_choose_the_schema() -> None:
    """A delta list of nothing, in the schema of another release."""
    base, empty = raw_list(JAVA_LIST, list_record("a")), raw_list(nullable(OLD))
    assert read_raw_list(written(empty, base, empty), "l").records == base.records


def test_later_fields_are_kept_in_another_schema() -> None:
    """A record with side files beside one of 1.4."""
    later, java = raw_list(NEW_MANIFEST_LIST, list_record("a", **LATER)), raw_list(JAVA_LIST, list_record("b"))
    body = written(java, later, added=(NEW,))
    assert text_of(body) == FULL_LIST_SCHEMA
    first, second, third = fastavro_records(body)
    assert first == list_record("b") | ABSENT | {"_TOTAL_BUCKETS": None, "_EXTRA_FILES": None}
    assert second == list_record("a") | ABSENT | LATER
    assert third == NEW_RECORD | {"_TOTAL_BUCKETS": None, "_EXTRA_FILES": []}


INSIDE = {
    **JAVA_LIST["fields"][5],
    "type": {**stats_schema("s"), "fields": [*stats_schema("s")["fields"], {"name": "_NEW", "type": "int"}]},
}


@pytest.mark.parametrize(
    ("schema", "values", "name"),
    [
        ({**JAVA_LIST, "fields": [*JAVA_LIST["fields"], {"name": "_NEW", "type": "long"}]}, {"_NEW": 1}, "_NEW"),
        (
            {**JAVA_LIST, "fields": [*JAVA_LIST["fields"][:5], INSIDE, *JAVA_LIST["fields"][6:]]},
            {"_PARTITION_STATS": list_record()["_PARTITION_STATS"] | {"_NEW": 1}},
            "_PARTITION_STATS._NEW",
        ),
    ],
)
def test_unknown_fields_are_never_lost(schema: Schema, values: dict[str, Any], name: str) -> None:
    future = raw_list(schema, list_record("a", **values))
    for lists, added in (((future,), (NEW,)), ((future, raw_list(JAVA_LIST, list_record("b"))), ())):
        with pytest.raises(
            UnsupportedFormatError, match=rf"^l: expected only known fields .*, found '{name}'$"
        ) as caught:
            written(*lists, added=added)
        assert caught.value.code == "unknown_manifest_field"


def test_statistics_that_are_missing() -> None:
    """They cannot be null in a new record, and nobody knows them."""
    old = raw_list(OLD, list_record("a", _PARTITION_STATS=None))
    assert old.metas[0].partition_min is None
    with pytest.raises(UnsupportedFormatError, match=r"^l: expected statistics of the partitions of 'a'") as caught:
        written(old, added=(NEW,))
    assert caught.value.code == "manifest_schema"
    assert read_raw_list(written(old), "l").records == old.records


def test_numbers_beyond_their_type_are_refused() -> None:
    """A field of 64 bits in an odd schema, where a list has 32."""
    fields = [
        {**field, "type": ["null", "long"]} if field["name"] == "_MIN_BUCKET" else field
        for field in JAVA_LIST["fields"]
    ]
    odd = raw_list({**JAVA_LIST, "fields": fields}, list_record("a", _MIN_BUCKET=1 << 40))
    with pytest.raises(FormatError, match=r"^l: expected int in _MIN_BUCKET, found 1099511627776$"):
        written(odd, added=(NEW,))


def test_damage_lies_and_other_containers() -> None:
    body = avro_file(JAVA_LIST, [list_record()])
    with pytest.raises(FormatError, match=rf"^l: expected 5 bytes, as recorded in the metadata, found {len(body)}$"):
        read_raw_list(body, "l", expected_size=5)
    for damaged in (b"", body[:-1], container(JAVA_LIST, [(1, b"\x04\x02")])):
        with pytest.raises(FormatError, match=r"^l: expected "):
            read_raw_list(damaged, "l")
    with pytest.raises(UnsupportedFormatError, match=r"^l: expected entries of version 2, found version 3$"):
        raw_list(JAVA_LIST, list_record(_VERSION=3))
    with pytest.raises(UnsupportedFormatError, match=r"^l: expected an Avro file, .*, found ORC$") as caught:
        read_raw_list(b"ORC" + bytes(50), "l")
    assert caught.value.code == "manifest_format"
    assert raw_list(
        JAVA_LIST, list_record(_PARTITION_STATS={"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW})
    ).records


@given(
    st.lists(
        st.tuples(st.sampled_from((JAVA_LIST, MANIFEST_LIST, NEW_MANIFEST_LIST, nullable(OLD))), st.integers(0, 3)),
        max_size=4,
    ),
    st.integers(0, 2),
)
def test_any_lists(shape: list[tuple[Schema, int]], added: int) -> None:
    """Whatever the releases: every record is there once, in order, and says the same."""
    lists = [
        raw_list(schema, *(list_record(f"manifest-{n}-{m}", _FILE_SIZE=n * 100 + m) for m in range(count)))
        for n, (schema, count) in enumerate(shape)
    ]
    body = written(*lists, added=(NEW,) * added)
    expected = [meta for each in lists for meta in each.metas] + [META] * added
    assert list(read_manifest_list(body, "l")) == expected
    assert [each["_FILE_NAME"] for each in fastavro_records(body)] == [meta.file_name for meta in expected]


@pytest.mark.parametrize("later", [0, 1, 2])
def test_new_records_stand_among_others(later: int) -> None:
    """Those of the list stay byte for byte, also if it has some of the later fields."""
    schema = {
        **JAVA_LIST,
        "fields": [*JAVA_LIST["fields"][:13], *json.loads(FULL_LIST_SCHEMA)["fields"][13 : 13 + later]],
    }
    records = [list_record(f"m-{n}") | RANGES | {"_MIN_ROW_ID": None, "_MAX_ROW_ID": None} | LATER for n in range(3)]
    whole = raw_list(schema, *records)
    first = RawList(whole.path, whole.schema_text, whole.records[:1], whole.metas[:1])
    last = RawList(whole.path, whole.schema_text, whole.records[2:], whole.metas[2:])
    found = read_raw_list(written(first, raw_list_of([NEW, NEW], whole), last), "l")
    assert [meta.file_name for meta in found.metas] == ["m-0", "manifest-u-0", "manifest-u-0", "m-2"]
    assert (found.records[0], found.records[3]) == (whole.records[0], whole.records[2])
    assert found.metas[1] == META


def test_new_records_among_those_of_another_form_are_all_written_anew() -> None:
    whole = raw_list(MANIFEST_LIST, list_record("m-0"), list_record("m-1"))
    found = read_raw_list(written(whole, raw_list_of([NEW], whole)), "l")
    assert found.metas == (*whole.metas, META)
