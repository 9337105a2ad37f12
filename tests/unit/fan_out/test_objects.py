"""Rows of listed objects: written, read, and damaged."""

from random import Random

import pytest

from lakesweep.errors import FormatError
from lakesweep.operations.orphans.fan_out.objects import Rest, rest_of, row_of, rows_in

OBJECTS = [
    (bytes([number]) * 16, number, size, Rest(key, etag, modified))
    for number, (size, key, etag, modified) in enumerate(
        [
            (0, "", "", 0),
            (1 << 62, "dt=1/bucket-0/data-1.parquet", "9a0364b9e99bb480dd25e1f0284c8555", 1_800_000_000_000),
            (17, "dt=\udcff/ü/\n\t\0", "md5-7", -1),
            (5, "k" * 3000, "e" * 300, (1 << 63) - 1),
        ]
    )
]


def test_rows_come_back() -> None:
    block = b"".join(row_of(*each) for each in OBJECTS)
    found = list(rows_in(block, "here"))
    assert [(each.name_hash, each.place, each.size_bytes, rest_of(each, "here")) for each in found] == OBJECTS
    assert list(rows_in(b"", "here")) == []


def test_a_block_that_is_cut_off_anywhere_is_refused() -> None:
    block = b"".join(row_of(*each) for each in OBJECTS[1:3])
    ends = {0, len(row_of(*OBJECTS[1])), len(block)}
    for size in set(range(len(block))) - ends:
        with pytest.raises(FormatError, match=r"^here: expected whole rows"):
            list(rows_in(block[:size], "here"))


def test_noise_is_refused_or_read_as_rows() -> None:
    random = Random(7)
    for _ in range(2000):
        block = bytearray(b"".join(row_of(*each) for each in OBJECTS))
        for _ in range(random.randrange(1, 4)):
            block[random.randrange(len(block))] = random.randrange(256)
        try:
            for each in rows_in(bytes(block), "here"):
                rest_of(each, "here")
        except FormatError as error:
            assert str(error).startswith("here: expected")
