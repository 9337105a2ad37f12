"""Lakesweep reads the engine's rows: of real tables, after every change of a type, and in random histories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.model.reading.casts import unsupported
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.typed_history import TypedHistory, lines
from tests.differential.typed_values import PLAIN, parsed, rows
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.rows_read import arrow_rows, planned
from tests.support.typed_rows import shown_rows

pytestmark = pytest.mark.differential
NOT_READ = {
    "parquet-append_table_with_rt_branch": "several_branches",
    "parquet-blob_append_table_alter_table_with_cast_with_data_evolution": "unsupported_type",
    "parquet-pk_dv_index_in_data_with_external": "missing_data_file",
    "parquet-pk_table_scan_and_read_mor": "needs_merge",
}


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_fixture_tables(engine: Engine, fixtures_dir: Path, name: str) -> None:
    """Every snapshot, and the latest by the latest schema."""
    location = fixtures_dir / "tables" / name
    store = LocalStore(str(location))
    ids = [int(path.name[9:]) for path in (location / "snapshot").glob("snapshot-*")]
    for snapshot_id in [None, *ids]:
        try:
            plan = planned(store, Version(snapshot_id=snapshot_id), open_store=LocalStore)
            found = shown_rows(arrow_rows(store, plan, LocalStore), [column.field for column in plan.columns])
        except MaintenanceError as error:
            assert NOT_READ[name] == error.code or "index_file" in error.code
            continue
        options = {} if snapshot_id is None else {"scan.snapshot-id": str(snapshot_id)}
        theirs = engine("typed_rows", location=str(location), options=options)
        types = [column.field.type for column in plan.columns]
        assert [name for name, _ in theirs["columns"]] == [column.name for column in plan.columns]
        assert sorted(lines(found, types)) == sorted(lines(theirs["rows"], types))


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.parametrize("found", PLAIN)
def test_casts(engine: Engine, found: str, format_: str) -> None:
    """A column of each other type; what is not refused has the engine's values."""
    table = f"casts.{format_}_{PLAIN.index(found)}"
    columns = [[f"c{number}", found] for number in range(len(PLAIN))]
    engine("typed_create", table=table, columns=columns, options={**RETAIN_EVERYTHING, "file.format": format_})
    values = [row[0] for row in rows(random.Random(found), [parsed(found)], 150)]
    if (found, format_) == ("TIMESTAMP(9)", "parquet"):
        values = [value for value in values if value is None or value[0] >= 0]  # see test_time_stamps_before_1970
    engine("typed_put", table=table, rows=[[value] * len(PLAIN) for value in values])
    read = []
    for number, wanted in enumerate(PLAIN):
        try:
            engine("typed_alter", table=table, changes=[["type", [f"c{number}"], wanted]])
        except EngineError:
            continue
        if any(unsupported(parsed(found), parsed(wanted))):
            engine("typed_alter", table=table, changes=[["drop", [f"c{number}"], None]])
        else:
            read.append(f"c{number}")
    assert read
    store = LocalStore(str(engine.location(table)))
    plan = planned(store)
    mine = arrow_rows(store, plan)
    theirs = engine("typed_rows", table=table)
    for number, column in enumerate(plan.columns):
        assert theirs["columns"][number][0] == column.name
        ours = [row[0] for row in shown_rows(mine.select([column.name]), [column.field])]
        others = [row[number] for row in theirs["rows"]]
        wrong = [(value, a, b) for value, a, b in zip(values, ours, others, strict=True) if a != b]
        assert not wrong, f"{found} as {theirs['columns'][number]}: {wrong[:5]}"


FAR = [[32503680000123, 0], [-62135596800000, 0], [5, 0]]
"""Years 3000 and 1, and 1970."""


@pytest.mark.parametrize(
    ("format_", "type_", "code"),
    [
        ("parquet", "TIMESTAMP(6)", None),
        ("parquet", "TIMESTAMP(9)", "out_of_range"),
        ("parquet", "TIMESTAMP_LTZ(9)", "out_of_range"),
        ("orc", "TIMESTAMP(3)", "out_of_range"),
        ("orc", "TIMESTAMP_LTZ(6)", "out_of_range"),
        ("avro", "TIMESTAMP(6)", None),
    ],
)
def test_far_time_stamps(engine: Engine, format_: str, type_: str, code: str | None) -> None:
    """Where pyarrow would return other values without a word, they are refused; also in an ARRAY."""
    table = f"far.{format_}_{type_.partition('(')[0]}{type_[-2]}".lower()
    columns = [["a", type_], ["b", {"type": "ARRAY", "element": type_}], ["c", "INT"]]
    engine("typed_create", table=table, columns=columns, options={"file.format": format_})
    engine("typed_put", table=table, rows=[[each, [[5, 0], each], 1] for each in FAR])
    store = LocalStore(str(engine.location(table)))
    for name in ("a", "b"):
        plan = planned(store, columns=[name])
        if code is not None:
            with pytest.raises(RefusedError) as refused:
                arrow_rows(store, plan)
            assert refused.value.code == code
        else:
            theirs = [row["ab".index(name)] for row in engine("typed_rows", table=table)["rows"]]
            assert [row[0] for row in shown_rows(arrow_rows(store, plan), [plan.columns[0].field])] == theirs
    assert arrow_rows(store, planned(store, columns=["c"])).num_rows == 3


@pytest.mark.parametrize(("value", "is_read"), [([-1, 999_999], False), ([-86_400_000, 0], True), ([0, 1], True)])
def test_time_stamps_before_1970(engine: Engine, value: list[int], is_read: bool) -> None:
    """Paimon writes a negative time of day into 96 bits. pyarrow returns the same for it and for a year after 2262."""
    table = f"before.t{abs(value[0])}"
    engine("typed_create", table=table, columns=[["a", "TIMESTAMP(9)"]], options={"file.format": "parquet"})
    engine("typed_put", table=table, rows=[[value]])
    store = LocalStore(str(engine.location(table)))
    plan = planned(store)
    if is_read:
        assert shown_rows(arrow_rows(store, plan), [plan.columns[0].field]) == engine("typed_rows", table=table)["rows"]
        return
    with pytest.raises(RefusedError, match="before 1970") as refused:
        arrow_rows(store, plan)
    assert refused.value.code == "out_of_range"


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("type_", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
@pytest.mark.parametrize("near", [False, True])
def test_writers_in_other_zones(engine: Engine, zone: str, type_: str, near: bool) -> None:
    """ORC depends on the zone of the writer: the rows are those of the engine in UTC, or they are refused."""
    table = f"zones.{zone.partition('/')[2]}_{type_[:-3]}_{near}".lower()
    engine("clock", name=zone)
    try:
        columns = [["a", type_], ["b", "TIMESTAMP(3)"]]
        engine("typed_create", table=table, columns=columns, options={"file.format": "orc"})
        values = [[1704164645678, 0], [1720000000000, 0], [-2208988800001, 0]] + ([[5, 0], [-1, 0]] if near else [])
        engine("typed_put", table=table, rows=[[value, None] for value in values])
    finally:
        engine("clock", name="UTC")
    store = LocalStore(str(engine.location(table)))
    plan = planned(store, columns=["a"])
    if near or "LTZ" in type_:
        with pytest.raises(RefusedError) as refused:
            arrow_rows(store, plan)
        assert refused.value.code == "orc_time_zone"
        return
    assert shown_rows(arrow_rows(store, plan), [plan.columns[0].field]) == [[value] for value in values]
    assert engine("typed_rows", table=table)["rows"] == [[value, None] for value in values]


def play(engine: Engine, seed: int) -> TypedHistory:
    history = TypedHistory(engine, f"typed.t{seed}", seed)
    history.create()
    history.put()
    for _ in range(10):
        history.step()
    history.put()
    history.check()
    return history


@pytest.mark.parametrize("seed", range(6))
def test_histories(engine: Engine, seed: int) -> None:
    """Schema changes of any kind, three formats, partitions of many types, vectors of both widths, external files."""
    assert play(engine, seed).seen.compared


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1200, 50))
def test_many_histories(engine: Engine, first: int) -> None:
    """Most of them are read, not refused."""
    compared = refused = 0
    for seed in range(first, first + 50):
        seen = play(engine, seed).seen
        compared += seen.compared
        refused += sum(seen.refused.values())
    assert compared > 2 * refused
