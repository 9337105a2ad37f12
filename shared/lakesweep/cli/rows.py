"""The command that deletes rows."""

import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lakesweep.cli.command import Typed, command
from lakesweep.cli.options import Place
from lakesweep.cli.run_id import RUN_ID, leaving, of_run
from lakesweep.runs.parameters import rows as given

if TYPE_CHECKING:
    from lakesweep.model.report import RunReport
    from lakesweep.runs.session import Table

_HIDDEN = "..."
"""Stands for a condition in a command line that is printed: its values may be what somebody wants to be forgotten."""


@command(
    given.DELETE_ROWS,
    "lakesweep delete-rows s3://lake/sales.db/orders --where \"region = 'eu' AND price > 10\"",
    "lakesweep delete-rows s3://lake/sales.db/orders --where-file forget.sql --show-rows",
    "lakesweep delete-rows s3://lake/sales.db/orders --where-file s3://ops/lakesweep/conditions/forget.sql "
    "--catalog-type filesystem --control s3://ops/lakesweep --engine spark --execute",
    "lakesweep delete-rows /data/orders --where-file forget.sql --catalog-type filesystem --execute",
    last=(RUN_ID,),
)
def delete_rows(typed: Typed) -> int:
    """Delete rows from the newest version of a table, in one new snapshot.

    For append tables without buckets. Where deletion-vectors.enabled is true, vectors hide the rows, and files keep
    them until a compaction. Elsewhere data files with such rows are rewritten in Parquet. If every row of a file is
    deleted, the file leaves the table. Older snapshots, tags and branches still show the rows: the plan names them, and
    until when. The values of the condition come into no plan, report or log, unless --keep-condition; but partitions
    are named. Rows that others add until the commit stay. Needs the extra `read`. The rules of a fleet policy that
    count here are `pause`, `catalog_type`, `catalog_lock` and `time_zone`. Prints the plan, and changes nothing without
    --execute.
    """
    from lakesweep.cli.next_command import next_command

    def following(place: Place, report: "RunReport") -> str:
        return hidden_command(typed, place) if next_command(place, report) else ""

    return typed.run(complete=partial(with_condition, typed), following=following, finished=leaving(typed))


def with_condition(
    typed: Typed, table: "Table", values: Mapping[str, Any], *, is_optional: bool = False
) -> "tuple[Table, Mapping[str, Any]]":
    """Return a table with the engine, and the arguments with the condition from a file of this machine.

    Args:
        typed: The command line.
        table: The opened table.
        values: The arguments.
        is_optional: The call may have no condition.

    Raises:
        UsageError: There is none, there are two, or it cannot be read or would be seen.
    """
    from lakesweep.api.conditions import stated_condition

    return stated_condition(typed.place, of_run(typed, table), typed.signature, values, is_optional=is_optional)


def hidden_command(typed: Typed, place: Place) -> str:
    """Return the command line that executes what was planned, without the condition."""
    words = ["lakesweep", typed.signature.name, place.table]
    for parameter in typed.signature.parameters:
        value = typed.values.get(parameter.name)
        if value is None or parameter == given.SHOW_ROWS:
            continue
        for each in value if isinstance(value, list) else (value,):
            words += [str(parameter.typed), *(() if each is True else (_HIDDEN if parameter == given.WHERE else each,))]
    branch = () if place.branch == "main" else ("branch",)
    words += place.words(*branch, "policy", "control", "local_control", "endpoint_url", "region", "external_root")
    return shlex.join([*words, "--execute"])
