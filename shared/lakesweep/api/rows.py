"""The rows of one version, as a program asks for them."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lakesweep.api.arguments import required, typed, version_of
from lakesweep.errors import UsageError
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.reading.plan import plan_read
from lakesweep.operations.reading.read import rows_of
from lakesweep.runs.session import Table


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """Rows that are about to be read."""

    table: Table
    plan: ReadPlan
    limit: int | None

    def rows(self, missing: list[str] | None) -> Generator[Any, None, None]:
        """Yield record batches; see `rows_of`."""
        with closing(rows_of(self.table, self.plan, limit=self.limit, missing=missing)) as found:
            for _, batch in found:
                yield batch


def plan_rows(
    table: Table,
    columns: Sequence[str] | None,
    where: str | None,
    time_zone: str,
    limit: int | None,
    version: Mapping[str, Any],
) -> PlannedRows:
    """Return the rows that a call asks for.

    Raises:
        UsageError: An argument is not valid.
        MaintenanceError: As `plan_read`.
    """
    if columns is not None and (
        not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns)
    ):
        raise UsageError(f"columns: expected a list of names, found {columns!r}", code="bad_argument")
    most = typed("limit", limit, int)
    if most is not None and most < 0:
        raise UsageError(f"limit: expected 0 or more, or None for all rows, found {most}", code="bad_argument")
    chosen, falls_back = version_of(version)
    plan = plan_read(
        table,
        chosen,
        columns=columns,
        where=typed("where", where, str),
        zone=required("time_zone", time_zone, str),
        falls_back_to_tags=falls_back,
    )
    if plan.where is not None and plan.where.note:
        table.say(plan.where.note)
    return PlannedRows(table, plan, most)
