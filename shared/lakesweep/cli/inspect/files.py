"""`lakesweep files`."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.command import reads
from lakesweep.cli.inspect.version import VersionOptions
from lakesweep.cli.options import Place
from lakesweep.cli.text import columns, counted, human_bytes


@reads(
    "lakesweep files /data/orders",
    "lakesweep files /data/orders --tag 2026-01-31 --json",
    "lakesweep files s3://lake/sales.db/orders --timestamp 2026-01-31T12:00:00Z",
    "lakesweep files s3://lake/sales.db/orders --version watermark-1769860800000",
    place=("branch",),
    more=VersionOptions,
)
def files(place: Place, version: VersionOptions) -> int:
    """List the data files of one version of a table: the latest snapshot, unless an option names another version."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.files import list_files
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        return list_files(opened, version.parse(), falls_back_to_tags=version.fall_back_to_tags).to_json()

    return answer_document(place, read, _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
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
    held = "" if document["tag"] is None else f", held by tag {document['tag']}"
    yield f"snapshot {document['snapshot_id']}{held}: {amount}"
