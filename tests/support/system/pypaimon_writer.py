"""The process that writes with pypaimon, which never expires anything.

What each snapshot must hold is known here without reading it: sums of rows are kept beside the table. Only after an
error, when nobody can know whether the commit came through, the table is asked.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow
from pypaimon import CatalogFactory, Schema

from tests.support.system.writer_loop import DivergedError, Made, run
from tests.support.system.written import REGION, Assignment, RowSum, Table, sum_of, together

DAYS = ("mon", "tue", "wed")
ROWS = 20
"""In each partition that a commit writes to."""
KEYS = 90
"""Of a table with a primary key."""
OVERWRITE_EVERY = {"partitioned": 3, "plain": 4, "keyed": 5}
"""Shape -> so many commits, and one of them replaces a partition or the table, so that data files die."""

_COLUMNS = pyarrow.schema(
    [
        pyarrow.field("id", pyarrow.int64(), nullable=False),
        pyarrow.field("day", pyarrow.string(), nullable=False),
        pyarrow.field("amount", pyarrow.int64()),
    ]
)
Row = tuple[int, str, int]
Cell = int | str
"""What a commit replaces or adds to: a primary key, or a day."""


@dataclass(frozen=True, slots=True)
class _Change:
    rows: tuple[Row, ...]
    overwrite: Mapping[str, str] | None
    after: Mapping[Cell, RowSum]
    """The whole table, afterwards."""


@dataclass(slots=True)
class _State:
    table: Any
    snapshot_id: int = 0
    number: int = 0
    cells: Mapping[Cell, RowSum] = field(default_factory=dict)
    change: _Change = field(default_factory=lambda: _Change((), None, {}))
    """The last one that was tried."""


class Pypaimon:
    """Tables in one warehouse."""

    def __init__(self, assignment: Assignment) -> None:
        self._catalog = CatalogFactory.create(
            {
                "warehouse": assignment.warehouse,
                "s3.endpoint": assignment.endpoint,
                "s3.region": REGION,
                "s3.access-key": os.environ["AWS_ACCESS_KEY_ID"],
                "s3.secret-key": os.environ["AWS_SECRET_ACCESS_KEY"],
                "s3.path-style-access": "true",
            }
        )
        self._states: dict[str, _State] = {}

    def create(self, table: Table) -> None:
        self._catalog.create_database(table.name.split(".")[0], True)
        of_shape: dict[str, dict[str, Any]] = {
            "partitioned": {"partition_keys": ["day"], "options": {"bucket": "-1"}},
            "plain": {"options": {"bucket": "-1"}},
            "keyed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
        }
        more = of_shape[table.shape]
        options = more.pop("options") | table.schema_options
        schema = Schema.from_pyarrow_schema(_COLUMNS, options=options, **more)
        self._catalog.create_table(table.name, schema, False)
        self._states[table.name] = _State(self._catalog.get_table(table.name))

    def commit(self, table: Table) -> Made | None:
        state = self._states[table.name]
        state.change = change = _change(table.shape, state.number + 1, state.cells)
        _write(state.table, change)
        at = time.time()
        # pypaimon tries again by itself, and might have committed twice.
        latest = _latest_id(state.table)
        return _come_through(state, change, latest, at) if latest == state.snapshot_id + 1 else self.settle(table)

    def settle(self, table: Table) -> Made | None:
        state = self._states[table.name]
        latest, at = _latest_id(state.table), time.time()
        if latest == state.snapshot_id:
            return None
        wanted, found = together(state.change.after.values()), _rows(state.table, latest, None)
        if wanted.digest != found.digest:
            raise DivergedError(f"snapshot {latest} holds {found.rows} rows where {wanted.rows} others were written")
        return _come_through(state, state.change, latest, at)

    def tag(self, table: Table, name: str, snapshot_id: int) -> None:
        self._states[table.name].table.create_tag(name, snapshot_id)

    def read(self, table: Table, snapshot_id: int | None, tag: str | None) -> tuple[int, str]:
        found = _rows(self._states[table.name].table, snapshot_id, tag)
        return found.rows, found.digest

    def close(self) -> None:
        """Leave nothing: there is no connection to end."""


def _come_through(state: _State, change: _Change, snapshot_id: int, at: float) -> Made:
    state.snapshot_id, state.cells = snapshot_id, change.after
    state.number += 1
    rows = together(change.after.values())
    return Made(snapshot_id, at, rows.rows, rows.digest)


def _change(shape: str, number: int, cells: Mapping[Cell, RowSum]) -> _Change:
    """Say what a table's commit of this number does."""
    replaces = number % OVERWRITE_EVERY[shape] == 0
    first = number * 1000
    if shape == "keyed":
        rows = tuple(((number * 7 + index) % KEYS, DAYS[index % 3], first + index) for index in range(2 * ROWS))
        new: dict[Cell, RowSum] = {row[0]: sum_of([row]) for row in rows}
        return _Change(rows, {} if replaces else None, new if replaces else {**cells, **new})
    days = (DAYS[number // OVERWRITE_EVERY[shape] % 3],) if replaces and shape == "partitioned" else DAYS
    of_day = {
        day: tuple((first + 100 * place + index, day, index * number) for index in range(ROWS))
        for place, day in enumerate(days)
    }
    rows = tuple(row for some in of_day.values() for row in some)
    sums: dict[Cell, RowSum] = {day: sum_of(some) for day, some in of_day.items()}
    if not replaces:
        return _Change(rows, None, {day: together([cells.get(day, RowSum()), some]) for day, some in sums.items()})
    if shape == "plain":
        return _Change(rows, {}, sums)
    return _Change(rows, {"day": days[0]}, {**cells, **sums})


def _write(table: Any, change: _Change) -> None:
    builder = table.new_batch_write_builder()
    if change.overwrite is not None:
        builder.overwrite(dict(change.overwrite))
    write, commit = builder.new_write(), builder.new_commit()
    try:
        columns = [pyarrow.array(column) for column in zip(*change.rows, strict=True)]
        write.write_arrow(pyarrow.table(columns, schema=_COLUMNS))
        commit.commit(write.prepare_commit())
    finally:
        write.close()
        commit.close()


def _latest_id(table: Any) -> int:
    latest = table.snapshot_manager().get_latest_snapshot()
    return 0 if latest is None else int(latest.id)


def _rows(table: Any, snapshot_id: int | None, tag: str | None) -> RowSum:
    if snapshot_id is not None:
        table = table.copy({"scan.snapshot-id": str(snapshot_id)})
    if tag is not None:
        table = table.copy({"scan.tag-name": tag})
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits()).select(_COLUMNS.names).to_pydict()
    return sum_of(zip(*found.values(), strict=True))


if __name__ == "__main__":
    run(Pypaimon)
