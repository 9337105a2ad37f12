"""Binary rows: bytes that Java and pypaimon wrote, and bytes that nobody should."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import parse_data_type
from tests.unit.format.row_samples import ONE, VERIFIED


def decode(types: tuple[str, ...], data: bytes) -> tuple[object, ...]:
    return decode_row(data, [parse_data_type(type_, "p") for type_ in types], "p")


@pytest.mark.parametrize(("types", "text", "values"), VERIFIED)
def test_verified_bytes(types: tuple[str, ...], text: str, values: tuple[object, ...]) -> None:
    found = decode(types, bytes.fromhex(text))
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


@pytest.mark.parametrize(("types", "text", "values"), VERIFIED)
def test_every_cut_of_them(types: tuple[str, ...], text: str, values: tuple[object, ...]) -> None:
    """Only padding, and space reserved for null, may be missing."""
    data = bytes.fromhex(text)
    for end in range(len(data)):
        try:
            assert decode(types, data[:end]) == values
        except FormatError as error:
            assert str(error).startswith("p: expected a row of ")


def test_57_fields_take_a_second_word_of_null_bits() -> None:
    for arity in (56, 57):
        words = 8 if arity == 56 else 16
        nulls = bytearray(words)
        nulls[(arity - 1 + 8) // 8] |= 1 << (arity - 1 + 8) % 8
        data = arity.to_bytes(4, "big") + bytes(nulls) + b"".join(n.to_bytes(8, "little") for n in range(arity))
        assert decode(("BIGINT",) * arity, data) == (*range(arity - 1), None)


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (("INT",), ""),
        (("INT",), "000001"),
        (("INT",), "00000002 00000000 00000000 0a000000 00000000 0a000000 00000000"),
        (("INT",), "00000000 00000000 00000000"),
        ((), ONE + "0a000000 00000000"),
        (("INT",), "ffffffff 00000000 00000000"),
        (("INT",), ONE + "0a0000"),
        (("STRING",), ONE + "61626364 65666788"),
        (("STRING",), ONE + "61626364 656667ff"),
        (("STRING",), ONE + "09000000 10000000 61626364 65666768"),
        (("STRING",), ONE + "08000000 11000000 61626364 65666768"),
        (("STRING",), ONE + "ffffff7f ffffff7f"),
        (("STRING",), ONE + "ffffffff 10000000"),
        (("STRING",), ONE + "ff000000 00000081"),
        (("DECIMAL(20, 2)",), ONE + "00000000 10000000 " + "00" * 16),
        (("DECIMAL(20, 2)",), ONE + "11000000 10000000 " + "00" * 24),
        (("DECIMAL(20, 2)",), ONE + "10000000 10000000 7f" + "ff" * 15),
        (("DECIMAL(3, 0)",), ONE + "ffffffff 00000000"),
        (("TIMESTAMP(6)",), ONE + "40420f00 10000000 00000000 00000000"),
        (("TIMESTAMP(6)",), ONE + "00000000 18000000 00000000 00000000"),
    ],
)
def test_no_rows(types: tuple[str, ...], text: str) -> None:
    with pytest.raises(FormatError, match=r"^p: expected a row of .*, found "):
        decode(types, bytes.fromhex(text))


@pytest.mark.parametrize("type_", ["VARIANT", "BLOB", {"type": "ARRAY", "element": "INT"}])
def test_types_that_are_no_partition_keys(type_: object) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"^p: expected a type that partition keys have"):
        decode_row(bytes(20)[:3] + b"\1" + bytes(16), [parse_data_type(type_, "p")], "p")


TYPES = (
    "INT",
    "STRING",
    "BYTES",
    "DECIMAL(5, 2)",
    "DECIMAL(38, 9)",
    "TIMESTAMP(3)",
    "TIMESTAMP(9)",
    "BOOLEAN",
    "DOUBLE",
)


@given(st.lists(st.sampled_from(TYPES), max_size=4).map(tuple), st.binary(max_size=80))
def test_nothing_else_is_raised(types: tuple[str, ...], data: bytes) -> None:
    for row in (data, len(types).to_bytes(4, "big") + data):
        with contextlib.suppress(FormatError):
            assert len(decode(types, row)) == len(types)


@given(st.text(), st.text())
def test_texts_of_any_length(first: str, second: str) -> None:
    slots, variable = b"", b""
    for text in (first.encode(), second.encode()):
        if len(text) <= 7:
            slots += text.ljust(7, b"\0") + bytes((0x80 | len(text),))
        else:
            slots += (((24 + len(variable)) << 32) | len(text)).to_bytes(8, "little")
            variable += text + bytes(-len(text) % 8)
    row = (2).to_bytes(4, "big") + bytes(8) + slots + variable
    assert decode(("STRING", "STRING"), row) == (first, second)
