"""Index manifests, written from the records of an older one.

An index manifest is the whole state. A commit that deletes index files writes a new one, with the records of the
files that remain. They are copied as bytes, so fields that Lakesweep does not know, such as those of global indexes,
remain as they are. Only a record of deletion vectors is ever written anew, for a file with fewer of them.

Source: Paimon `IndexManifestFileHandler`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.avro.container_writer import write_container
from lakesweep.format.avro.encoder import encode
from lakesweep.format.avro.projection import read_rows
from lakesweep.format.avro.schema import parse_avro_schema
from lakesweep.format.manifest import ADD, INDEX_VERSION, IndexEntry, index_entry_of
from lakesweep.format.manifest_fields import INDEX, RAW
from lakesweep.format.manifest_list_schema import plain
from lakesweep.format.metadata_file import read_avro
from lakesweep.format.values.json_document import describe, parse_value

_FIELDS = frozenset((*(want.name for want in INDEX), "_GLOBAL_INDEX"))
"""Those of global indexes are null for deletion vectors."""


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


def index_record(index: RawIndex, entry: IndexEntry) -> bytes:
    """Return the record of an index file with deletion vectors, in the form of an index manifest's records.

    Raises:
        FormatError: The form has a field that must have a value which Lakesweep does not know.
        UnsupportedFormatError: It has a field that Lakesweep does not know at all.
    """
    type_ = parse_avro_schema(parse_value(index.schema_text, index.path), index.path)
    unknown = sorted({name for name, _ in plain(type_).fields} - _FIELDS)
    if unknown:
        raise UnsupportedFormatError(
            f"{index.path}: expected only known fields in an index manifest, found {describe(unknown[0])}",
            code="unknown_manifest_field",
        )
    values = {
        "_VERSION": INDEX_VERSION,
        "_KIND": ADD,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_EXTERNAL_PATH": entry.external_path,
        "_DELETIONS_VECTORS_RANGES": [
            {"f0": name, "f1": offset, "f2": length, "_CARDINALITY": cardinality}
            for name, offset, length, cardinality in entry.vectors
        ],
    }
    return encode(type_, values, index.path)


def write_index_manifest(
    index: RawIndex, records: Sequence[bytes], *, codec: str, level: int | None = None, made: Sequence[bytes] = ()
) -> bytes:
    """Write an index manifest of some records of another one.

    Args:
        index: The other one.
        records: Some of its records, perhaps none: Paimon then writes a file without records too.
        made: Records among them that `index_record` has made.
        codec: Name of an Avro codec; see `codec_of`.
        level: Of the codec, or None for its default.

    Raises:
        ValueError: A record is not from this index manifest.
        UnsupportedFormatError: There is no such codec.
    """
    known = {*(record for record, _ in index.rows), *made}
    if foreign := sum(record not in known for record in records):
        raise ValueError(f"{index.path}: expected records of this index manifest, found {foreign} others")
    return write_container(index.schema_text, records, codec, level)
