"""Merged rows against a dictionary: the row with the largest sequence number counts, and deeper ones are marked."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from lakesweep.model.keyed import KeyedFile
from tests.support.keyed_runs import Bucket, Row, marks

PLAIN = {"id": "BIGINT NOT NULL", "v": "STRING"}
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 5, 127],
    "SMALLINT": [-32768, 0, 7],
    "INT": [-(1 << 31), -3, 0, (1 << 31) - 1],
    "BIGINT": [-(1 << 63), -1, 0, 1, (1 << 63) - 1],
    "DATE": [date(1969, 12, 31), date(1970, 1, 1), date(2026, 2, 3)],
    "TIME": [time(0), time(1, 2, 3, 4000), time(23, 59, 59)],
    "STRING": ["", "a", "a\0", "a\0b", "ab", "é", "z", "\ue000", "\U0001f600", "a" * 9, "a" * 8 + "b", "x" * 300],
    "CHAR(3)": ["a", "ab", "b"],
    "DECIMAL(9, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
    "DECIMAL(38, 3)": [Decimal(sign * value).scaleb(-3) for sign in (1, -1) for value in (1, 1 << 64, (1 << 90) + 7)],
    "TIMESTAMP(3)": [datetime(1969, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1000)],
    "TIMESTAMP(6)": [datetime(1969, 1, 1, 0, 0, 0, 7), datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMP(9)": [datetime(1969, 1, 1, 0, 0, 0, 7), datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
}


class Model:
    """What a merge shall make of some rows."""

    def __init__(self, bucket: Bucket, *, drops: bool = True, ignores: bool = False) -> None:
        self.bucket, self.drops, self.ignores = bucket, drops, ignores
        self.best: dict[Row, tuple[Any, Row, bool]] = {}
        self.upper: set[Row] = set()
        self.deep: dict[Row, tuple[str, int]] = {}

    def add(self, place: int, file: KeyedFile, rows: Sequence[Row], gone: Sequence[int]) -> None:
        for number, row in enumerate(rows):
            if number in gone or (self.ignores and row[-1] in (1, 3)):
                continue
            key = self.bucket.key(row)
            if file.level:
                self.upper.add(key)
            rank = (row[-2], -place, number)
            if key not in self.best or rank > self.best[key][0]:
                self.best[key] = (rank, row, False)

    def add_deep(self, file: KeyedFile, rows: Sequence[Row], gone: Sequence[int]) -> None:
        for number, row in enumerate(rows):
            if number not in gone and row[-1] in (0, 2):
                self.deep[self.bucket.key(row)] = (file.name, number)

    def rows(self) -> list[Row]:
        found = [self.best[key][1] for key in sorted(self.best)]
        return [row for row in found if not self.drops or row[-1] in (0, 2)]

    def marks(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for key in self.best:
            if key not in self.upper and key in self.deep:
                name, number = self.deep[key]
                found.setdefault(name, []).append(number)
        return {name: sorted(numbers) for name, numbers in found.items()}


def check(random: Random, types: Mapping[str, str], keys: Sequence[str], pool: Sequence[Row], runs: int) -> None:
    """Merge random runs of rows with keys of the pool."""
    bucket = Bucket(types, keys)
    drops, ignores = random.random() < 0.5, random.random() < 0.3
    model = Model(bucket, drops=drops, ignores=ignores)
    pool = sorted(pool, key=bucket.key)
    sequences = random.choice([3, 1 << 40])

    def some(level: int) -> tuple[KeyedFile, list[Row], list[int]]:
        keys = sorted(random.choices(range(len(pool)), k=random.randint(1, len(pool))))
        keys = keys if level == 0 else sorted(set(keys))
        rows = [
            (*pool[each], f"v{random.random()}", random.randrange(sequences), random.choice((0, 0, 1, 2, 3)))
            for each in keys
        ]
        gone = [number for number in range(len(rows)) if random.random() < 0.2]
        file = bucket.file(rows, level, deleted=gone, group_rows=random.choice([1, 2, 1000]))
        return file, rows, gone

    merged: list[list[KeyedFile]] = []
    for place in range(runs):
        file, rows, gone = some(random.choice([0, 0, 2]))
        model.add(place, file, rows, gone)
        merged.append([file])
    deeper: list[list[KeyedFile]] = []
    if random.random() < 0.7:
        taken: set[Row] = set()
        for level in (4, 5):
            file, rows, gone = some(level)
            gone = [number for number, row in enumerate(rows) if number in gone or bucket.key(row) in taken]
            file = bucket.file(rows, level, deleted=gone, group_rows=random.choice([1, 2, 1000]))
            taken |= {bucket.key(row) for number, row in enumerate(rows) if number not in gone}
            model.add_deep(file, rows, gone)
            deeper.append([file])
    found = bucket.merge(
        merged,
        deeper,
        drops_deletes=drops,
        ignores_deletes=ignores,
        batch_rows=random.choice([1, 2, 3, 7, None]),
    )
    assert bucket.rows(found) == model.rows()
    assert marks(found) == model.marks()
    assert found.marked == sum(map(len, model.marks().values()))


@pytest.mark.parametrize("type_", VALUES)
def test_key_types(type_: str) -> None:
    for seed in range(8):
        pool = [(value,) for value in VALUES[type_]]
        check(Random(seed), {"k": f"{type_} NOT NULL", "v": "STRING"}, ["k"], pool, runs=4)


@pytest.mark.parametrize("seed", range(40))
def test_random_keys(seed: int) -> None:
    """One to four columns of any types."""
    random = Random(seed)
    chosen = random.sample(sorted(VALUES.keys() - {"TIMESTAMP(9)"}), random.randint(1, 4))
    types = {f"k{number}": f"{type_} NOT NULL" for number, type_ in enumerate(chosen)}
    pool = list({tuple(random.choice(VALUES[type_]) for type_ in chosen) for _ in range(random.randint(1, 40))})
    keys = list(types)
    check(random, {**types, "v": "STRING"}, keys, pool, runs=random.randint(1, 6))
