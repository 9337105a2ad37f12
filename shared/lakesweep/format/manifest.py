"""Manifests: the data files that a commit added and deleted.

Source: Paimon `ManifestEntry`, `DataFileMeta`, `FileEntry`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.metadata_file import check_version, read_rows
from lakesweep.format.values.json_document import check_file_name, describe
from lakesweep.format.values.uri import check_external_path

VERSION = 2
ADD = 0
DELETE = 1

COMPACT = 1
"""The file source of files that a compaction rewrote. All other files, also of unknown source, come from commits."""

POSTPONE_BUCKET = -2
"""The bucket of files whose real bucket is not decided yet. There are no lower numbers."""

_WANTS = (
    Want("_VERSION", "int", required=True),
    Want("_KIND", "int", required=True),
    Want("_PARTITION", "bytes", required=True),
    Want("_BUCKET", "int", required=True),
    Want(
        "_FILE",
        "record",
        required=True,
        fields=(
            Want("_LEVEL", "int", required=True),
            Want("_FILE_NAME", "string", required=True),
            Want("_FILE_SIZE", "int", required=True),
            Want("_EXTRA_FILES", "strings", required=True),
            Want("_EMBEDDED_FILE_INDEX", "bytes"),
            Want("_EXTERNAL_PATH", "string"),
            Want("_FILE_SOURCE", "int"),
            Want("_ROW_COUNT", "int", required=True),
        ),
    ),
)

Identity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class ManifestEntry(NamedTuple):
    """One data file, added or deleted."""

    is_add: bool
    partition: bytes
    """The partition's values as one row. Two partitions are equal if these bytes are equal; see `binary_row`."""
    bucket: int
    level: int
    file_name: str
    file_size: int
    extra_files: tuple[str, ...]
    """Files beside the data file that are deleted together with it."""
    embedded_index: bytes | None
    external_path: str | None
    """The path of a data file outside the table's own folder, exactly as written."""
    file_source: int | None
    """0 written, 1 compacted, None unknown."""
    row_count: int

    @property
    def identity(self) -> Identity:
        """The values that a DELETE must match, byte by byte, to delete an ADD."""
        return (
            self.partition,
            self.bucket,
            self.level,
            self.file_name,
            self.extra_files,
            self.embedded_index,
            self.external_path,
        )


def read_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> Iterator[ManifestEntry]:
    """Read a manifest, in the order of the file.

    The frame is checked before this returns. Entries are decoded block by block, so an error may come after some of
    them; the entries so far are not all.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The `file_size` that the manifest list records.
    """
    return _entries(read_rows(body, path, _WANTS, expected_size), path)


def live_entries(manifests: Iterable[Iterable[ManifestEntry]]) -> list[ManifestEntry]:
    """Return the ADDs without a matching DELETE, in their order.

    The position of a DELETE does not matter: even an entry that is added again later remains deleted.
    """
    added: list[ManifestEntry] = []
    deleted: set[Identity] = set()
    for manifest in manifests:
        for entry in manifest:
            if entry.is_add:
                added.append(entry)
            else:
                deleted.add(entry.identity)
    return [entry for entry in added if entry.identity not in deleted] if deleted else added


def _entries(rows: Iterator[Row], path: str) -> Iterator[ManifestEntry]:
    for version, kind, partition, bucket, file in rows:
        level, name, size, extra_files, index, external_path, source, row_count = file
        if version != VERSION:
            check_version(version, VERSION, path)
        if kind != ADD and kind != DELETE:
            raise FormatError(f"{path}: expected the kind 0 or 1 of {describe(name)}, found {kind}")
        if bucket < POSTPONE_BUCKET or level < 0 or size < 0 or row_count < 0:
            raise FormatError(
                f"{path}: expected a bucket, level, size and row count of {describe(name)}, "
                f"found {bucket}, {level}, {size} and {row_count}"
            )
        # Nearly every name passes these cheap checks; a name of 255 characters takes at most 1 020 bytes.
        if not 0 < len(name) < 256 or "/" in name or name[0] == "." or not name.isprintable():
            check_file_name(name, path, "_FILE_NAME")
        for extra in extra_files:
            check_file_name(extra, path, "_EXTRA_FILES")
        if external_path is not None:
            check_external_path(external_path, path, "_EXTERNAL_PATH")
        yield ManifestEntry(
            kind == ADD, partition, bucket, level, name, size, extra_files, index, external_path, source, row_count
        )
