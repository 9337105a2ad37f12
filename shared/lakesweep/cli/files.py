"""`lakesweep files`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep files /data/orders",
    "lakesweep files /data/orders --tag 2026-01-31 --json",
    "lakesweep files s3://lake/sales.db/orders --timestamp 2026-01-31T12:00:00Z",
)


@at_place("branch")
def files(
    place: Place,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", metavar="N", help="The version of this snapshot; else the latest.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The version of this tag.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIME",
            help="The greatest snapshot committed then or before: ISO-8601 with a zone, or epoch milliseconds.",
        ),
    ] = None,
) -> int:
    """List the data files of one version of a table."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.context import Table
    from lakesweep.operations.files import Version, list_files
    from lakesweep.operations.times import parse_time_ms

    def read(opened: Table) -> Mapping[str, object]:
        timestamp_ms = None if timestamp is None else parse_time_ms(timestamp, "--timestamp")
        return list_files(opened, Version(snapshot, tag, timestamp_ms)).to_json()

    return answer_document(place, read, _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, counted, human_bytes

    found = document["files"]
    if document["snapshot_id"] is None:
        yield f"{document['table']}, branch {document['branch']}: no snapshot, so no files"
        return
    if found:
        yield from columns(
            ("PATH", "BYTES", "ROWS", "LEVEL"),
            ((f["path"], str(f["size_bytes"]), str(f["rows"]), str(f["level"])) for f in found),
        )
    size, rows = sum(f["size_bytes"] for f in found), sum(f["rows"] for f in found)
    amount = f"{counted(len(found), 'file')}, {human_bytes(size)}, {counted(rows, 'row')}"
    yield f"snapshot {document['snapshot_id']}: {amount}"
