"""Schemas and column types."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.values.data_type import MAX_LENGTH, DataField, DataType, parse_data_type

DOCUMENT: dict[str, Any] = {
    "version": 3,
    "id": 2,
    "fields": [
        {"id": 0, "name": "k", "type": "INT NOT NULL"},
        {"id": 1, "name": "dt", "type": "STRING NOT NULL", "description": "a day"},
        {"id": 5, "name": "v", "type": {"type": "ARRAY", "element": "DECIMAL(23, 5)"}},
    ],
    "highestFieldId": 5,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "k"],
    "options": {"bucket": "2"},
    "comment": "c",
    "timeMillis": 7,
}


def schema(**changes: object) -> TableSchema:
    return parse_schema(json.dumps(DOCUMENT | changes).encode(), "schema/schema-2")


def test_a_schema() -> None:
    found = schema()
    assert (found.id, found.version, found.time_ms, found.comment) == (2, 3, 7, "c")
    assert found.partition_keys == ("dt",)
    assert found.primary_keys == ("dt", "k")
    assert found.partition_types == (DataType("VARCHAR", False, length=MAX_LENGTH),)
    assert found.fields[2] == DataField(
        5, "v", DataType("ARRAY", children=(DataType("DECIMAL", precision=23, scale=5),))
    )
    assert dict(found.options) == {"bucket": "2"}


@pytest.mark.parametrize("field", ["partitionKeys", "primaryKeys", "options", "version"])
def test_a_flipped_bit_in_the_name_of_a_field_is_not_its_absence(field: str) -> None:
    body = json.dumps(DOCUMENT).replace(f'"{field}"', f'"{field[:-1]}{chr(ord(field[-1]) ^ 1)}"')
    with pytest.raises(FormatError, match=f"expected the field {field}"):
        parse_schema(body.encode(), "schema/schema-2")


def test_options_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        schema().options["bucket"] = "3"  # type: ignore[index]


@pytest.mark.parametrize(
    ("version", "options", "read"),
    [
        (None, {}, {"bucket": "1", "file.format": "orc"}),
        (1, {"bucket": "4"}, {"bucket": "4", "file.format": "orc"}),
        (2, {}, {"file.format": "orc"}),
        (2, {"file.format": "avro"}, {"file.format": "avro"}),
        (3, {}, {}),
        (3, None, {}),
    ],
)
def test_what_old_versions_left_out(version: int | None, options: object, read: dict[str, str]) -> None:
    assert dict(schema(version=version, options=options).options) == read


def test_a_later_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="found version 4") as raised:
        schema(version=4)
    assert raised.value.code == "unsupported_version"


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"id": -1},
        {"fields": None},
        {"fields": []},
        {"fields": {}},
        {"fields": ["k INT"]},
        {"fields": [{"id": 0, "name": "k"}]},
        {"fields": [{"id": 0, "type": "INT"}]},
        {"fields": [{"id": "0", "name": "k", "type": "INT"}]},
        {"fields": [{"id": 0, "name": "k", "type": 5}]},
        {"fields": [DOCUMENT["fields"][0], DOCUMENT["fields"][0]]},
        {"partitionKeys": ["nowhere"]},
        {"partitionKeys": "dt"},
        {"partitionKeys": [1]},
        {"partitionKeys": ["dt", "dt"]},
        {"options": []},
        {"options": {"bucket": 1}},
        {"timeMillis": "now"},
        {"comment": 1},
    ],
    ids=repr,
)
def test_damaged_schemas(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"^schema/schema-2: expected "):
        schema(**changes)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("INT", DataType("INT")),
        ("int not null", DataType("INT", False)),
        (" INTEGER ", DataType("INT")),
        ("INT NULL", DataType("INT")),
        ("DOUBLE PRECISION", DataType("DOUBLE")),
        ("STRING", DataType("VARCHAR", length=MAX_LENGTH)),
        ("BYTES NOT NULL", DataType("VARBINARY", False, length=MAX_LENGTH)),
        ("VARCHAR(10)", DataType("VARCHAR", length=10)),
        ("CHAR", DataType("CHAR", length=1)),
        ("BINARY( 3 )", DataType("BINARY", length=3)),
        ("DECIMAL(5, 2)", DataType("DECIMAL", precision=5, scale=2)),
        ("NUMERIC(5)", DataType("DECIMAL", precision=5, scale=0)),
        ("DEC", DataType("DECIMAL", precision=10, scale=0)),
        ("TIME", DataType("TIME", precision=0)),
        ("TIME(3)", DataType("TIME", precision=3)),
        ("TIMESTAMP", DataType("TIMESTAMP", precision=6)),
        ("TIMESTAMP(9) NOT NULL", DataType("TIMESTAMP", False, precision=9)),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", DataType("TIMESTAMP", precision=3)),
        ("TIMESTAMP WITH LOCAL TIME ZONE", DataType("TIMESTAMP_LTZ", precision=6)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", DataType("TIMESTAMP_LTZ", False, precision=3)),
        ("TIMESTAMP_LTZ(3)", DataType("TIMESTAMP_LTZ", precision=3)),
        ("VARIANT", DataType("VARIANT")),
        ("BLOB NOT NULL", DataType("BLOB", False)),
        ("GEOMETRY(OGC:CRS84)", DataType("GEOMETRY")),
        ("VECTOR<FLOAT, 3>", DataType("VECTOR", length=3, children=(DataType("FLOAT"),))),
    ],
)
def test_atomic_types(text: str, type_: DataType) -> None:
    assert parse_data_type(text, "p") == type_


def test_nested_types() -> None:
    row = {"type": "ROW NOT NULL", "fields": [{"id": 1, "name": "a", "type": "DATE"}]}
    assert parse_data_type(row, "p") == DataType("ROW", False, fields=(DataField(1, "a", DataType("DATE")),))
    map_ = {"type": "map", "key": "INT", "value": row}
    assert parse_data_type(map_, "p") == DataType("MAP", children=(DataType("INT"), parse_data_type(row, "p")))
    vector = {"type": "VECTOR", "element": "FLOAT", "length": 8}
    assert parse_data_type(vector, "p") == DataType("VECTOR", length=8, children=(DataType("FLOAT"),))


@pytest.mark.parametrize("text", ["", "IMT", "INT(3)", "STRING(3)", "TIMESTAMP(3, 3)", "DECIMAL(x)", "DECIMAL(1,2,3)"])
def test_types_from_the_future_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"^p: expected a type that this version knows, found ") as raised:
        parse_data_type(text, "p")
    assert raised.value.code == "unsupported_type"


@pytest.mark.parametrize(
    "value", [None, 1, [], {}, {"type": "ARRAY"}, {"type": "ROW", "fields": 1}, {"type": 1}], ids=repr
)
def test_damaged_types(value: object) -> None:
    with pytest.raises((FormatError, UnsupportedFormatError), match=r"^p: expected "):
        parse_data_type(value, "p")


def test_endless_nesting_is_refused() -> None:
    value: object = "INT"
    for _ in range(50_000):
        value = {"type": "ARRAY", "element": value}
    with pytest.raises(FormatError, match="nested at most"):
        parse_data_type(value, "p")


@given(st.text() | st.from_regex(r"[A-Z_]{1,10} ?(\([0-9, ]{0,9}\))?( NOT NULL)?", fullmatch=True))
def test_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(FormatError, UnsupportedFormatError):
        assert isinstance(parse_data_type(text, "p"), DataType)
