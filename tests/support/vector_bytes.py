"""Deletion vectors read by code of its own, byte by byte: the judge of `lakesweep.format.vectors`.

It uses neither pyroaring nor anything of `lakesweep.format`, and knows no speed.
"""

import random
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence

Range = tuple[str, int, int, int | None]


def decode_file(body: bytes, ranges: Sequence[Range]) -> dict[str, list[int]]:
    """Return data file -> positions, as a reader does that goes through a file without seeking."""
    assert body[:1] == b"\1"
    at, found = 1, {}
    for name, offset, length, cardinality in ranges:
        assert at == offset, "vectors lie in the order of their ranges, without gaps"
        (word,) = struct.unpack_from(">i", body, at)
        wide = struct.unpack_from("<I", body, at + 4)[0] == 1681511377
        assert length == word + (8 if wide else 0)
        found[name] = decode(body[at : at + word + 8])
        assert cardinality in (None, len(found[name]))
        at += word + 8
    assert at == len(body)
    return found


def decode(blob: bytes) -> list[int]:
    """Return the positions of one vector, from its length word to its CRC."""
    (word,) = struct.unpack_from(">i", blob)
    content = blob[4 : 4 + word]
    assert len(blob) == word + 8
    assert struct.unpack_from(">I", blob, 4 + word)[0] == zlib.crc32(content)
    if struct.unpack_from(">I", content)[0] == 1581511376:
        positions, at = _bitmap(content, 4)
        assert at == len(content)
        return positions
    magic, count = struct.unpack_from("<Iq", content)
    assert magic == 1681511377
    positions, at = [], 12
    for expected in range(count):
        (key,) = struct.unpack_from("<i", content, at)
        assert key == expected, "keys without gaps"
        low, at = _bitmap(content, at + 4)
        positions += [(key << 32) + position for position in low]
    assert at == len(content)
    return positions


def _bitmap(content: bytes, start: int) -> tuple[list[int], int]:
    (cookie,) = struct.unpack_from("<I", content, start)
    at = start + 4
    flags = 0
    if cookie == 12346:
        (size,) = struct.unpack_from("<I", content, at)
        at += 4
    else:
        assert cookie & 0xFFFF == 12347
        size = (cookie >> 16) + 1
        flags = int.from_bytes(content[at : at + (size + 7) // 8], "little")
        at += (size + 7) // 8
    heads = [struct.unpack_from("<HH", content, at + 4 * number) for number in range(size)]
    at += 4 * size
    if cookie == 12346 or size >= 4:
        offsets = struct.unpack_from(f"<{size}I", content, at)
        at += 4 * size
    else:
        offsets = ()
    positions: list[int] = []
    for number, (key, more) in enumerate(heads):
        assert not offsets or offsets[number] == at - start
        rows: list[int] = []
        if flags >> number & 1:
            (count,) = struct.unpack_from("<H", content, at)
            for run in range(count):
                first, length = struct.unpack_from("<HH", content, at + 2 + 4 * run)
                rows += range(first, first + length + 1)
            at += 2 + 4 * count
        elif more + 1 <= 4096:
            rows += struct.unpack_from(f"<{more + 1}H", content, at)
            at += 2 * (more + 1)
        else:
            bits = int.from_bytes(content[at : at + 8192], "little")
            rows += [row for row in range(65536) if bits >> row & 1]
            at += 8192
        assert len(rows) == more + 1
        positions += [(key << 16) + row for row in rows]
    return positions, at


def rows_set(bits: bytes) -> list[int]:
    """Return which bits are set; bit 0 of byte 0 is the first."""
    return [8 * at + bit for at, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1]


def with_new_crc(blob: bytes) -> bytes:
    """Return a vector with the CRC of its content, as somebody writes it who means harm."""
    return blob[:-4] + struct.pack(">I", zlib.crc32(blob[4:-4]))


def _scattered(random_: random.Random, size: int) -> list[int]:
    return sorted(random_.sample(range(max(size * random_.choice((1, 2, 3, 20)), 1)), size))


def _dense(random_: random.Random, size: int) -> list[int]:
    start = random_.randrange(200_000)
    return list(range(start, start + size))


def _every_second(random_: random.Random, size: int) -> list[int]:
    return list(range(0, 2 * size, 2))


def _pairs(random_: random.Random, size: int) -> list[int]:
    """Return runs of two, where an array and runs take the same number of bytes."""
    step = random_.choice((3, 4, 5))
    return [first + more for first in range(0, size * step, step) for more in (0, 1)][:size]


def _runs(random_: random.Random, size: int) -> list[int]:
    found: set[int] = set()
    while len(found) < min(size, 5_000):
        start = random_.randrange(300_000)
        found.update(range(start, start + random_.choice((1, 2, 3, 4, 5, 100))))
    return sorted(found)


_SHAPES: Sequence[Callable[[random.Random, int], list[int]]] = (_scattered, _dense, _every_second, _pairs, _runs)


def some_positions(
    random_: random.Random, sizes: Sequence[int] = (0, 1, 5, 100, 4095, 4096, 4097, 70_000)
) -> list[int]:
    """Return positions of one of many shapes, so that all kinds of containers and their limits occur."""
    return random_.choice(_SHAPES)(random_, random_.choice(sizes))


def some_vectors(random_: random.Random, *, wide: bool) -> Mapping[str, list[int]]:
    """Return 1 to 20 vectors by data file; some have equal lengths."""
    found = {f"data-{number}": some_positions(random_) for number in range(random_.randint(1, 20))}
    for number in range(random_.randint(0, 3)):  # one position each: as long as each other
        found[f"data-equal-{number}"] = [random_.randrange(1_000)]
    if wide:
        found["data-far"] = [5, 1 << 33, (1 << 33) + 70_000]
    names = list(found)
    random_.shuffle(names)
    return {name: found[name] for name in names[:20]}
