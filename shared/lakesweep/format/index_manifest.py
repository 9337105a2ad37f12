"""Index manifests: every index file of a snapshot. Source: Paimon `IndexManifestEntry`, `IndexFileMeta`.

An index manifest is the whole state, not a log: it names all current index files. A commit that changes an index writes
a new manifest.
"""

from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.metadata_file import check_version, read_rows
from lakesweep.format.values.json_document import check_file_name, describe
from lakesweep.format.values.uri import check_external_path

VERSION = 1

DELETION_VECTORS = "DELETION_VECTORS"
HASH = "HASH"

_WANTS = (
    Want("_VERSION", "int", required=True),
    Want("_KIND", "int", required=True),
    Want("_PARTITION", "bytes", required=True),
    Want("_BUCKET", "int", required=True),
    Want("_INDEX_TYPE", "string", required=True),
    Want("_FILE_NAME", "string", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_ROW_COUNT", "int", required=True),
    Want("_EXTERNAL_PATH", "string"),
    Want(
        "_DELETIONS_VECTORS_RANGES",
        "records",
        fields=(
            Want("f0", "string", required=True),
            Want("f1", "int", required=True),
            Want("f2", "int", required=True),
            Want("_CARDINALITY", "int"),
        ),
    ),
)

VectorRange = tuple[str, int, int, int | None]
"""Data file, offset of the vector's length word, length, number of deleted rows if known."""


class IndexEntry(NamedTuple):
    """One index file."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    external_path: str | None
    vectors: tuple[VectorRange, ...]
    """The deletion vectors in the file; empty for any other kind of index."""


def read_index_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> tuple[IndexEntry, ...]:
    """Read an index manifest."""
    return tuple(_entry(row, path) for row in read_rows(body, path, _WANTS, expected_size))


def _entry(row: Row, path: str) -> IndexEntry:
    version, kind, partition, bucket, index_type, name, size, row_count, external_path, vectors = row
    check_version(version, VERSION, path)
    if kind != 0:
        raise FormatError(f"{path}: expected only additions in an index manifest, found the kind {kind}")
    if size < 0 or row_count < 0:
        raise FormatError(f"{path}: expected a size and row count of {describe(name)}, found {size} and {row_count}")
    check_file_name(name, path, "_FILE_NAME")
    if external_path is not None:
        check_external_path(external_path, path, "_EXTERNAL_PATH")
    for data_file, offset, length, _ in vectors or ():
        check_file_name(data_file, path, "f0")
        if offset < 0 or length < 0:
            found = f"{offset}, {length}"
            raise FormatError(f"{path}: expected the place of the vector of {describe(data_file)}, found {found}")
    return IndexEntry(partition, bucket, index_type, name, size, row_count, external_path, vectors or ())
