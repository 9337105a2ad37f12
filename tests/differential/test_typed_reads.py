"""Lakesweep reads the engine's rows: of real tables, after every change of a type, and in random histories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakesweep.errors import MaintenanceError
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
def test_many_histories(engine: Engine) -> None:
    """Most of them are read, not refused."""
    compared = refused = 0
    for seed in range(200, 400):
        seen = play(engine, seed).seen
        compared += seen.compared
        refused += sum(seen.refused.values())
    assert compared > 2 * refused
