"""Manifest lists: the manifests that make up a snapshot. Source: Paimon `ManifestFileMeta`."""

from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.metadata_file import check_version, read_rows
from lakesweep.format.values.json_document import check_file_name, describe

VERSION = 2

_WANTS = (
    Want("_VERSION", "int", required=True),
    Want("_FILE_NAME", "string", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_NUM_ADDED_FILES", "int", required=True),
    Want("_NUM_DELETED_FILES", "int", required=True),
    Want("_SCHEMA_ID", "int", required=True),
    Want("_PARTITION_STATS", "record", fields=(Want("_MIN_VALUES", "bytes"), Want("_MAX_VALUES", "bytes"))),
    Want("_EXTRA_FILES", "strings"),
    Want("_MIN_BUCKET", "int"),
    Want("_MAX_BUCKET", "int"),
    Want("_MIN_LEVEL", "int"),
    Want("_MAX_LEVEL", "int"),
    Want("_MIN_ROW_ID", "int"),
    Want("_MAX_ROW_ID", "int"),
    Want("_TOTAL_BUCKETS", "int"),
)


class ManifestMeta(NamedTuple):
    """One manifest, as a manifest list describes it. Ranges are None if the writer did not record them."""

    file_name: str
    file_size: int
    added_count: int
    deleted_count: int
    schema_id: int
    partition_min: bytes | None
    """The smallest value of each partition key, as one row; see `binary_row`."""
    partition_max: bytes | None
    extra_files: tuple[str, ...]
    """Side files of the manifest, which are deleted together with it."""
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    total_buckets: int | None = None


def read_manifest_list(body: bytes, path: str, *, expected_size: int | None = None) -> tuple[ManifestMeta, ...]:
    """Read a manifest list, in the order of the file, since expiry depends on this order.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The size that the snapshot states (`base_manifest_list_size` and similar fields), if any.
    """
    return tuple(_meta(row, path) for row in read_rows(body, path, _WANTS, expected_size))


def _meta(row: Row, path: str) -> ManifestMeta:
    version, name, size, added, deleted, schema_id, stats, extra_files, *ranges = row
    check_version(version, VERSION, path)
    if min(size, added, deleted) < 0:
        raise FormatError(
            f"{path}: expected a size and counts of {describe(name)}, found {size}, {added} and {deleted}"
        )
    partition_min, partition_max = stats or (None, None)
    return ManifestMeta(
        check_file_name(name, path, "_FILE_NAME"),
        size,
        added,
        deleted,
        schema_id,
        partition_min,
        partition_max,
        tuple(check_file_name(extra, path, "_EXTRA_FILES") for extra in extra_files or ()),
        *ranges,
    )
