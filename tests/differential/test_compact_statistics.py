"""Statistics of data files that `compact` writes: filters of the engine and of pypaimon find what a full scan finds."""

from __future__ import annotations

import json
import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataField, DataType
from tests.differential.compacted import Compacted, some_value
from tests.differential.engine import Engine
from tests.differential.metadata_edit import LISTS, Record, entries_of
from tests.support.sampling import is_sampled

pytestmark = pytest.mark.differential

TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(0)", "TIME(3)", "STRING",
    "VARCHAR(5)", "CHAR(4)", "BYTES", "BINARY(3)", "DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(20, 6)",
    "DECIMAL(38, 10)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)",
    {"type": "ARRAY", "element": "INT"}, {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "DOUBLE"}]},
)  # fmt: skip
NANOS = ("INT", "TIMESTAMP(9)", "TIMESTAMP_LTZ(9)", "STRING")
MODES: Mapping[str, Mapping[str, str]] = {
    "as it is": {},
    "not dense": {"metadata.stats-dense-store": "false"},
    "none": {"metadata.stats-mode": "none"},
    "none, not dense": {"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"},
    "counts": {"metadata.stats-mode": "counts"},
    "full": {"metadata.stats-mode": "full"},
    "one character": {"metadata.stats-mode": "truncate(1)"},
    "some columns": {
        "metadata.stats-mode": "none",
        "fields.c10.stats-mode": "truncate(2)",
        "fields.c4.stats-mode": "full",
    },
    "but some columns": {"fields.c10.stats-mode": "none", "fields.c4.stats-mode": "counts"},
    "the first columns": {"metadata.stats-keep-first-n-columns": "7"},
    "of each row": {"target-file-size": "1 b"},
    "of some rows": {"target-file-size": "6 kb", "file.block-size": "1 kb", "metadata.stats-mode": "truncate(4)"},
}
PLAIN = frozenset(mode for mode in MODES if mode not in ("of each row", "of some rows"))
"""Those in which a compaction makes one file."""


def scene_of(
    engine: Engine, work: Path, name: str, options: Mapping[str, str], types: Sequence[Any] = TYPES
) -> Compacted:
    """Write a table with five data files; some have but few values."""
    scene = Compacted(engine, name, work, Random(3), options)
    scene.create([[f"c{number}", type_] for number, type_ in enumerate(types)])
    random = Random(4)
    for count, nulls in ((1, 0.0), (8, 0.3), (1, 1.0), (6, 0.0), (9, 0.5)):
        rows = [[some_value(random, each.type, nulls) for each in scene.fields()] for _ in range(count)]
        engine("typed_put", table=name, rows=rows)
    return scene


def literals(field: DataField, values: Sequence[Any]) -> list[Any]:
    """Return the bounds of a column, and what lies next to them."""
    there = sorted((each for each in values if each is not None), key=lambda each: _order(field.type, each))
    if not there:
        return []
    bounds = [there[0], there[-1]]
    found = bounds + [near for each in bounds for near in _next_to(field.type, each)]
    return list({json.dumps(each): each for each in found}.values())


def _order(type_: DataType, stated: Any) -> Any:
    match type_.root:
        case "DECIMAL":
            return Decimal(stated)
        case "FLOAT" | "DOUBLE":
            number = _float(type_, stated)
            return (math.isnan(number), number, math.copysign(1, number))
        case "CHAR" | "VARCHAR":
            return stated.encode()
    return stated


def _float(type_: DataType, stated: str) -> float:
    code, number = ("<f", "<i") if type_.root == "FLOAT" else ("<d", "<q")
    found: float = struct.unpack(code, struct.pack(number, int(stated)))[0]
    return found


def _next_to(type_: DataType, stated: Any) -> Iterator[Any]:
    match type_.root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "DATE" | "TIME":
            bits = {"TINYINT": 7, "SMALLINT": 15, "BIGINT": 63}.get(type_.root, 31)
            yield from (each for each in (stated - 1, stated + 1) if -(1 << bits) <= each < 1 << bits)
        case "FLOAT" | "DOUBLE":
            number = _float(type_, stated)
            if not math.isnan(number) and not math.isinf(number):
                yield from (str(int(stated) - 1), str(int(stated) + 1))
            yield from ("0", str(-(1 << (31 if type_.root == "FLOAT" else 63))))
        case "DECIMAL":
            step = Decimal(1).scaleb(-(type_.scale or 0))
            limit = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
            near = (Decimal(stated) - step, Decimal(stated) + step)
            yield from (f"{each:f}" for each in near if abs(each) < limit)
        case "CHAR" | "VARCHAR":
            yield from (stated + "\0", stated[:-1], stated[:16], stated[:2] + "\U0010ffff", stated[:1])
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            step = 10 ** max(9 - (type_.precision or 0), 0)
            for each in (-step, step):
                nanos = stated[0] * 1_000_000 + stated[1] + each
                yield [nanos // 1_000_000, nanos % 1_000_000]


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less_than": operator.lt, "less_or_equal": operator.le,
    "greater_than": operator.gt, "greater_or_equal": operator.ge,
}  # fmt: skip
OF_PYTHON = frozenset(
    ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "VARCHAR", "CHAR", "DECIMAL", "BOOLEAN", "DOUBLE")
)


def judge(scene: Compacted) -> tuple[int, int]:
    """Let both readers try filters, and return how many the engine tried, and of how many it opened no file."""
    found = scene.engine("typed_rows", table=scene.table)["rows"]
    fields = [each for each in scene.fields() if each.type.root not in ("ARRAY", "ROW")]
    if is_sampled():
        fields = fields[::3]
    columns = {each.name: number for number, each in enumerate(scene.fields())}
    stated = [[each.name, literals(each, [row[columns[each.name]] for row in found])] for each in fields]
    answer = scene.engine("typed_filters", table=scene.table, literals=stated)
    # The engine orders bytes with a sign in rows, and without one in Parquet. Its own files show the same.
    wrong = [text for text in answer["wrong"] if not ("[B@" in text and text.startswith(("Less", "Greater")))]
    assert not wrong, f"{wrong}\n{scene}"
    judge_by_python(scene, fields)
    return answer["filters"], answer["empty"]


def judge_by_python(scene: Compacted, fields: Sequence[DataField]) -> None:
    """Let pypaimon filter by values of each column, and by the bounds of them."""
    from pypaimon import CatalogFactory

    table = CatalogFactory.create({"warehouse": str(scene.engine.warehouse)}).get_table(scene.table)
    builder = table.new_read_builder()
    everything = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    predicates = builder.new_predicate_builder()
    for field in fields:
        if field.type.root not in OF_PYTHON:
            continue
        values = everything.column(field.name).to_pylist()
        there = sorted(each for each in values if each is not None and each == each)
        if not there:
            continue
        for literal in {there[0], there[-1], there[len(there) // 2]}:
            for name, compare in COMPARISONS.items():
                expected = sorted(
                    repr(each) for each in values if each is not None and each == each and compare(each, literal)
                )
                chosen = table.new_read_builder().with_filter(getattr(predicates, name)(field.name, literal))
                splits = chosen.new_scan().plan().splits()
                read = chosen.new_read().to_arrow(splits).column(field.name).to_pylist() if splits else []
                got = sorted(repr(each) for each in read if each is not None and each == each)
                assert got == expected, f"pypaimon: {field.name} {name} {literal!r}: {got}, {expected}\n{scene}"


@pytest.mark.parametrize("mode", MODES)
def test_filters(engine: Engine, tmp_path: Path, mode: str) -> None:
    """At the bounds of each column, and right beyond them."""
    scene = scene_of(engine, tmp_path, f"statistics.m{list(MODES).index(mode)}", MODES[mode])
    engine("dv_delete", table=scene.table, n=1)
    before = scene.rows()
    report = scene.compact()
    assert report.status == "done", report.refusal
    assert scene.rows() == before
    assert (len(scene.live()) == 1) == (mode in PLAIN)
    tried, empty = judge(scene)
    assert tried > 200
    assert (empty > 0) == (mode not in ("none", "none, not dense", "counts")), (tried, empty)


def test_filters_of_nanoseconds(engine: Engine, tmp_path: Path) -> None:
    scene = scene_of(engine, tmp_path, "statistics.nanos", {}, NANOS)
    assert scene.compact().status == "done"
    judge(scene)


LATER = ("_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME")
"""What each writer has of its own."""


@pytest.mark.parametrize("mode", sorted(PLAIN))
def test_entries_are_those_of_the_engine(engine: Engine, tmp_path: Path, mode: str) -> None:
    """The same files compacted by the engine have the same entry, apart from names, sizes and times."""
    table = f"statistics.e{list(MODES).index(mode)}"
    ours, theirs = (scene_of(engine, tmp_path, f"{table}{who}", MODES[mode]) for who in ("o", "t"))
    for scene in (ours, theirs):
        engine("dv_delete", table=scene.table, n=1, only=scene.live()[:1])
    before = ours.rows()
    assert ours.compact().status == "done"
    assert ours.rows() == before
    engine("compact", table=theirs.table)
    mine, others = _added(ours), _added(theirs)
    for name in LATER:
        del mine["_FILE"][name], others["_FILE"][name]
    shown, expected = (_statistics(scene, entry) for scene, entry in ((ours, mine), (theirs, others)))
    for name in ("c5", "c6"):  # with a NaN the engine says that it is the largest value, which pypaimon does not know
        assert shown.get(name, (None,))[:2] in ((None,), (None, None))
    assert {**shown, "c5": None, "c6": None} == {**expected, "c5": None, "c6": None}
    assert mine == others


def _statistics(scene: Compacted, entry: Record) -> Mapping[str, tuple[Any, Any, int]]:
    """Take the statistics out of an entry, and return them by the name of the column."""
    stats, stated = entry["_FILE"].pop("_VALUE_STATS"), entry["_FILE"]["_VALUE_STATS_COLS"]
    fields = [each for each in scene.fields() if stated is None or each.name in stated]
    types = [each.type if each.type.root not in ("ARRAY", "ROW") else DataType("INT") for each in fields]
    low, high = (decode_row(stats[name], types, "a test") for name in ("_MIN_VALUES", "_MAX_VALUES"))
    names = [each.name for each in fields]
    return dict(zip(names, zip(low, high, stats["_NULL_COUNTS"], strict=True), strict=True))


def _added(scene: Compacted) -> Record:
    (added,) = (entry for entry in entries_of(scene.location, LISTS[1]) if entry["_KIND"] == 0)
    snapshot = json.loads((scene.location / "snapshot" / f"snapshot-{scene.newest()}").read_text())
    for name in ("commitKind", "schemaId", "deltaRecordCount", "totalRecordCount", "changelogRecordCount"):
        added[name] = snapshot.get(name)
    return added


def test_equal_wide_decimals(engine: Engine, tmp_path: Path) -> None:
    """The engine looks for them in dictionaries by other bytes than pyarrow writes there."""
    scene = Compacted(engine, "statistics.wide", tmp_path, Random(1))
    scene.create([["a", "DECIMAL(20, 6)"], ["b", {"type": "ARRAY", "element": "DECIMAL(38, 10)"}]])
    values = ["1.000000", "2.000000", "-0.999999"]
    for _ in range(2):
        engine("typed_put", table=scene.table, rows=[[each, ["1.0000000000"] * 20] for each in values * 20])
    assert scene.compact().status == "done"
    answer = engine("typed_filters", table=scene.table, literals=[["a", [*values, "3.000000"]]])
    assert not answer["wrong"]
