"""JSON as the engine prints it. What is expected here was printed by Java."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.values.json_text import RawNumber, parse_raw, print_object


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "{ }"),
        ({"a": 1}, '{\n  "a" : 1\n}'),
        ({"a": None, "b": True, "c": "x"}, '{\n  "a" : null,\n  "b" : true,\n  "c" : "x"\n}'),
        ({"a": {}, "b": []}, '{\n  "a" : { },\n  "b" : [ ]\n}'),
        (
            {"a": [1, 2], "b": {"c": {"d": 1}}},
            '{\n  "a" : [ 1, 2 ],\n  "b" : {\n    "c" : {\n      "d" : 1\n    }\n  }\n}',
        ),
        (
            {"a": [{"b": 1}, {"c": [{}]}]},
            '{\n  "a" : [ {\n    "b" : 1\n  }, {\n    "c" : [ { } ]\n  } ]\n}',
        ),
        (
            {"u": 'q" \\ \x01\x1f\b\t\n\f\r\x7f\u2028 / \u00e9 \u6f22 \U0001f600'},
            '{\n  "u" : "q\\" \\\\ \\u0001\\u001F\\b\\t\\n\\f\\r\x7f\u2028 / \u00e9 \u6f22 \U0001f600"\n}',
        ),
    ],
)
def test_printed(document: dict[str, object], text: str) -> None:
    assert print_object(document, "p").decode() == text


@pytest.mark.parametrize("number", ["1", "-0", "1.50", "1E5", "1e+5", "123456789012345678901234567890", "0.10E-300"])
def test_numbers_stay_as_they_are(number: str) -> None:
    """No digit, sign or exponent changes on the way through."""
    document = parse_raw(b'{"a":[' + number.encode() + b"]}", "p")
    assert document == {"a": [RawNumber(number)]}
    assert print_object(document, "p").decode() == f'{{\n  "a" : [ {number} ]\n}}'


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"a":NaN}', b'{"a":1,}', b"\xff", b"[" * 100_000])
def test_no_objects(body: bytes) -> None:
    with pytest.raises(FormatError):
        parse_raw(body, "p")


def test_half_a_character() -> None:
    """JSON can spell it, UTF-8 cannot say it."""
    with pytest.raises(FormatError, match="expected text in Unicode"):
        print_object(parse_raw(rb'{"a":"\ud800"}', "p"), "p")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_printed_reads_the_same(document: dict[str, object]) -> None:
    printed = print_object(document, "p")
    assert json.loads(printed) == document
    assert print_object(parse_raw(printed, "p"), "p") == printed
