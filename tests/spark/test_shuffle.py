"""The shuffle of a match, cut and put together again. No Spark takes part."""

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.spark import shuffle
from lakesweep.spark.live import LIVE_SCHEMA
from lakesweep.spark.parts import Part
from lakesweep.spark.shuffle import LISTED, LIVE, MATCH_SCHEMA, numbers_of

NAMES = st.lists(st.sampled_from([b"", b"a", b"b", b"\xed\xa0\x80", b"c" * 300]) | st.binary(max_size=4), max_size=30)


@given(NAMES, NAMES, st.integers(1, 5), st.randoms())
def test_rows_of_a_name_meet_in_one_partition_and_none_is_lost(
    live: list[bytes], listed: list[bytes], partitions: int, random: Random
) -> None:
    rows = {
        LIVE: pa.Table.from_pylist([{"name": name, "flags": 1} for name in live], schema=LIVE_SCHEMA),
        LISTED: pa.Table.from_pylist([{"name": name} for name in listed], schema=shuffle.LISTING_SCHEMA),
    }
    chunks = [chunk for side, table in rows.items() for chunk in shuffle._split(table, side, "name", partitions)]
    random.shuffle(chunks)
    found: Counter[tuple[Any, ...]] = Counter()
    for number in range(partitions):
        here = (chunk for chunk in chunks if chunk[0] == number)
        batches = list(shuffle.sorted_rows(here, number, partitions))
        keys = [key for batch in batches for key in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)]
        assert all(batch.schema == MATCH_SCHEMA for batch in batches)
        assert keys == sorted(keys)
        assert {h1 % partitions for h1, _, _ in keys} <= {number}
        found.update(keys)
    numbers = {side: map(tuple, numbers_of(names).tolist()) for side, names in ((LIVE, live), (LISTED, listed))}
    assert found == Counter((*key, side) for side, keys in numbers.items() for key in keys)


@given(st.lists(st.integers(0, 120_000), max_size=20))
def test_each_part_is_in_one_group(sizes: list[int]) -> None:
    sources = [(LIVE, Part(str(number), rows, "")) for number, rows in enumerate(sizes)]
    groups = shuffle._grouped(sources)
    assert [source for group in groups for source in group] == sources
    assert all(len(group) == 1 or sum(part.rows for _, part in group) <= shuffle.PART_ROWS for group in groups)
