"""Index manifests, written from the records of an older one.

An index manifest is the whole state. A commit that deletes index files writes a new one, with the records of the
files that remain. They are copied as bytes, so fields that Lakesweep does not know, such as those of global indexes,
remain as they are.

Source: Paimon `IndexManifestFileHandler`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.format.avro.container_writer import write_container
from lakesweep.format.avro.projection import read_rows
from lakesweep.format.manifest import IndexEntry, index_entry_of
from lakesweep.format.manifest_fields import INDEX, RAW
from lakesweep.format.metadata_file import read_avro


@dataclass(frozen=True, slots=True)
class RawIndex:
    """An index manifest and the bytes of its records, in the order of the file."""

    path: str
    schema_text: bytes
    """The writer's schema, of all records."""
    rows: tuple[tuple[bytes, IndexEntry], ...]


def read_raw_index_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> RawIndex:
    """Read an index manifest.

    Raises:
        FormatError: The file is damaged, or has another size.
        UnsupportedFormatError: The file is not Avro (`manifest_format`), or a later version wrote it.
    """
    file = read_avro(body, path, expected_size)
    rows = tuple((row[-1], index_entry_of(row[:-1], path)) for row in read_rows(file, (*INDEX, RAW)))
    return RawIndex(path, file.schema_text, rows)


def write_index_manifest(index: RawIndex, records: Sequence[bytes], *, codec: str, level: int | None = None) -> bytes:
    """Write an index manifest of some records of another one.

    Args:
        index: The other one.
        records: Some of its records, perhaps none: Paimon then writes a file without records too.
        codec: Name of an Avro codec; see `codec_of`.
        level: Of the codec, or None for its default.

    Raises:
        ValueError: A record is not from this index manifest.
        UnsupportedFormatError: There is no such codec.
    """
    known = {record for record, _ in index.rows}
    if foreign := sum(record not in known for record in records):
        raise ValueError(f"{index.path}: expected records of this index manifest, found {foreign} others")
    return write_container(index.schema_text, records, codec, level)
