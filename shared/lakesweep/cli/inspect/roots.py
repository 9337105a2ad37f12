"""`lakesweep tags` and `lakesweep branches`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from lakesweep.cli.command import option_of, reads
from lakesweep.cli.options import Place, option
from lakesweep.cli.text import columns, exact_time, human_bytes, human_time
from lakesweep.runs.parameters.signatures import TIME_ZONE


@reads(
    "lakesweep tags s3://lake/sales.db/orders",
    "lakesweep tags /data/orders --tag month-end --json",
    place=("branch", "policy"),
)
def tags(
    place: Place,
    tag: Annotated[list[str] | None, option("--tag", "Only the tag of this name; repeatable.", "NAME")] = None,
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
            return list_tags(opened, tuple(tag or ()), time_zone).to_json()
        except MaintenanceError as error:
            error.args = (as_typed(str(error), [] if time_zone is None else [TIME_ZONE]),)
            raise

    return answer_document(place, read, _tag_lines)


def _tag_lines(document: Mapping[str, Any]) -> Iterator[str]:
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
                row["snapshot_id"],
                row["schema_id"],
                exact_time(row["commit_time_ms"]),
                row["record_count"],
                row["created"] or "-",
                row["time_retained"] or "-",
                human_time(row["ends_ms"]),
            )
            for row in found
        ),
    )


@reads(
    "lakesweep branches s3://lake/sales.db/orders",
    "lakesweep branches /data/orders --sizes --json",
    place=("control",),
)
def branches(
    place: Place,
    sizes: Annotated[
        bool, option("--sizes", "Show how many bytes each branch alone keeps; reads the metadata of all roots.")
    ] = False,
) -> int:
    """List the branches of a table: where each began and what it contains."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.branches import list_branches

    return answer_document(place, lambda opened: list_branches(opened, sizes=sizes), _branch_lines)


def _branch_lines(document: Mapping[str, Any]) -> Iterator[str]:
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
                row["snapshots"]["count"],
                row["snapshots"]["latest"],
                exact_time(row["commit_time_ms"]),
                row["record_count"],
                len(row["tags"]),
                row["schema_id"],
                row["files"],
                None if row["bytes"] is None else human_bytes(row["bytes"]),
            )
            for row in found
        ),
    )


def _origin(origin: Mapping[str, Any] | None) -> str:
    if origin is None:
        return "-"
    return f"snapshot {origin['snapshot']}" if origin["tag"] is None else f"tag {origin['tag']}"
