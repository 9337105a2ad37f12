"""Manifest lists, written from the records of other lists and from new manifests.

Records of lists with the same schema are copied as bytes. Where the schemas differ, as between releases, all records
are written in one schema that has every field. A field that Lakesweep does not know has no place there, so such a
list is refused; it is copied if nothing has to be added.

Source: Paimon `ManifestList`, `ManifestFileMetaSerializer`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container_writer import write_container
from lakesweep.format.avro.encoder import encode
from lakesweep.format.avro.projection import compile_decoder, read_rows
from lakesweep.format.avro.schema import AvroType, parse_avro_schema
from lakesweep.format.avro.wants import Want
from lakesweep.format.manifest import METADATA_VERSION, ManifestMeta, meta_of
from lakesweep.format.manifest_fields import MANIFEST, RAW
from lakesweep.format.manifest_list_schema import (
    FULL_LIST_FIELDS,
    FULL_LIST_SCHEMA,
    FULL_LIST_TYPE,
    LIST_FIELDS,
    LIST_SCHEMA,
    LIST_TYPE,
    fields_of,
)
from lakesweep.format.manifest_writer import WrittenManifest
from lakesweep.format.metadata_file import read_avro
from lakesweep.format.values.json_document import describe, parse_value

_TARGET = "the new manifest list"


@dataclass(frozen=True, slots=True)
class RawList:
    """A manifest list and the bytes of its records, in the order of the file."""

    path: str
    schema_text: bytes
    """The writer's schema, of all records."""
    records: tuple[bytes, ...]
    metas: tuple[ManifestMeta, ...]
    """What the records say."""

    def only(self, names: Collection[str]) -> "RawList":
        """Return the list with the records of some manifests."""
        found = [pair for pair in zip(self.records, self.metas, strict=True) if pair[1].file_name in names]
        return replace(self, records=tuple(record for record, _ in found), metas=tuple(meta for _, meta in found))


def read_raw_list(body: bytes, path: str, *, expected_size: int | None = None) -> RawList:
    """Read a manifest list.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The size that the snapshot states, if any.

    Raises:
        FormatError: The file is damaged, or has another size.
        UnsupportedFormatError: The file is not Avro (`manifest_format`), or a later version wrote it.
    """
    file = read_avro(body, path, expected_size)
    rows = list(read_rows(file, (*MANIFEST, RAW)))
    metas = tuple(meta_of(row[:-1], path) for row in rows)
    return RawList(path, file.schema_text, tuple(row[-1] for row in rows), metas)


def write_manifest_list(
    lists: Sequence[RawList],
    added: Sequence[WrittenManifest],
    after: Sequence[RawList] = (),
    *,
    codec: str,
    level: int | None = None,
) -> bytes:
    """Write a list of the manifests of other lists, in their order, with new manifests among them.

    Args:
        lists: Lists whose records come first. Without any records and new manifests, the file has none.
        added: New manifests, which come next.
        after: Lists whose records come last.
        codec: Name of an Avro codec; see `codec_of`.
        level: Of the codec, or None for its default.

    Raises:
        FormatError: A record has a value that no list can have.
        UnsupportedFormatError: A list has fields that Lakesweep does not know (`unknown_manifest_field`), or lacks
            statistics of partitions (`manifest_schema`). Or there is no such codec.
    """
    before, behind = ([(raw, _type_of(raw)) for raw in each if raw.records] for each in (lists, after))
    schema_text, type_ = _target([*before, *behind], bool(added))
    records = [record for raw, found in before for record in _records(raw, found, type_)]
    records += [encode(type_, _row(manifest), _TARGET) for manifest in added]
    records += [record for raw, found in behind for record in _records(raw, found, type_)]
    return write_container(schema_text, records, codec, level)


def check_lists(lists: Sequence[RawList]) -> None:
    """Make sure that the records of some lists may stand in one list with new manifests, before those are written.

    Raises:
        UnsupportedFormatError: A list has fields that Lakesweep does not know (`unknown_manifest_field`).
    """
    _target([(raw, _type_of(raw)) for raw in lists if raw.records], True)


def raw_list_of(written: Sequence[WrittenManifest], like: RawList) -> RawList:
    """Return the records of new manifests in the form of another list's, so that they may stand among those.

    Args:
        written: New manifests.
        like: The other list. If new records do not fit into its schema, they have that of Java.

    Raises:
        FormatError: A value is not possible in a list.
    """
    type_ = _type_of(like)
    schema_text, type_ = (like.schema_text, type_) if _holds_new(type_) else (LIST_SCHEMA, LIST_TYPE)
    records = tuple(encode(type_, _row(manifest), _TARGET) for manifest in written)
    return RawList(_TARGET, schema_text, records, tuple(manifest.meta for manifest in written))


def _target(sources: Sequence[tuple[RawList, AvroType]], adds: bool) -> tuple[bytes, AvroType]:
    """Choose the schema of the new list: the one that all sources have, if new records fit into it."""
    if not sources:
        return LIST_SCHEMA, LIST_TYPE
    first, type_ = sources[0]
    if all(found == type_ for _, found in sources) and (not adds or _holds_new(type_)):
        return first.schema_text, type_
    used: set[str] = set()
    for raw, found in sources:
        names = fields_of(found)
        if unknown := sorted(names - FULL_LIST_FIELDS):
            raise UnsupportedFormatError(
                f"{raw.path}: expected only known fields in a manifest list, found {describe(unknown[0])}",
                code="unknown_manifest_field",
            )
        used |= names
    return (LIST_SCHEMA, LIST_TYPE) if used <= LIST_FIELDS else (FULL_LIST_SCHEMA, FULL_LIST_TYPE)


def _holds_new(type_: AvroType) -> bool:
    """Tell whether this is a schema of Java's form: some or all of the later fields may follow."""
    fields = type_.fields
    return len(fields) >= len(LIST_TYPE.fields) and fields == FULL_LIST_TYPE.fields[: len(fields)]


def _records(raw: RawList, found: AvroType, target: AvroType) -> Iterator[bytes]:
    if found == target:
        yield from raw.records
        return
    decode = compile_decoder(raw.schema_text, tuple(Want(name) for name, _ in target.fields), raw.path)
    names = [name for name, _ in target.fields]
    for record in raw.records:
        try:
            (row,) = decode(record, 1)
        except (IndexError, ValueError, OverflowError) as error:
            raise FormatError(f"{raw.path}: expected a whole record, found {error}") from error
        values = dict(zip(names, row, strict=True))
        if values["_PARTITION_STATS"] is None:
            raise UnsupportedFormatError(
                f"{raw.path}: expected statistics of the partitions of {describe(values['_FILE_NAME'])}, found nothing",
                code="manifest_schema",
            )
        yield encode(target, values, raw.path)


def _row(manifest: WrittenManifest) -> dict[str, Any]:
    meta = manifest.meta
    return {
        "_VERSION": METADATA_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.added_count,
        "_NUM_DELETED_FILES": meta.deleted_count,
        "_PARTITION_STATS": {
            "_MIN_VALUES": meta.partition_min,
            "_MAX_VALUES": meta.partition_max,
            "_NULL_COUNTS": manifest.null_counts,
        },
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
        "_TOTAL_BUCKETS": meta.total_buckets,
        "_EXTRA_FILES": meta.extra_files,
    }


def _type_of(raw: RawList) -> AvroType:
    return parse_avro_schema(parse_value(raw.schema_text, raw.path), raw.path)
