"""Generated decoders read what a general reader reads, and survive what no writer wrote."""

import contextlib
import io
import json
import math
import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.avro.projection import Want, project, read_rows
from lakesweep.format.avro.schema import MAX_COLLECTION_DEPTH, MAX_TYPES
from tests.support.sampling import examples

from .random_records import schemas, takes_bytes, values
from .samples import Schema, avro_file, container, long, nullable, record


def rows(body: bytes, *wants: Want) -> list[tuple[Any, ...]]:
    return list(read_rows(read_container(body, "p"), wants))


# Equal to fastavro


@settings(max_examples=examples(300))
@given(st.data())
def test_equal_to_fastavro(data: st.DataObject) -> None:
    """Random schemas and values: every subset of the fields comes out as fastavro reads it, in any order."""
    fields = {f"f{number}": data.draw(schemas(name=f"r_{number}")) for number in range(data.draw(st.integers(1, 5)))}
    schema = record("r", **fields)
    records = data.draw(st.lists(values(schema), max_size=5).filter(lambda _: takes_bytes(schema)))
    root = data.draw(st.sampled_from((schema, ["null", schema], [schema, "null"])))
    body = avro_file(root, records, data.draw(st.sampled_from(("null", "deflate"))), sync_interval=50)
    wanted = data.draw(
        st.permutations([*fields, "missing"]).flatmap(lambda p: st.integers(0, len(p)).map(lambda n: p[:n]))
    )
    expected = [tuple(row.get(name) for name in wanted) for row in fastavro.reader(io.BytesIO(body))]
    assert rows(body, *map(Want, wanted)) == expected


@settings(max_examples=examples(200))
@given(st.data())
def test_damage_is_a_format_error(data: st.DataObject) -> None:
    """Whatever is done to the bytes of a block, nothing but a FormatError comes out."""
    schema = record("r", a="long", b=data.draw(schemas(name="r_b")), c="string", d=data.draw(schemas(name="r_d")))
    whole = avro_file(schema, data.draw(st.lists(values(schema), min_size=1, max_size=4)), "null")
    ((count, block),) = read_container(whole, "p").blocks()
    changed = bytearray(block)
    for position, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(block) - 1), st.integers(0, 255)), max_size=4)
    ):
        changed[position] = byte
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    for wanted in ("abcd", "bd", "c"):
        try:
            assert len(rows(container(schema, [(count, cut)]), *map(Want, wanted))) == count
        except FormatError as error:
            assert str(error).startswith("p: expected ")


def test_every_cut_of_a_block_is_noticed() -> None:
    schema = record("r", a="long", b="string", c=nullable({"type": "array", "items": ["null", "long"]}), d="bytes")
    records = [{"a": 1 << n * 6, "b": "x" * n, "c": [n, None, 300], "d": bytes(n)} for n in range(10)]
    ((count, block),) = read_container(avro_file(schema, records, "null"), "p").blocks()
    for wanted in ("", "a", "b", "c", "d", "abcd"):
        for end in range(len(block)):
            with pytest.raises(FormatError):
                rows(container(schema, [(count, block[:end])]), *map(Want, wanted))
        with pytest.raises(FormatError):
            rows(container(schema, [(count, block + b"\0")]), *map(Want, wanted))


# Wanted fields

NESTED = record(
    "r",
    a="int",
    inner=record("r_inner", x="long", y="string", z=nullable("bytes")),
    list={"type": "array", "items": nullable(record("r_list", k="string", v="int"))},
    names={"type": "array", "items": "string"},
)
NESTED_RECORD = {
    "a": 1,
    "inner": {"x": 2, "y": "three", "z": None},
    "list": [{"k": "one", "v": 1}, {"k": "two", "v": 2}],
    "names": ["m", "n"],
}
NESTED_WANTS = (
    Want("names", "strings"),
    Want("inner", "record", required=True, fields=(Want("z", "bytes"), Want("x", "int"), Want("none", "int"))),
    Want("list", "records", fields=(Want("v", "int", required=True),)),
    Want("later", "record", fields=(Want("x", "int"),)),
)


def test_nested_fields() -> None:
    expected = (("m", "n"), (None, 2, None), ((1,), (2,)), None)
    assert rows(avro_file(NESTED, [NESTED_RECORD]), *NESTED_WANTS) == [expected]
    assert project(NESTED_RECORD, NESTED_WANTS, "p") == expected


def test_branches_in_either_order() -> None:
    for union in (["null", "long"], ["long", "null"], ["string", "null", "long"]):
        body = avro_file(record("r", a=union), [{"a": 5}, {"a": None}])
        assert rows(body, Want("a")) == [(5,), (None,)]


def test_nullable_root_records() -> None:
    body = avro_file(nullable(NESTED), [NESTED_RECORD])
    assert rows(body, Want("a", "int", required=True)) == [(1,)]
    with pytest.raises(FormatError, match="null in record"):
        rows(avro_file(nullable(NESTED), [None]), Want("a"))


def test_named_types_are_found_again() -> None:
    """pypaimon names a record once and refers to it afterwards."""
    inner = {**record("Stats", x="long"), "namespace": "n.s"}
    schema = {**record("r", a=inner, b=nullable("n.s.Stats"), c="n.s.Stats"), "namespace": "other"}
    body = avro_file(schema, [{"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}])
    wants = [Want(name, "record", fields=(Want("x", "int"),)) for name in "abc"]
    assert rows(body, *wants) == [((1,), (2,), (3,))]
    same = {**record("r", a=record("Stats", x="long"), b="Stats"), "namespace": "n"}
    assert rows(avro_file(same, [{"a": {"x": 1}, "b": {"x": 2}}]), Want("b")) == [({"x": 2},)]


@pytest.mark.parametrize(
    ("schema", "want", "message"),
    [
        (record("r", a="string"), Want("a", "int"), "expected int in a, found string"),
        (record("r", a=["null", "string"]), Want("a", "int"), "expected int in a, found string"),
        (record("r", a="long"), Want("a", "string"), "expected string in a, found long"),
        (record("r", a="string"), Want("a", "bytes"), "expected bytes in a, found string"),
        (record("r", a="string"), Want("a", "strings"), "expected strings in a, found string"),
        (record("r", a={"type": "array", "items": "long"}), Want("a", "strings"), "expected string in a, found long"),
        (record("r", a="long"), Want("a", "record"), "expected record in a, found long"),
        (record("r", a="long"), Want("b", "int", required=True), "expected the field b, found nothing"),
        ("long", Want("b", "int"), "expected record in record, found long"),
    ],
)
def test_wanted_fields_of_another_type(schema: Schema, want: Want, message: str) -> None:
    """Found in the schema, before any record, and for every file anew: a failure is not kept."""
    for _ in range(2):
        with pytest.raises(FormatError, match=rf"^p: {message}$"):
            rows(container(schema, []), want)


def test_a_required_field_is_never_null() -> None:
    body = avro_file(record("r", a=nullable("long")), [{"a": 1}, {"a": None}])
    with pytest.raises(FormatError, match="null in a"):
        rows(body, Want("a", "int", required=True))
    body = avro_file(record("r", a={"type": "array", "items": ["null", "string"]}), [{"a": ["x", None]}])
    with pytest.raises(FormatError, match="null in a"):
        rows(body, Want("a", "strings"))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, Want("a", "int", required=True)),
        ("1", Want("a", "int")),
        (True, Want("a", "int")),
        (["a", None], Want("a", "strings")),
        ([None], Want("a", "records")),
        (5, Want("a", "record")),
        ("text", Want("a", "bytes")),
    ],
)
def test_projecting_a_record_that_does_not_fit(value: object, want: Want) -> None:
    with pytest.raises(FormatError, match=r"^p: expected "):
        project({"a": value}, (want,), "p")


# Hostile bytes

LONGS = {"type": "array", "items": "long"}


@pytest.mark.parametrize(
    ("schema", "block"),
    [
        ("long", b"\xff" * 1_000_000),
        ("long", b"\xff" * 9 + b"\x7f"),
        ("bytes", long(1 << 30)),
        ("bytes", long(-5) + b"abcd"),
        ("string", long(2) + b"\xff\xfe"),
        ("string", long((1 << 63) - 1) + b"ab"),
        (LONGS, long(1 << 40)),
        (LONGS, long(-(1 << 40)) + long(8) + b"\0"),
        (LONGS, long(-1) + long(-50) + b"\0\0"),
        (LONGS, long(1) + b"\0"),
        ({"type": "map", "values": "long"}, long(1 << 40)),
        ({"type": "map", "values": "null"}, long(1 << 40)),
        ({"type": "fixed", "name": "f", "size": 2**31 - 1}, b"abc"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, long(1)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, long(-1)),
        (["null", "long"], long(2)),
        (["null", "long"], long(-1)),
        ("double", b"1234567"),
        ("float", b""),
        ("boolean", b""),
    ],
)
def test_impossible_values(schema: Schema, block: bytes) -> None:
    started = time.process_time()
    tracemalloc.start()
    body = container(record("r", a=schema, b="long"), [(1, block or b"\0")])
    with pytest.raises(FormatError):
        rows(body, Want("a"), Want("b"))
    if schema != "string" and not isinstance(schema, dict):  # Stepping over a text or an enum does not look at it.
        with contextlib.suppress(FormatError):
            rows(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20
    assert time.process_time() - started < 5


def doubling(levels: int) -> Schema:
    """Each record holds the previous one twice, so that a small schema unfolds into a huge one."""
    schema: Schema = record("r0", x="null")
    for level in range(1, levels):
        schema = record(f"r{level}", a=schema, b=f"r{level - 1}")
    return schema


def deep(levels: int, kind: str, item: str) -> Schema:
    schema: Schema = "long"
    for _ in range(levels):
        schema = {"type": kind, item: schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        record("r", next=nullable("r")),
        record("r", children={"type": "array", "items": "r"}),
        doubling(20),
        deep(MAX_COLLECTION_DEPTH + 1, "array", "items"),
        deep(MAX_COLLECTION_DEPTH + 1, "map", "values"),
        record("r", **{f"f{number}": "long" for number in range(MAX_TYPES)}),
        record("r", a={"type": "array", "items": "null"}),
        record("r", a={"type": "array", "items": record("empty")}),
        record("r", a={"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
    ],
)
def test_schemas_that_no_writer_has(schema: Schema) -> None:
    started = time.process_time()
    with pytest.raises(UnsupportedFormatError, match=r"^p: the writer's schema: expected ") as raised:
        rows(container(record("root", a=schema), [(1, b"\0")]), Want("a"))
    assert raised.value.code == "unsupported_schema"
    assert time.process_time() - started < 2


def test_the_deepest_schema_compiles() -> None:
    for kind, item in (("array", "items"), ("map", "values")):
        schema = record("r", a=deep(MAX_COLLECTION_DEPTH, kind, item), b=deep(MAX_COLLECTION_DEPTH, kind, item))
        assert rows(container(schema, [(1, b"\0\0")]), Want("a"))


@pytest.mark.parametrize(
    "schema",
    [
        "unknown",
        5,
        None,
        [],
        {},
        {"type": None},
        {"type": "record"},
        {"type": "record", "name": "r"},
        {"type": "record", "name": "r", "fields": [5]},
        {"type": "record", "name": "r", "fields": [{"type": "long"}]},
        {"type": "record", "name": "r", "fields": [{"name": "a"}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}] * 2},
        {"type": "record", "name": 5, "fields": []},
        {"type": "fixed", "name": "f", "size": -1},
        {"type": "fixed", "name": "f", "size": 1 << 40},
        {"type": "enum", "name": "e", "symbols": [1]},
        {"type": "array"},
        {"type": "array", "items": "unknown"},
        ["null"] * 100,
    ],
    ids=repr,
)
def test_damaged_schemas(schema: Schema) -> None:
    with pytest.raises((FormatError, UnsupportedFormatError), match=r"^p: "):
        rows(container({"type": "record", "name": "root", "fields": [{"name": "a", "type": schema}]}, []), Want("a"))


def test_hostile_names_stay_out_of_the_code() -> None:
    """Names and symbols of the file are constants of the generated code, never part of it."""
    name = 'a\'); raise SystemExit(\'\n"""\\'
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": "long"}, {"name": "b", "type": "string"}],
    }
    enum = {"type": "enum", "name": "e", "symbols": [name]}
    root = {"type": "record", "name": "root", "fields": [{"name": "x", "type": schema}, {"name": "y", "type": enum}]}
    assert rows(container(root, [(1, b"\x02\x02z\x00")]), Want("x"), Want("y")) == [({name: 1, "b": "z"}, name)]


def test_floats_are_read_bit_by_bit() -> None:
    body = avro_file(record("r", a="double", b="float"), [{"a": math.nan, "b": math.inf}])
    ((a, b),) = rows(body, Want("a"), Want("b"))
    assert math.isnan(a) and b == math.inf


@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.sampled_from(["record", "array", "long"]),
        lambda s: (
            st.lists(s)
            | st.dictionaries(
                st.sampled_from(["type", "items", "values", "fields", "name", "size", "symbols", "namespace"]), s
            )
        ),
    )
)
def test_any_json_for_a_schema(schema: object) -> None:
    try:
        json.dumps(schema).encode("utf-8")
        rows(container(schema, [(1, b"\0")]), Want("a"))
    except (FormatError, UnsupportedFormatError):
        pass


def test_a_time_of_orc_is_the_number_that_avro_has() -> None:
    """Also before 1970, and with a zone, as fastavro reads it."""
    want = Want("t", "int")
    for text, milliseconds in (("2025-05-19T15:56:54.955", 1747670214955), ("1969-12-31T23:59:59.999", -1)):
        naive = datetime.fromisoformat(text)
        assert project({"t": naive}, (want,), "p") == (milliseconds,)
        assert project({"t": naive.replace(tzinfo=UTC)}, (want,), "p") == (milliseconds,)
