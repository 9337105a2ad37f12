"""Deletion vectors: bytes that Paimon writes, read and written; damage and lies are errors, never other positions."""

import random
import struct
import sys
from array import array
from pathlib import Path

import numpy as np
import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.manifest import IndexEntry, VectorRange
from lakesweep.format.vectors.combined import union, without
from lakesweep.format.vectors.index_file import (
    IndexFileBytes,
    check_apart,
    end_of,
    read_at,
    read_index_file,
    widths_of,
    write_index_files,
)
from lakesweep.format.vectors.vector import DeletionVector, Width, read_vector, vector_of
from tests.support.metadata_files import encode_vectors
from tests.support.vector_bytes import (
    decode,
    decode_file,
    rows_set,
    some_positions,
    some_vectors,
    with_new_crc,
)

GOLDEN = Path(__file__).parent / "golden"
WIDTHS: tuple[Width, ...] = (32, 64)
PATH = "index/index-0"


def entry_of(file: IndexFileBytes, **changes: object) -> IndexEntry:
    entry = IndexEntry(
        b"", 0, "DELETION_VECTORS", "index-0", len(file.body), len(file.ranges), None, tuple(file.ranges)
    )
    return entry._replace(**changes)


def file_of(*positions: list[int], width: Width = 32) -> IndexFileBytes:
    vectors = ((f"data-{number}", vector_of(each, width)) for number, each in enumerate(positions))
    (file,) = write_index_files(vectors, None)
    return file


@pytest.mark.parametrize(
    ("positions", "width", "expected"),
    [
        ([], 32, "0000000c5e43f2d03a300000000000005de5c7e9"),
        ([1], 32, "000000165e43f2d03a3000000100000000000000100000000100fa2b5192"),
        ([0, 7], 32, "000000185e43f2d03a30000001000000000001001000000000000700" + "06fdfbb2"),
        (range(100), 32, "000000135e43f2d03b30000001000063000100000063007d77c5d7"),
        ([1], 64, "00000022d1d339640100000000000000000000003a300000010000000000000010000000" + "0100eebd85f4"),
    ],
)
def test_known_bytes(positions: list[int], width: Width, expected: str) -> None:
    """The bytes that the Java engine wrote for some positions."""
    vector = vector_of(positions, width)
    assert vector.blob.hex() == expected
    assert list(read_vector(bytes.fromhex(expected), vector.length, PATH).positions()) == list(positions)


@pytest.mark.parametrize("width", WIDTHS)
def test_files_of_the_engine(width: Width) -> None:
    """A whole file that the Java engine wrote: read, and written again with the same bytes."""
    body = (GOLDEN / f"dvindex-{width}").read_bytes()
    wanted = golden_positions(width)
    mine = file_of(*wanted, width=width)
    assert mine.body == body
    read = read_index_file(body, entry_of(mine), PATH)
    assert [list(vector.positions()) for vector in read] == wanted
    assert {vector.width for vector in read} == {width}


def golden_positions(width: Width) -> list[list[int]]:
    """What the vectors of the golden files hold: no row, one, a run, arrays in two spans, bits; 64 bits beyond 2^32."""
    found = [[], [1], list(range(100)), [3, 9, 70_000, 70_001], list(range(0, 10_000, 2))]
    return [*found, [5, 1 << 33]] if width == 64 else found


@pytest.mark.parametrize("seed", range(12))
def test_what_is_written_is_read(seed: int) -> None:
    """Positions, bits and counts of what was written, judged by a decoder of its own."""
    random_ = random.Random(seed)
    width = random_.choice(WIDTHS)
    vectors = some_vectors(random_, wide=width == 64)
    target = random_.choice((None, 100, 20_000))
    files = list(write_index_files(((name, vector_of(each, width)) for name, each in vectors.items()), target))
    assert {name: rows for file in files for name, rows in decode_file(file.body, file.ranges).items()} == vectors
    for file in files:
        for vector, (name, *_) in zip(read_index_file(file.body, entry_of(file), PATH), file.ranges, strict=True):
            positions = vectors[name]
            assert vector.positions().tolist() == positions
            assert (vector.cardinality, vector.last) == (len(positions), max(positions, default=-1))
            assert_bits(vector, positions, random_)


def assert_bits(vector: DeletionVector, positions: list[int], random_: random.Random) -> None:
    end = min(max(positions, default=0), 400_000) + 70_000
    for start, count in ((0, end), (random_.randrange(end), random_.randrange(end)), (65_536, 8), (end, 0)):
        bits = vector.deleted(start, count)
        assert len(bits) == (count + 7) // 8
        assert rows_set(bits) == [each - start for each in positions if start <= each < start + count]
        assert int.from_bytes(bits, "little").bit_length() <= count


@pytest.mark.parametrize("seed", range(20))
def test_positions_added_and_taken_out(seed: int) -> None:
    """Sets of Python say what is right; the bytes are those of the same positions at once, in the first width."""
    random_ = random.Random(seed)
    for one, more in ((32, 32), (32, 64), (64, 32), (64, 64)):
        mine = set(some_positions(random_))
        some = random_.sample(sorted(mine), random_.randint(0, len(mine)))
        others = set(random_.choice((some, some_positions(random_), mine)))
        if one == 64:
            mine |= set(random_.sample(FAR, random_.randint(0, 3)))
        if more == 64 and one == 64:
            others |= set(random_.sample(FAR, random_.randint(0, 3)))
        first, second = vector_of(mine, one), vector_of(others, more)
        both = union(first, second)
        assert (both.blob, both.width) == (vector_of(mine | others, one).blob, one)
        left = without(first, second)
        assert (left and left.blob) == (vector_of(mine - others, one).blob if mine - others else None)
        back = without(both, second)
        assert set(decode(back.blob.tobytes()) if back else ()) == mine - others
        assert (first.blob, second.blob) == (vector_of(mine, one).blob, vector_of(others, more).blob)


FAR = (5 << 32, (1 << 33) - 1, 1 << 33, (10 << 32) - 1)


def test_the_last_positions_of_each_width() -> None:
    """The last position can be added and taken out; one that the width does not have is never lost silently."""
    last = {32: (1 << 31) - 1, 64: (1 << 33) + 5}
    for one, more in ((32, 32), (32, 64), (64, 32), (64, 64)):
        end = vector_of([last[min(one, more)]], more)
        both = union(vector_of([0], one), end)
        assert both.positions().tolist() == [0, last[min(one, more)]]
        assert without(both, end) == vector_of([0], one)
        assert without(end, both) is None
    far = vector_of([0, 1 << 31], 64)
    with pytest.raises(ValueError, match=r"from 0 to 2147483647 .* of 32 bits, found 2147483648"):
        union(vector_of([1], 32), far)
    assert without(vector_of([0, 1], 32), far) == vector_of([1], 32)


@pytest.mark.parametrize("width", WIDTHS)
def test_empty_vectors_added_and_taken_out(width: Width) -> None:
    """A vector without rows changes nothing, and nothing is left of it."""
    empty, one = vector_of([], width), vector_of([1], width)
    assert union(empty, empty) == empty
    assert union(one, empty) == union(empty, one) == one
    assert without(one, empty) == one
    assert [without(empty, one), without(empty, empty), without(one, one)] == [None] * 3


def test_runs_as_many_bytes_as_arrays() -> None:
    """Set operations of CRoaring keep runs where Paimon writes an array: the bytes must not tell the way."""
    pairs = [0, 1, 3, 4, 6, 7]
    left = without(vector_of(range(9), 32), vector_of([2, 5, 8], 32))
    assert left == union(vector_of(pairs[:2], 32), vector_of(pairs[2:], 32)) == vector_of(pairs, 32)


def test_rows_beyond_four_billion() -> None:
    """Bits of a range that begins within the upper bitmaps of a wide vector."""
    vector = vector_of([5, 1 << 33, (1 << 33) + 12], 64)
    assert rows_set(vector.deleted((1 << 33) - 3, 20)) == [3, 15]
    assert vector.positions() == array("Q", [5, 1 << 33, (1 << 33) + 12])
    assert vector.last == (1 << 33) + 12


def test_forms_of_positions() -> None:
    """Arrays of all kinds give the same bytes; order does not matter, and a position counts once."""
    rows = [70_000, 3, 9, 3]
    blob = vector_of([3, 9, 70_000], 32).blob
    forms = [
        array("I", rows), array("i", rows), array("q", rows), array("Q", rows), iter(rows), tuple(rows),
        np.array(rows), np.array(rows, "<u4"), memoryview(np.array(rows, "<i8")),
    ]  # fmt: skip
    assert [vector_of(form, 32).blob for form in forms] == [blob] * len(forms)
    far = [1 << 33, 3, 5 << 32]
    assert decode(vector_of(np.array(far), 64).blob.tobytes()) == sorted(far)


@pytest.mark.parametrize(
    ("positions", "width"),
    [([-1], 32), ([1 << 31], 32), ([1 << 63], 32), ([-1], 64), ([1 << 48], 64), (np.array([1.5]), 32), (b"abc", 32),
     (np.arange(10)[::2], 32)],
)  # fmt: skip
def test_positions_that_no_vector_has(positions: object, width: Width) -> None:
    with pytest.raises(ValueError, match="expected positions"):
        vector_of(positions, width)


def test_a_file_rolls_after_the_vector_that_passes_its_size() -> None:
    """As in Paimon: files exceed the target by a part of one vector. A bucket has one file, also without vectors."""
    vectors = [(f"data-{number}", vector_of([number], 32)) for number in range(5)]
    size = len(vectors[0][1].blob)
    counts = {
        target: [len(file.ranges) for file in write_index_files(vectors, target)]
        for target in (0, size, size + 1, 2 * size + 1, 5 * size, 5 * size + 1)
    }
    assert counts == {
        0: [1] * 5,
        size: [1] * 5,
        size + 1: [2, 2, 1],
        2 * size + 1: [3, 2],
        5 * size: [5],
        5 * size + 1: [5],
    }
    assert [len(file.ranges) for file in write_index_files(vectors, None)] == [5]
    assert list(write_index_files((), 100)) == []
    assert [(file.body, file.ranges) for file in write_index_files((), None)] == [(b"\1", ())]


def test_a_name_that_comes_twice() -> None:
    first = vector_of([1], 32)
    with pytest.raises(ValueError, match="found two for A"):
        list(write_index_files([("A", first), ("A", first)], 0))


def test_two_widths_in_one_file() -> None:
    """A bucket has one index file, and the table's option about widths may be switched."""
    vectors = [("A", vector_of([1, 2], 64)), ("B", vector_of([3], 32)), ("C", vector_of([4], 64))]
    (file,) = write_index_files(vectors, None)
    entry = IndexEntry(b"", 0, "DELETION_VECTORS", "i", len(file.body), 3, None, file.ranges)
    found = read_index_file(file.body, entry, PATH)
    assert [(each.width, each.positions().tolist()) for each in found] == [(64, [1, 2]), (32, [3]), (64, [4])]
    assert list(widths_of(entry).values()) == [64, 32, 64]


def outcome(body: bytes, entry: IndexEntry, place: VectorRange) -> list[int] | None:
    """Read one vector as a ranged read does, and return its positions; None: that failed as it should."""
    try:
        vector = read_at(body[place[1] : end_of(place, entry.file_size, PATH)], place, PATH)
        positions = vector.positions().tolist()
    except FormatError as error:
        assert PATH in str(error)
        return None
    return positions


@pytest.mark.parametrize("width", WIDTHS)
def test_every_flip_and_every_cut(width: Width) -> None:
    """An error, or the same positions."""
    wanted = [[1], [0, 7], list(range(100, 200)), [65_540, 131_080]]
    file = file_of(*wanted, width=width)
    entry = entry_of(file)
    damaged = [file.body[:end] for end in range(len(file.body))]
    for at in range(len(file.body)):
        for bit in range(8):
            body = bytearray(file.body)
            body[at] ^= 1 << bit
            damaged.append(bytes(body))
    same = 0
    for body in damaged:
        for place, positions in zip(file.ranges, wanted, strict=True):
            found = outcome(body, entry, place)
            assert found in (None, positions)
            same += found is not None
        with pytest.raises(FormatError, match=PATH):
            for vector in read_index_file(body, entry, PATH):
                vector.positions()
    assert same


def test_flips_of_bits() -> None:
    """The same in a container that has a bit for each row."""
    positions = some_positions(random.Random(5), (5_000,))
    file = file_of(positions)
    for at in range(1, len(file.body), 7):
        body = bytearray(file.body)
        body[at] ^= 1 << at % 8
        assert outcome(bytes(body), entry_of(file), file.ranges[0]) is None


@pytest.mark.parametrize("width", WIDTHS)
def test_flips_behind_a_new_crc(width: Width) -> None:
    """Somebody writes a CRC that fits: what is read is consistent, or an error. Nothing ends the process."""
    wanted = ([1, 5, 9], list(range(100, 200)) + [4_000], list(range(0, 9_000, 2)), [9, 65_540, 131_080, 200_000])
    kinds = {"same": 0, "other": 0, "error": 0}
    for positions in wanted:
        blob = vector_of(positions, width).blob.tobytes()
        for at in (*range(4, min(len(blob) - 4, 150)), *range(150, len(blob) - 4, 211)):
            body = bytearray(blob)
            body[at] ^= 1 << at % 8
            try:
                vector = read_vector(with_new_crc(bytes(body)), None, PATH)
                found = vector.positions().tolist()
                bits = vector.deleted(0, 1 << 18)
            except FormatError:
                kinds["error"] += 1
                continue
            assert found == sorted(set(found))
            assert len(found) == vector.cardinality
            assert max(found) == vector.last
            assert rows_set(bits) == [position for position in found if position < 1 << 18]
            kinds["same" if found == positions else "other"] += 1
    assert min(kinds["other"], kinds["error"]) > 20


@pytest.mark.parametrize(("positions", "at"), [(range(0, 20_000, 2), 18), (range(100), 15)])
@pytest.mark.parametrize("change", [1, -1])
def test_headers_that_lie(positions: range, at: int, change: int) -> None:
    """A container of bits or runs with more or fewer rows than its header states gives neither bits nor positions."""
    blob = bytearray(vector_of(positions, 32).blob)
    blob[at] += change
    vector = read_vector(with_new_crc(bytes(blob)), None, PATH)
    assert vector.cardinality == len(positions) + change
    one = vector_of([1], 32)
    for ask in (
        vector.positions, lambda: vector.deleted(0, 8), lambda: vector.last,
        lambda: union(one, vector), lambda: without(vector, one),
    ):  # fmt: skip
        with pytest.raises(FormatError, match=f"{vector.cardinality} deleted rows|cardinality is incorrect"):
            ask()


@pytest.mark.parametrize(
    ("positions", "at", "change"),
    [
        ([1, 5, 9], 24, (5, 1, 9)),
        ([1, 5, 9], 24, (1, 1, 9)),
        ([*range(100), *range(200, 300)], 19, (200, 99, 0, 99)),
        ([*range(100), *range(200, 300)], 19, (0, 99, 99, 99)),
        ([*range(100), *range(200, 300)], 19, (0, 99, 100, 99)),
        ([*range(100), *range(200, 300)], 19, (0, 99, 65_437, 99)),
    ],
)
def test_rows_that_do_not_ascend(positions: list[int], at: int, change: tuple[int, ...]) -> None:
    """Arrays out of order, and runs that overlap, touch or end beyond the span: neither bits nor positions."""
    blob = bytearray(vector_of(positions, 32).blob)
    blob[at : at + 2 * len(change)] = struct.pack(f"<{len(change)}H", *change)
    vector = read_vector(with_new_crc(bytes(blob)), None, PATH)
    assert vector.cardinality == len(positions)
    for ask in (vector.positions, lambda: vector.deleted(0, 8), lambda: vector.last):
        with pytest.raises(FormatError, match=PATH):
            ask()


@pytest.mark.parametrize(
    ("at", "change"), [(16, (1, 0, 0, 0)), (16, (0, 0, 0, 0)), (24, (26, 0, 24, 0)), (24, (24, 0, 28, 0))]
)
def test_containers_that_do_not_ascend(at: int, change: tuple[int, ...]) -> None:
    """Keys in another order or twice, and offsets where no container begins."""
    blob = bytearray(vector_of([1, 65_540], 32).blob)
    assert struct.unpack_from("<8H", blob, 16) == (0, 0, 1, 0, 24, 0, 26, 0)
    blob[at : at + 2 * len(change)] = struct.pack(f"<{len(change)}H", *change)
    with pytest.raises(FormatError, match="containers in ascending order"):
        read_vector(with_new_crc(bytes(blob)), None, PATH)


@pytest.mark.parametrize(
    ("width", "positions", "at", "change", "expected"),
    [
        (32, [(1 << 31) - 1], 16, b"\0\x80", "expected positions up to 2147483647, found 2147483648"),
        (64, [1], 16, b"\xff\xff\xff\x7f", "expected ascending keys of bitmaps, found 2147483647 after -1"),
        (64, [1, 1 << 32], 16, b"\1", "expected ascending keys of bitmaps, found 1 after 1"),
        (64, [1, 1 << 32], 16, b"\2", "expected ascending keys of bitmaps, found 1 after 2"),
    ],
)
def test_positions_beyond_the_width(width: Width, positions: list[int], at: int, change: bytes, expected: str) -> None:
    """Positions that Paimon cannot have, and keys of bitmaps in another order or twice."""
    blob = bytearray(vector_of(positions, width).blob)
    blob[at : at + len(change)] = change
    with pytest.raises(FormatError, match=expected):
        read_vector(with_new_crc(bytes(blob)), None, PATH)


@pytest.mark.parametrize("seed", range(4))
def test_noise_behind_a_new_crc(seed: int) -> None:
    """Several bytes at a time, and cut or longer content."""
    random_ = random.Random(seed)
    for _ in range(300):
        body = bytearray(vector_of(some_positions(random_, (1, 5, 100, 5_000)), random_.choice(WIDTHS)).blob)
        for _ in range(random_.randint(1, 6)):
            body[random_.randrange(4, min(len(body), 60))] = random_.choice(
                (0, 1, 127, 128, 255, random_.randrange(256))
            )
        if random_.random() < 0.3:
            body = body[: random_.randrange(len(body))] + bytes(random_.randrange(30))
            body[:4] = max(len(body) - 8, 0).to_bytes(4, "big")
        try:
            vector = read_vector(with_new_crc(bytes(body)), None, PATH)
            assert len(vector.positions()) == vector.cardinality
        except FormatError:
            continue


@pytest.mark.parametrize(
    ("blob", "expected"),
    [
        (b"", "magic number"),
        (b"\0\0\0\4\x5e\x43\xf2\xd0", "expected 12 bytes"),
        (b"\xff\xff\xff\xff\x5e\x43\xf2\xd0", "expected 4294967303 bytes"),
        (b"\0\0\0\4\x5e\x43\xf2\xd0" + b"\0" * 4, "at least 12 bytes|expected at least"),
        (b"\0\0\0\4\xd1\xd3\x39\x64" + b"\0" * 4, "number of bitmaps"),
        (b"\0\0\0\x0c\xd1\xd3\x39\x64" + b"\xff" * 8 + b"\0" * 4, "ascending|at least"),
        (
            b"\0\0\0\x0c\x5e\x43\xf2\xd0\x3a\x30\0\0\1\0\1\0" + b"\0" * 4,
            "at most 65536 containers, found|at most 65536",
        ),
        (b"\0\0\0\x0c\x5e\x43\xf2\xd0\x3a\x30\0\0\xff\xff\0\0" + b"\0" * 4, "at least"),
    ],
)
def test_lengths_beyond_the_bytes(blob: bytes, expected: str) -> None:
    """Counts that the bytes cannot hold end at once, without memory for them."""
    with pytest.raises(FormatError, match=expected):
        read_vector(with_new_crc(blob) if len(blob) >= 12 else blob, None, PATH)


def test_metadata_that_lie() -> None:
    """A cardinality, a length, a size or an offset that the bytes contradict."""
    file = file_of([1, 2, 3], [4])
    entry = entry_of(file)
    (name, offset, length, _), _ = file.ranges
    for lie, expected in (
        ((name, offset, length, 4), "expected 4 deleted rows, found 3"),
        ((name, offset, length, 2), "expected 2 deleted rows, found 3"),
        ((name, offset, length - 1, 3), "length 25, found 26"),
        ((name, offset, length + 8, 3), "length 34, found 26"),
        ((name, offset + 1, length, 3), "magic number"),
    ):
        with pytest.raises(FormatError, match=expected):
            read_at(file.body[lie[1] : end_of(lie, len(file.body), PATH)], lie, PATH)
    for offset_, length_ in ((0, 5), (1, len(file.body)), (len(file.body), 1)):
        with pytest.raises(FormatError, match=f"within {len(file.body)} bytes"):
            end_of((name, offset_, length_, 1), len(file.body), PATH)
    with pytest.raises(FormatError, match="version 1"):
        read_index_file(b"\2" + file.body[1:], entry, PATH)
    assert read_at(file.body[1:], (name, 1, length, None), PATH).cardinality == 3


def test_many_vectors_in_the_same_bytes() -> None:
    """Each would be decoded on its own, so a small index file would take any amount of memory."""
    file = file_of([1, 2, 3], [4])
    name, offset, length, cardinality = file.ranges[0]
    for other in (offset, offset + length - 1):
        entry = entry_of(file, vectors=(file.ranges[1], (name, offset, length, cardinality), ("B", other, 1, None)))
        with pytest.raises(FormatError, match=f"expected deletion vectors apart .* from byte {other} on"):
            read_index_file(file.body, entry, PATH)
    check_apart(entry_of(file, vectors=file.ranges[::-1]), PATH)


def test_widths_by_ranges() -> None:
    """Ranges tell the width without the bytes, unless there is a gap."""
    for width in WIDTHS:
        file = file_of([1], [2, 3], width=width)
        assert widths_of(entry_of(file)) == dict.fromkeys([place[1] for place in file.ranges], width)
        assert widths_of(entry_of(file, vectors=file.ranges[::-1])) == widths_of(entry_of(file))
        assert list(widths_of(entry_of(file, file_size=len(file.body) + 1))) == [file.ranges[0][1]]


def test_bytes_of_others() -> None:
    """Vectors of an encoder that writes every bitmap as an array, as writers may that do not look for runs."""
    for wide in (False, True):
        body, ranges = encode_vectors({"A": list(range(50, 300)), "B": []}, wide)
        file = IndexFileBytes(body, ranges)
        found = read_index_file(body, entry_of(file), PATH)
        assert [list(vector.positions()) for vector in found] == [list(range(50, 300)), []]


def test_without_pyroaring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits can be read; positions say what to install."""
    blob = vector_of([1, 9], 32).blob
    monkeypatch.setitem(sys.modules, "pyroaring", None)
    vector = read_vector(blob, None, PATH)
    assert rows_set(vector.deleted(0, 10)) == [1, 9]
    assert (vector.last, vector.cardinality) == (9, 2)
    for act in (vector.positions, lambda: vector_of([1], 32)):
        with pytest.raises(UnsupportedFormatError, match=r"pip install 'lakesweep\[vectors\]'") as caught:
            act()
        assert caught.value.code == "vectors_need_pyroaring"
