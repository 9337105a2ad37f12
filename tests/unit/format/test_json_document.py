"""JSON documents: what is read, and what a hostile one can do."""

import json
import time
import tracemalloc

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.values import json_document
from lakesweep.format.values.json_document import check_file_name, parse_object


def test_null_reads_as_absent() -> None:
    document = parse_object(b'{"a": null}', "p")
    assert json_document.get_int(document, "a", "p") is None
    assert json_document.get_str(document, "a", "p") is None
    assert json_document.get_list(document, "a", "p") == []
    assert json_document.get_object(document, "a", "p") == {}


def test_the_last_of_two_equal_keys_counts() -> None:
    assert parse_object(b'{"a": 1, "a": 2}', "p") == {"a": 2}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b'"a"',
        b"{} {}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 01}',
        b"{'a': 1}",
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": 1e99999999999999999999}',
        b'{"a": "\n"}',
    ],
)
def test_anything_else_is_damaged(body: bytes) -> None:
    with pytest.raises(FormatError, match=r"^some/path: expected .*, found "):
        parse_object(body, "some/path")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'{"a": [' + b"[" * 80 + b"]" * 80 + b"]}",
        b"[" + b"[]," * 5_000_000 + b"[]]",
        b'{"a": [' + b"0," * 6_000_000 + b"0]}",
        b'"' * 10_000_000 + b"[" * 70,
        b'"\\"' * 5_000_000 + b"[" * 70,
        b" " * (json_document.MAX_BYTES + 1),
    ],
    ids=["arrays", "objects", "deep", "many arrays", "many numbers", "quotes", "escapes", "long"],
)
def test_a_bomb_is_refused_at_once(body: bytes) -> None:
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            parse_object(body, "p")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert time.process_time() - started < 5


def test_brackets_in_texts_do_not_nest() -> None:
    document = {"a": "[" * 500, "b": '"[' * 100, "c": [[]] * 100}
    assert parse_object(json.dumps(document).encode(), "p") == document


@pytest.mark.parametrize("value", ["true", "1.0", '"1"', "[1]", "9223372036854775808", "-9223372036854775809"])
def test_only_a_whole_number_of_64_bits_is_an_int(value: str) -> None:
    document = parse_object(f'{{"id": {value}}}'.encode(), "p")
    with pytest.raises(FormatError, match="p: expected a 64-bit integer in id, found"):
        json_document.get_int(document, "id", "p")


def test_64_bits_are_read_exactly() -> None:
    document = parse_object(b'{"a": 9223372036854775807, "b": -9223372036854775808}', "p")
    assert json_document.require_int(document, "a", "p") == 2**63 - 1
    assert json_document.require_int(document, "b", "p") == -(2**63)


def test_half_a_character_is_no_text() -> None:
    document = parse_object(rb'{"a": "\ud800", "b": "\ud83d\ude00"}', "p")
    with pytest.raises(FormatError):
        json_document.get_str(document, "a", "p")
    assert json_document.get_str(document, "b", "p") == "\U0001f600"


@pytest.mark.parametrize("name", ["manifest-1", "a b", "é", "..a", "a..", "$x", "a" * 1024, "data-\u00a0"])
def test_plain_file_names(name: str) -> None:
    assert check_file_name(name, "p", "f") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "/a",
        "../a",
        "a\0",
        "a\n",
        "\x7f",
        "\x85",
        "a" * 1025,
        "é" * 513,
        "\ud800",
        "a\u202e",
        "\ufeff",
    ],
)
def test_other_file_names_are_damage(name: str) -> None:
    with pytest.raises(FormatError, match=r"^p: expected a plain file name in f, found"):
        check_file_name(name, "p", "f")


def test_messages_stay_short() -> None:
    with pytest.raises(FormatError) as raised:
        json_document.check_str(["x" * 10_000], "p", "f")
    assert len(str(raised.value)) < 300
    with pytest.raises(FormatError) as raised:
        check_file_name("\n" * 10_000, "p", "f")
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)
