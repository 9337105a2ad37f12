"""One wrong statistic of a manifest hides files from readers that filter, and nothing else notices.

So the judge of filters is put to the test: each statistic of a manifest list that Lakesweep wrote is made wrong, by
itself, and the judge must say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.differential.commit_acts import Act, by_ours
from tests.differential.commit_tables import Kind
from tests.differential.engine import Engine
from tests.differential.metadata_edit import LISTS, Record, change_list, newest_snapshot, records_of

pytestmark = pytest.mark.differential

OPTIONS = {"write-only": "true", "manifest.merge-min-count": "1000", "manifest.target-file-size": "8 mb"}
KINDS = (
    Kind("primary key", (("p", "STRING"),), (("a",), ("b",), ("c",), ("d",)), {**OPTIONS, "bucket": "2"}, None),
    Kind("append", (("p", "STRING"),), ((None,), ("a",), ("b",), ("c",)), {**OPTIONS, "bucket": "-1"}, None),
)


def _set_to(field: str, other: str) -> Callable[[Record], object]:
    return lambda record: record.__setitem__(field, record[other])


def _partition_to(field: str, other: str) -> Callable[[Record], object]:
    return lambda record: record["_PARTITION_STATS"].__setitem__(field, record["_PARTITION_STATS"][other])


def _no_nulls(record: Record) -> None:
    record["_PARTITION_STATS"]["_NULL_COUNTS"] = [0]


def _all_nulls(record: Record) -> None:
    record["_PARTITION_STATS"]["_NULL_COUNTS"] = [record["_NUM_ADDED_FILES"] + record["_NUM_DELETED_FILES"]]


HARMS: Mapping[str, Callable[[Record], object]] = {
    "the least partition": _partition_to("_MIN_VALUES", "_MAX_VALUES"),
    "the greatest partition": _partition_to("_MAX_VALUES", "_MIN_VALUES"),
    "the least bucket": _set_to("_MIN_BUCKET", "_MAX_BUCKET"),
    "the greatest bucket": _set_to("_MAX_BUCKET", "_MIN_BUCKET"),
    "the least level": _set_to("_MIN_LEVEL", "_MAX_LEVEL"),
    "the greatest level": _set_to("_MAX_LEVEL", "_MIN_LEVEL"),
    "no nulls": _no_nulls,
    "nulls only": _all_nulls,
}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.shape for kind in KINDS])
def test_each_wrong_statistic_is_noticed(engine: Engine, tmp_path: Path, kind: Kind) -> None:
    table = f"d.statistics_{kind.shape.replace(' ', '_')}"
    location = _commit(engine, table, kind, tmp_path / "control")
    judged = engine("judge", table=table)
    assert not judged["wrong"]
    assert {row[0] for row in judged["rows"]} == {"b", "c"}
    saved = tmp_path / "saved"
    shutil.copytree(location, saved)

    tried = []
    for key in LISTS:
        for name, harm in HARMS.items():
            before = list(records_of(location, key))
            change_list(location, key, harm)
            if list(records_of(location, key)) != before:
                wrong = engine("judge", table=table)["wrong"]
                assert wrong, f"{name} of the {key} is wrong, and no filter shows it"
                tried.append(f"{name} of the {key}")
            shutil.rmtree(location)
            shutil.copytree(saved, location)
    assert not engine("judge", table=table)["wrong"]
    expected = {"append": {"no nulls", "nulls only"}, "primary key": set(HARMS) - {"no nulls"}}
    assert {text.partition(" of the delta")[0] for text in tried} >= expected[kind.shape]


def _commit(engine: Engine, table: str, kind: Kind, control: Path) -> Path:
    """Make a table whose newest commit is ours, and takes two of four partitions out."""
    engine("create", table=table, **kind.create)
    rows = [[partition[0], str(id), "x"] for partition in kind.partitions for id in range(8)]
    engine("put", table=table, rows=rows)
    engine("compact", table=table)
    engine("put", table=table, rows=rows)
    location = engine.location(table)
    before = newest_snapshot(location)
    gone = ("a", "d") if kind.primary_key else (None, "a")
    answer = by_ours(location, kind, Act("drop-partition", tuple({"p": value} for value in gone)), control)
    assert answer.exit_code == 0, answer
    assert newest_snapshot(location) != before
    if kind.primary_key:
        judged = engine("judge", table=table)
        assert {file[2] for file in judged["files"]} > {0}, "more than one level"
    return location
