"""`lakesweep files`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from lakesweep.cli.command import reads
from lakesweep.cli.inspect.version import VersionOptions
from lakesweep.cli.options import Place, option
from lakesweep.cli.text import columns, counted, human_bytes
from lakesweep.errors import some_of

_SHOWN = 20
"""This many deleted rows of a file are printed as text."""


@reads(
    "lakesweep files /data/orders",
    "lakesweep files /data/orders --tag 2026-01-31 --json",
    "lakesweep files s3://lake/sales.db/orders --timestamp 2026-01-31T12:00:00Z",
    "lakesweep files s3://lake/sales.db/orders --version watermark-1769860800000",
    "lakesweep files s3://lake/sales.db/orders --with-deletion-vectors",
    place=("branch",),
    more=VersionOptions,
)
def files(
    place: Place,
    version: VersionOptions,
    with_deletion_vectors: Annotated[
        bool, option("--with-deletion-vectors", "Say how many rows a deletion vector deletes, and where it lies.")
    ] = False,
    positions: Annotated[
        bool, option("--positions", "Read the deletion vectors too, and list the deleted rows, from 0.")
    ] = False,
) -> int:
    """List the data files of one version of a table: the latest snapshot, unless an option names another version."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.files import list_files
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        return list_files(
            opened,
            version.parse(),
            falls_back_to_tags=version.fall_back_to_tags,
            with_vectors=with_deletion_vectors,
            with_positions=positions,
        ).to_json()

    return answer_document(place, read, _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["files"]
    if document["snapshot_id"] is None:
        yield f"{document['table']}, branch {document['branch']}: no snapshot, so no files"
        return
    if found:
        has_vectors = "deletion_vector" in found[0]
        yield from columns(
            ("PATH", "BYTES", "ROWS", "LEVEL", *(("DELETED", "VECTOR") if has_vectors else ())),
            ((f["path"], str(f["size_bytes"]), str(f["rows"]), str(f["level"]), *_vector(f)) for f in found),
        )
        for file in found:
            if (file.get("deletion_vector") or {}).get("positions"):
                yield f"{file['path']}: {some_of(file['deletion_vector']['positions'], _SHOWN)}"
    size, rows = sum(f["size_bytes"] for f in found), sum(f["rows"] for f in found)
    amount = f"{counted(len(found), 'file')}, {human_bytes(size)}, {counted(rows, 'row')}"
    held = "" if document["tag"] is None else f", held by tag {document['tag']}"
    yield f"snapshot {document['snapshot_id']}{held}: {amount}"


def _vector(file: Mapping[str, Any]) -> tuple[str, ...]:
    if "deletion_vector" not in file:
        return ()
    vector = file["deletion_vector"]
    if vector is None:
        return "0", ""
    deleted = "?" if vector["cardinality"] is None else str(vector["cardinality"])
    return deleted, f"{vector['index_file']}, byte {vector['offset']}"
