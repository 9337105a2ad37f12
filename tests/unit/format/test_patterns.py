"""Decoders with patterns return what the careful decoder returns, whatever a block holds."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.format.avro import patterns
from lakesweep.format.avro.container import read_container
from lakesweep.format.avro.decoder_source import BrokenRecordError, DecoderWriter, long_tail
from lakesweep.format.avro.patterns import PatternDecoder, UnusualError
from lakesweep.format.avro.schema import parse_avro_schema
from lakesweep.format.avro.wants import Want
from tests.support.sampling import examples

from .random_records import schemas, values
from .samples import Schema, avro_file, nullable, record

Rows = Callable[[bytes, int], list[tuple[Any, ...]]]

FILE = record(
    "file",
    title="string",
    size="long",
    level="int",
    low="bytes",
    nulls=nullable({"type": "array", "items": nullable("long")}),
    extras={"type": "array", "items": "string"},
    index=nullable("bytes"),
    source=nullable("int"),
    columns=nullable({"type": "array", "items": "string"}),
)
ENTRY = record("entry", version="int", kind="int", partition="bytes", file=FILE, last=nullable("double"))
WANTS = (
    Want("version", "int", required=True),
    Want("partition", "bytes", required=True),
    Want("missing", "int"),
    Want(
        "file",
        "record",
        required=True,
        fields=(
            Want("columns", "strings"),
            Want("title", "string", required=True),
            Want("size", "int", required=True),
            Want("level", "natural", required=True),
            Want("extras", "strings", required=True),
            Want("index", "bytes"),
            Want("source", "int", required=True),
        ),
    ),
)


def decoders(schema: Schema, wants: tuple[Want, ...]) -> tuple[PatternDecoder, Rows]:
    root, want = parse_avro_schema(schema, "p"), Want("record", "record", required=True, fields=wants)
    writer = DecoderWriter()
    namespace: dict[str, Any] = {
        "tail": long_tail,
        "unpack_from": struct.unpack_from,
        "Broken": BrokenRecordError,
        "constants": tuple(writer.constants),
    }
    exec(writer.decoder(root, want), namespace)
    return PatternDecoder(root, want, namespace["decode"]), namespace["decode"]


def blocks(schema: Schema, records: list[Any], size: int = 1_000_000) -> list[tuple[int, bytes]]:
    return list(read_container(avro_file(schema, records, "null", sync_interval=size), "p").blocks())


def outcome(decode: Rows, block: bytes, count: int) -> Any:
    try:
        return decode(block, count)
    except (IndexError, ValueError, OverflowError) as error:
        return type(error), str(error)


def entry(name: str = "data-1", **fields: Any) -> dict[str, Any]:
    file = {"title": name, "size": 5, "level": 300, "low": b"x" * 70, "nulls": [0, None], "extras": [], "source": 0}
    file |= {"index": None, "columns": None}
    return {"version": 2, "kind": 0, "partition": b"p", "last": None, "file": file | fields}


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "WARM_UP", 0)


@settings(max_examples=examples(30))
@given(st.data())
def test_equals_the_careful_decoder_on_any_records(data: st.DataObject) -> None:
    """Random entries, in many blocks: the rows are those of the careful decoder."""
    fast, careful = decoders(ENTRY, WANTS)
    for count, block in blocks(ENTRY, data.draw(st.lists(values(ENTRY), max_size=30)), 400):
        assert outcome(fast, block, count) == outcome(careful, block, count)


@settings(max_examples=examples(30))
@given(st.data())
def test_equals_the_careful_decoder_on_any_schema(data: st.DataObject) -> None:
    """Random schemas, of which two plain fields are wanted."""
    schema = record("r", a="long", b=data.draw(schemas(name="r_b")), c="string", d=data.draw(schemas(name="r_d")))
    fast, careful = decoders(schema, (Want("c", "string", required=True), Want("a", "int")))
    for count, block in blocks(schema, data.draw(st.lists(values(schema), max_size=12)), 200):
        assert outcome(fast, block, count) == outcome(careful, block, count)


@settings(max_examples=examples(50))
@given(st.data())
def test_equals_the_careful_decoder_on_damage(data: st.DataObject) -> None:
    """A block is damaged after its like was learned: rows or error are those of the careful decoder."""
    fast, careful = decoders(ENTRY, WANTS)
    records = data.draw(st.lists(values(ENTRY), min_size=1, max_size=8))
    ((count, block),) = blocks(ENTRY, records)
    for _ in range(data.draw(st.integers(0, 2))):
        outcome(fast, block, count)
    for _ in range(4):
        changed = bytearray(block)
        edits = st.tuples(st.integers(0, len(block) - 1), st.integers(0, 255))
        for position, byte in data.draw(st.lists(edits, max_size=4)):
            changed[position] = byte
        cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
        claimed = data.draw(st.sampled_from((count, count - 1, count + 1)))
        assert outcome(fast, cut, claimed) == outcome(careful, cut, claimed)


def test_usual_records_match_without_the_careful_decoder() -> None:
    """Once a pattern knows the lengths of a table, the careful decoder reads nothing more."""
    fast, careful = decoders(ENTRY, WANTS)
    records = [entry(f"data-{number:02}", size=number * 1000, source=number % 2) for number in range(40)]
    ((count, block),) = blocks(ENTRY, records)
    expected = careful(block, count)
    assert fast(block, count) == expected
    fast.careful = lambda block, count: pytest.fail("the careful decoder was asked")
    assert fast(block, count) == expected


def test_a_branch_that_was_only_begun_never_matches() -> None:
    """A record breaks off within a branch that no other record has; the pattern takes no bytes for that branch."""
    fast, careful = decoders(ENTRY, WANTS)
    ((count, block),) = blocks(ENTRY, [entry()])
    assert block[-1:] == b"\x00"
    begun = block[:-5] + b"\x02" + b"\x81" * 12  # the branch of `index`, with an impossible length
    assert outcome(fast, begun, count) == outcome(careful, begun, count)
    assert fast(block, count) == careful(block, count)
    without = block[:-5] + b"\x02" + block[-4:]
    assert outcome(fast, without, count) == outcome(careful, without, count)


def test_a_number_below_zero_is_refused_where_a_natural_one_is_wanted() -> None:
    """The pattern matches numbers from 0 only, so the careful decoder refuses the others."""
    fast, careful = decoders(ENTRY, WANTS)
    for level in (0, 1, 63, 64, 2**31 - 1):
        ((count, block),) = blocks(ENTRY, [entry(level=level)])
        assert fast(block, count) == careful(block, count)
    for level in (-1, -65, -(2**31)):
        ((count, block),) = blocks(ENTRY, [entry(level=level)])
        with pytest.raises(BrokenRecordError, match=r"^a negative number in level$"):
            fast(block, count)


@pytest.mark.parametrize("level", [b"\x80" * 9 + b"\x02", b"\xfe" + b"\xff" * 8 + b"\x7f"])
def test_a_natural_number_beyond_64_bits_is_refused(level: bytes) -> None:
    """It takes ten bytes, as the largest number does; so the careful decoder reads all numbers of ten bytes."""
    fast, careful = decoders(ENTRY, WANTS)
    ((count, block),) = blocks(ENTRY, [entry(level=300)])
    assert fast(block, count) == careful(block, count)
    assert block.count(b"\xd8\x04") == 1
    for number, refused in ((level, True), (b"\xfe" + b"\xff" * 8 + b"\x01", False)):
        changed = block.replace(b"\xd8\x04", number)
        assert outcome(fast, changed, count) == outcome(careful, changed, count)
        assert isinstance(outcome(fast, changed, count), tuple) is refused


def test_lengths_that_never_repeat_turn_patterns_off() -> None:
    """Where each record has lengths of its own, the careful decoder reads all, after some tries."""
    fast, careful = decoders(ENTRY, WANTS)
    records = [entry("n" * (1 + number), low=b"x" * (number * 7 % 3000)) for number in range(2000)]
    for count, block in blocks(ENTRY, records, 20_000):
        assert fast(block, count) == careful(block, count)
    asked: list[int] = []
    fast.careful = lambda block, count: asked.append(count) or careful(block, count)
    ((count, block),) = blocks(ENTRY, records[:50])
    assert fast(block, count) == careful(block, count)
    assert asked == [50]


def test_items_of_arrays_are_bounded_as_in_the_careful_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with more names in arrays than allowed is refused with the same words."""
    ((count, block),) = blocks(ENTRY, [entry(extras=["a", "b"]) for _ in range(50)])
    fast, careful = decoders(ENTRY, WANTS)
    assert fast(block, count) == careful(block, count)
    monkeypatch.setattr(patterns, "MAX_ITEMS", 99)
    asked: list[int] = []
    fast.careful = lambda block, count: asked.append(count) or []
    assert fast(block, count) == []
    assert asked == [50]


def test_items_of_records_that_do_not_match_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record of each form is read alone; its names count like the others."""
    monkeypatch.setattr(patterns, "MAX_ITEMS", 99)
    ((count, block),) = blocks(ENTRY, [entry(extras=["a"] * (60 + number)) for number in range(2)])
    fast, _ = decoders(ENTRY, WANTS)
    asked: list[int] = []
    fast.careful = lambda block, count: asked.append(count) or [()]
    assert len(fast(block, count)) == 1
    assert asked[-1] == count


def test_a_pattern_is_never_huge() -> None:
    """Arrays in arrays of many sizes would multiply to a pattern of 100 MB."""
    lists = {"type": "array", "items": {"type": "array", "items": "long"}}
    schema = record("r", lists=lists, title="string")
    fast, careful = decoders(schema, (Want("title", "string", required=True),))
    sizes = [[[]] * number for number in range(50)]
    records = [{"lists": [*size, [1] * number], "title": "a"} for number, size in enumerate(sizes)]
    ((count, block),) = blocks(schema, records)
    tracemalloc.start()
    for _ in range(20):
        assert fast(block, count) == careful(block, count)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    asked: list[int] = []
    fast.careful = lambda block, count: asked.append(count) or careful(block, count)
    assert fast(block, count) == careful(block, count)
    assert asked == [count]


def test_there_is_no_pattern_for_nested_values() -> None:
    """Wanted arrays of records, and fields of any type, are left to the careful decoder."""
    inner = {"type": "array", "items": record("item", f0="string")}
    for want in (Want("x", "records", fields=(Want("f0", "string"),)), Want("x")):
        with pytest.raises(UnusualError):
            decoders(record("r", x=inner), (want,))
