"""`lakesweep tags`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.command import option_of
from lakesweep.cli.options import Place, at_place
from lakesweep.runs.parameters.signatures import TIME_ZONE

EXAMPLES = (
    "lakesweep tags s3://lake/sales.db/orders",
    "lakesweep tags /data/orders --name month-end --json",
)


@at_place("branch", "policy")
def tags(
    place: Place,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Only the tag of this name; repeatable.")
    ] = None,
    time_zone: Annotated[str | None, option_of(TIME_ZONE)] = None,
) -> int:
    """List the tags of a branch, with the snapshot and the end of life of each."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.operation import as_typed
    from lakesweep.errors import MaintenanceError
    from lakesweep.operations.inspect.tags import list_tags
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        try:
            return list_tags(opened, tuple(name or ()), time_zone).to_json()
        except MaintenanceError as error:
            error.args = (as_typed(str(error), [] if time_zone is None else [TIME_ZONE]),)
            raise

    return answer_document(place, read, _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, exact_time, human_time

    found = document["tags"]
    if not found:
        yield f"{document['table']}, branch {document['branch']}: no tags"
        return
    yield from columns(
        ("NAME", "SNAPSHOT", "SCHEMA", "COMMITTED", "ROWS", "CREATED", "RETAINED", "ENDS"),
        (
            (row["name"], "unreadable", "-", "-", "-", "-", "-", "-")
            if row["problem"] is not None
            else (
                row["name"],
                str(row["snapshot_id"]),
                str(row["schema_id"]),
                exact_time(row["commit_time_ms"]),
                "-" if row["record_count"] is None else str(row["record_count"]),
                row["created"] or "-",
                row["time_retained"] or "-",
                human_time(row["ends_ms"]),
            )
            for row in found
        ),
    )
