"""Spills: what comes out is what went in, or an error."""

import json
import random
import zlib
from hashlib import blake2b
from typing import Any

import pytest

from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.operations.orphans.fan_out import spill as module
from lakesweep.operations.orphans.fan_out.spill import HEAD_BYTES, SLOTS, Spill, SpillWriter, head_of, read_slots
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import delete_all
from tests.support.memory_store import MemoryStore


def hashed(number: int) -> bytes:
    return blake2b(b"%d" % number, digest_size=16).digest()


def written(count: int, *, packed: bool = False, info: dict[str, Any] | None = None) -> bytes:
    writer = SpillWriter(packed)
    for number in range(count):
        writer.add(hashed(number), hashed(number) + b"%d;" % number)
    assert writer.rows == count
    return writer.to_bytes(info or {})


def stored(data: bytes) -> tuple[MemoryStore, RequestCounter]:
    counter = RequestCounter()
    store = MemoryStore(counter=counter)
    store.put("a/b", data)
    return store, counter


def everything(store: MemoryStore) -> tuple[Any, list[bytes]]:
    spill = head_of(store, "a/b")
    return spill.info, list(read_slots(store, "a/b", spill))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 256, 5000])
def test_rows_come_back_in_their_slots(count: int, packed: bool) -> None:
    """Whole rows, in the order in which they were added, one request for the head and one for any range of slots."""
    info = {"manifests": ["a", "\udcff/ü"], "totals": {"n": 2**60}}
    data = written(count, packed=packed, info=info)
    store, counter = stored(data)
    spill = head_of(store, "a/b")
    assert counter.snapshot()["get"] == 1
    assert spill.info == info
    assert (spill.rows, spill.begin + sum(spill.slot_lengths)) == (count, len(data))
    expected = [b""] * SLOTS
    for number in range(count):
        expected[hashed(number)[0]] += hashed(number) + b"%d;" % number
    assert list(read_slots(store, "a/b", spill)) == expected
    assert counter.snapshot()["get"] == 1 + (count > 0)
    for first, end in [(0, 1), (3, 200), (255, 256), (17, 17), (256, 256)]:
        before = counter.snapshot()["get"]
        assert list(read_slots(store, "a/b", spill, first, end)) == expected[first:end]
        assert counter.snapshot()["get"] == before + any(expected[first:end])


@pytest.mark.parametrize("packed", [False, True])
def test_a_spill_is_what_its_json_says(packed: bool) -> None:
    """Without facts, and short: a scan keeps hundreds of them."""
    store, _ = stored(written(5000, packed=packed, info={"a": 1}))
    spill = head_of(store, "a/b")
    text = json.dumps(spill.to_json())
    assert len(text) < 3000
    again = Spill.from_json(json.loads(text), "state")
    assert again == spill
    assert again.info == {}
    assert list(read_slots(store, "a/b", again)) == list(read_slots(store, "a/b", spill))


def test_equal_rows_and_facts_make_equal_spills() -> None:
    assert written(100, info={"a": [1, None]}) == written(100, info={"a": [1, None]})
    assert written(100) != written(101)


def test_a_long_head_takes_two_requests() -> None:
    """Thousands of names, which hardly get smaller."""
    names = [hashed(number).hex() for number in range(5000)]
    data = written(1000, info={"manifests": names})
    store, counter = stored(data)
    info, blocks = everything(store)
    assert info["manifests"] == names
    assert sum(map(len, blocks)) > 16_000
    assert counter.snapshot()["get"] == 3
    spill = head_of(store, "a/b")
    assert spill.begin + sum(spill.slot_lengths) == len(data)


def test_many_rows_are_quick_and_small() -> None:
    """What one task has at most: 300 000 rows of 29 bytes."""
    writer = SpillWriter(packed=False)
    rows = [hashed(number) + bytes(13) for number in range(1000)]
    for _ in range(300):
        for row in rows:
            writer.add(row, row)
    assert writer.rows == 300_000
    data = writer.to_bytes({})
    slots = sum(rows > 0 for rows in head_of(stored(data)[0], "a/b").slot_rows)
    assert len(data) == HEAD_BYTES + 300_000 * 29 + 8 * slots


def test_missing_and_denied_are_told_apart_from_damage() -> None:
    store = MemoryStore()
    with pytest.raises(ObjectNotFoundError):
        head_of(store, "a/b")
    store, _ = stored(written(10))
    spill = head_of(store, "a/b")
    store.delete(delete_all(["a/b"]))
    with pytest.raises(ObjectNotFoundError):
        list(read_slots(store, "a/b", spill))

    class Denying(MemoryStore):
        def read_range(self, key: str, start: int, length: int) -> Any:
            raise StorageError("no", code="broken")

    with pytest.raises(StorageError) as error:
        head_of(Denying(), "a/b")
    assert error.value.code == "broken"


@pytest.mark.parametrize("packed", [False, True])
def test_every_flipped_bit_is_noticed(packed: bool) -> None:
    """In the frame each one, elsewhere many hundreds; also in the zeros that fill the head."""
    data = written(400, packed=packed, info={"manifests": ["one", "two"]})
    chosen = random.Random(5)
    bits = [*range(8 * 64), *(chosen.randrange(8 * len(data)) for _ in range(600))]
    bits += [8 * len(data) - 1, 8 * HEAD_BYTES, 8 * HEAD_BYTES - 1]
    for bit in bits:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError) as error:
            everything(stored(bytes(damaged))[0])
        assert "memory://x/a/b" in str(error.value)


@pytest.mark.parametrize("packed", [False, True])
def test_every_cut_is_noticed(packed: bool) -> None:
    data = written(400, packed=packed)
    chosen = random.Random(6)
    for length in [0, 1, 25, 26, HEAD_BYTES - 1, HEAD_BYTES, len(data) - 1, *chosen.choices(range(len(data)), k=60)]:
        with pytest.raises(FormatError):
            everything(stored(data[:length])[0])


def test_a_block_is_of_its_slot_and_its_spill() -> None:
    """Blocks of equal length that changed places, within a spill and between two."""
    writer = SpillWriter(packed=False)
    for slot in (3, 4):
        writer.add(bytes([slot]), b"row of %d" % slot)
    data = bytearray(writer.to_bytes({}))
    length = (len(data) - HEAD_BYTES) // 2
    first, second = data[HEAD_BYTES : HEAD_BYTES + length], data[HEAD_BYTES + length :]
    with pytest.raises(FormatError):
        everything(stored(bytes(data[:HEAD_BYTES] + second + first))[0])
    one, two = written(50, info={"task": 1}), written(50, info={"task": 2})
    assert len(one) == len(two)
    with pytest.raises(FormatError):
        everything(stored(one[:HEAD_BYTES] + two[HEAD_BYTES:])[0])
    store, _ = stored(one)
    spill = head_of(store, "a/b")
    store.put("a/b", two)  # the head was read before
    with pytest.raises(FormatError):
        list(read_slots(store, "a/b", spill))


def framed(head: bytes, *, magic: bytes = b"LSSP", version: int = 1, length: int | None = None) -> bytes:
    head += bytes(max(0, HEAD_BYTES - 26 - len(head)))
    digest = blake2b(head, digest_size=16, person=b"LSSP").digest()
    return module._FRAME.pack(magic, version, len(head) if length is None else length, digest) + head


def good_table() -> dict[str, Any]:
    return {"rows": [1] + [0] * 255, "lengths": [9] + [0] * 255, "unpacked": None}


def with_table(**words: Any) -> bytes:
    return framed(zlib.compress(json.dumps({"info": {}, "slots": good_table() | words}).encode()))


def test_such_a_head_is_read() -> None:
    """So the others of these tests fail for what they change."""
    assert head_of(stored(with_table())[0], "a/b").rows == 1


@pytest.mark.parametrize(
    "data",
    [
        framed(b"", version=2),
        framed(b"", magic=b"PAR1"),
        framed(b""),
        framed(b"", length=0),
        framed(b"", length=2**32 - 1),
        framed(zlib.compress(b"[]")),
        framed(zlib.compress(b"{}")),
        framed(zlib.compress(b"1")),
        framed(zlib.compress(b"[" * 100_000)),
        framed(zlib.compress(b"\xff\xfe")),
        framed(zlib.compress(json.dumps({"info": [], "slots": good_table()}).encode())),
        framed(zlib.compress(json.dumps({"info": {}, "slots": []}).encode())),
        with_table(rows=[1] * 255),
        with_table(rows=[1] * 257),
        with_table(rows=[2**70] + [0] * 255),
        with_table(rows=[-1] + [0] * 255),
        with_table(rows=[True] + [0] * 255),
        with_table(rows=[1.0] + [0] * 255),
        with_table(rows=["1"] + [0] * 255),
        with_table(rows="0" * 256),
        with_table(rows={str(number): 1 for number in range(256)}),
        with_table(rows=None),
        with_table(lengths=[2**62] * 256),
        with_table(lengths=[8] + [0] * 255),
        with_table(lengths=[0] * 256),
        with_table(rows=[0] * 256),
        with_table(unpacked=[0] * 256),
        with_table(unpacked=[2**40] + [0] * 255),
        with_table(unpacked=5),
    ],
)
def test_heads_that_say_something_else(data: bytes) -> None:
    """Nothing is allocated that a number in them asks for."""
    with pytest.raises(FormatError):
        everything(stored(data)[0])


def test_a_head_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNPACKED_HEAD_BYTES", 10_000)
    with pytest.raises(FormatError):
        everything(stored(framed(zlib.compress(b" " * 10_001)))[0])


def test_slots_unpack_to_what_their_head_says() -> None:
    """A compressed block that is much more, or less, than it should be, with every digest right."""
    for size in (1, 99, 101, 2000):
        block = zlib.compress(bytes(100), 1)
        table = {"rows": [1] + [0] * 255, "lengths": [len(block) + 8] + [0] * 255, "unpacked": [size] + [0] * 255}
        data = framed(zlib.compress(json.dumps({"info": {}, "slots": table}).encode()))
        digest = module._block_digest(data[10:26], 0, block)
        with pytest.raises(FormatError):
            everything(stored(data + digest + block)[0])


@pytest.mark.parametrize("word", ["begin", "digest", "rows", "lengths", "unpacked"])
@pytest.mark.parametrize("value", [None, 1, "", "%", "AAAA", [], {}, -1, 2**80, "eJwDAAAAAAE=", True])
def test_a_table_in_json_that_says_something_else(word: str, value: object) -> None:
    store, _ = stored(written(100, packed=True))
    document = head_of(store, "a/b").to_json()
    if word == "unpacked" and value is None:
        return
    with pytest.raises(FormatError):
        Spill.from_json(document | {word: value}, "state")
    with pytest.raises(FormatError):
        Spill.from_json({each: document[each] for each in document if each != word}, "state")


def test_slots_outside_are_a_mistake_of_the_caller() -> None:
    store, _ = stored(written(1))
    spill = head_of(store, "a/b")
    for first, end in [(-1, 3), (0, 257), (5, 4)]:
        with pytest.raises(ValueError):
            list(read_slots(store, "a/b", spill, first, end))
