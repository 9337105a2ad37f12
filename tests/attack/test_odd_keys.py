"""Tables with a primary key whose keys, partitions and schemas are odd, and others who change them meanwhile."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.local.store import LocalStore
from tests.support.acting import Acting
from tests.support.faulty_store import FaultyStore
from tests.support.odd_tables import OddFile, OddTable

KEYS: dict[str, list[Any]] = {
    "STRING": ["", "\0", "a", "a\0", "a\0b", "k" * 127, "k" * 128, "k" * 128 + "\0", "k" * 200, "\uffff", "\U00010000"],
    "BIGINT": [-(2**63), -(2**31), -1, 0, 1, 2**63 - 1],
    "DECIMAL(38, 10)": [
        Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -10))
        for number in (1 - 10**38, -(2**64) - 1, -(2**64), -(2**63), -1, 0, 1, 2**63, 2**64 - 1, 2**64, 10**38 - 1)
    ],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    "TIMESTAMP(6)": [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMP(9)": [datetime(1960, 1, 1), datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1)],
    "BOOLEAN": [False, True],
}
"""Values in Paimon's order."""


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("type_", KEYS)
def test_keys_at_the_ends_of_their_types(tmp_path: Path, type_: str, full: bool) -> None:
    """Older rows of the same keys lie on two levels, a few in each row group."""
    table = OddTable(tmp_path, {"v": "STRING", "k": f"{type_} NOT NULL", "n": "TINYINT NOT NULL"}, ["k", "n"])
    keys = KEYS[type_]
    deep = table.file([("old", key, number) for key in keys for number in (-128, 0, 127)], 5, group_rows=2)
    upper = table.file([("mid", key, 0) for key in keys[::2]], 4, group_rows=1)
    table.vectors({deep.name: list(range(1, 3 * len(keys), 6))}, deep)
    table.file([("new", key, number) for key in keys[1:] for number in (-128, 0)], group_rows=1)
    table.file([(None, key, 127, 900 + number, 3) for number, key in enumerate(keys[:-1])], group_rows=1)
    table.commit()
    rows = table.rows()
    assert len(rows) == 3 * len(keys) - len(keys[:-1]), upper.name
    assert table.compact(full=full).status == "done"
    assert table.rows(sees_level_0=False) == rows


def test_partitions_with_odd_values(tmp_path: Path) -> None:
    table = OddTable(tmp_path, {"p": "STRING", "id": "BIGINT NOT NULL"}, ["p", "id"], partition=["p"])
    for value in (None, " ", "a b", "a/b", "é=\U0001f600", "%41"):
        table.file([(value, 1)], 5, partition=(value,))
        table.file([(value, 1), (value, 2)], partition=(value,))
    table.commit()
    rows = table.rows()
    assert len(rows) == 12
    assert table.compact().status == "done"
    assert table.rows(sees_level_0=False) == rows


def test_columns_of_other_schemas(tmp_path: Path) -> None:
    """One got another name, one is wider, and one was dropped and came again: its former values do not come back."""
    table = OddTable(tmp_path, {"id": "BIGINT NOT NULL", "a": "STRING", "n": "INT", "x": "STRING"}, ["id"])
    table.file([(1, "one", 7, "gone"), (2, "two", -(2**31), "gone")], 5)
    table.schema({"id": "BIGINT NOT NULL", "b": "STRING", "n": "BIGINT"}, {"a": "b", "x": "dropped"})
    table.schema({"x": "STRING", "id": "BIGINT NOT NULL", "n": "BIGINT", "b": "STRING"})
    table.file([("here", 1, None, None), (None, 3, 2**40, "three")])
    table.commit()
    assert table.compact().status == "done"
    assert sorted(table.rows(sees_level_0=False).values(), key=lambda row: row[1]) == [
        ("here", 1, None, None), (None, 2, -(2**31), "two"), (None, 3, 2**40, "three"),
    ]  # fmt: skip


@pytest.mark.parametrize(("now", "old"), [({"k": "BIGINT NOT NULL"}, "id"), ({"id": "BIGINT NOT NULL"}, "id")])
def test_another_key(tmp_path: Path, now: dict[str, str], old: str) -> None:
    """The column has another name, or another type."""
    table = OddTable(tmp_path, {"id": "INT NOT NULL", "v": "STRING"}, ["id"])
    table.file([(1, "a")], 5)
    table.keys = list(now)
    table.schema({**now, "v": "STRING"}, {old: table.keys[0]})
    table.file([(1, "b")])
    table.commit()
    before = table.named()
    refusal = table.compact().refusal
    assert refusal is not None and refusal.code == "key_changed"
    assert table.named() == before


# Others who act while files are merged.


def overwritten(table: OddTable) -> None:
    table.live = []
    table.file([(9, "o")])


def rescaled(table: OddTable) -> None:
    table.live, table.options["bucket"] = [], "2"
    table.file([(9, "o")])
    table.file([(7, "p")], bucket=1)


def truncated(table: OddTable) -> None:
    table.live = []


def late(table: OddTable) -> None:
    table.file([(1, "late"), (8, "late")])


def late_with_another_bucket_count(table: OddTable) -> None:
    table.file([(1, "late")], entry={"_TOTAL_BUCKETS": 2})


def hidden(table: OddTable) -> None:
    table.vectors({table.live[0].name: [0]}, table.live[0])


def moved(table: OddTable) -> None:
    file = table.live[0]
    table.live[0] = OddFile(file.path, {**file.entry, "_FILE": {**file.entry["_FILE"], "_LEVEL": 4}})


def altered(table: OddTable) -> None:
    table.schema({**table.types, "n": "INT"})


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("call", ["manifest/manifest-list", "bucket-0/"])
@pytest.mark.parametrize(
    ("act", "code"),
    [
        (overwritten, "bins_lost"),
        (rescaled, "bins_lost"),
        (truncated, "bins_lost"),
        (late, None),
        (late_with_another_bucket_count, "bucket_counts"),
        (hidden, "bins_lost"),
        (moved, "bins_lost"),
        (altered, "stale"),
    ],
)
def test_others_act_meanwhile(
    tmp_path: Path, act: Callable[[OddTable], None], code: str | None, call: str, full: bool
) -> None:
    """Readers see what the other one made of the table."""
    table = OddTable(tmp_path, {"id": "INT NOT NULL", "v": "STRING"}, ["id"])
    table.file([(1, "a"), (2, "b"), (3, "c")], 5)
    table.file([(2, "x"), (4, "y")])
    table.file([(3, "z")])
    table.commit()

    def do() -> None:
        act(table)
        table.commit()

    switch = Acting(lambda name: name.startswith(f"table put {call}"), do)
    store = FaultyStore(LocalStore(str(table.folder)), switch, "table")
    report = table.compact(table=table.opened(store), full=full, catalog=Catalog("filesystem"))
    assert switch.has_acted
    assert (None if report.refusal is None else report.refusal.code) == code
    assert (report.status == "done") is (code is None)
    if act is not altered:
        assert {key[-1]: row for key, row in table.rows().items()} == seen_after(act)


def seen_after(act: Callable[[OddTable], None]) -> dict[int, tuple[int, str]]:
    """Return the rows of all levels."""
    plain = {1: (1, "a"), 2: (2, "x"), 3: (3, "z"), 4: (4, "y")}
    return {
        overwritten: {9: (9, "o")},
        rescaled: {9: (9, "o"), 7: (7, "p")},
        truncated: {},
        late: plain | {1: (1, "late"), 8: (8, "late")},
        late_with_another_bucket_count: plain | {1: (1, "late")},
        hidden: {key: row for key, row in plain.items() if key > 1},
        moved: plain,
    }[act]
