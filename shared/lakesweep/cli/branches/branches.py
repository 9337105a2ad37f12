"""`lakesweep branches`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep branches s3://lake/sales.db/orders",
    "lakesweep branches /data/orders --sizes --json",
)


@at_place("control")
def branches(
    place: Place,
    sizes: Annotated[
        bool,
        typer.Option("--sizes", help="Show how many bytes each branch alone keeps; reads the metadata of all roots."),
    ] = False,
) -> int:
    """List the branches of a table: where each began and what it contains."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.branches import list_branches

    return answer_document(place, lambda opened: list_branches(opened, sizes=sizes), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, exact_time, human_bytes

    found = document["branches"]
    if not found:
        yield f"{document['table']}: no branches"
        return
    yield from columns(
        ("NAME", "FROM", "SNAPSHOTS", "NEWEST", "COMMITTED", "ROWS", "TAGS", "SCHEMA", "FILES", "ALONE"),
        (
            (
                row["name"],
                _origin(row["from"]),
                str(row["snapshots"]["count"]),
                _number(row["snapshots"]["latest"]),
                exact_time(row["commit_time_ms"]),
                _number(row["record_count"]),
                str(len(row["tags"])),
                _number(row["schema_id"]),
                _number(row["files"]),
                "-" if row["bytes"] is None else human_bytes(row["bytes"]),
            )
            for row in found
        ),
    )


def _origin(origin: Mapping[str, Any] | None) -> str:
    if origin is None:
        return "-"
    return f"snapshot {origin['snapshot']}" if origin["tag"] is None else f"tag {origin['tag']}"


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)
