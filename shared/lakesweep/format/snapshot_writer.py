"""Snapshot documents, as Paimon's Java engine writes them.

A document never has `operation`: Java's later releases take the operation TRUNCATE of a snapshot as permission to drop
what the snapshot before it had. It never has `writerVersion`, whose absence means "unknown".

Source: Paimon `Snapshot`.
"""

from collections.abc import Mapping

from lakesweep.format.snapshot import WRITTEN_FIELDS, Snapshot
from lakesweep.format.values import json_document
from lakesweep.format.values.json_text import print_object

_LOG_OFFSETS = "logOffsets"
"""Releases before 1.4 write this field: for each bucket, where readers go on in a log system. Without one it is empty.
Later releases have no log systems, and ignore it."""


def write_snapshot(snapshot: Snapshot, properties: Mapping[str, str] | None = None) -> bytes:
    """Return the document of a snapshot, with its fields in Java's order. A field that is None is left out.

    Args:
        snapshot: Its values. `operation` is not written. For a watermark that is carried on, see `watermark_of`.
        properties: Texts for `properties`; without any, the field is left out.

    Raises:
        FormatError: A text contains half a character, which UTF-8 cannot encode.
    """
    values: dict[str, object] = {
        "version": snapshot.version,
        "uuid": snapshot.uuid,
        "id": snapshot.id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "changelogManifestListSize": snapshot.changelog_manifest_list_size,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind,
        "timeMillis": snapshot.time_ms,
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": dict(properties) if properties else None,
        "nextRowId": snapshot.next_row_id,
    }
    written = {field: values[field] for field in WRITTEN_FIELDS if values.get(field) is not None}
    return print_object(written, f"snapshot {snapshot.id}")


def properties_of(body: bytes, path: str) -> Mapping[str, str]:
    """Return the `properties` of a snapshot document, empty if it has none.

    Raises:
        FormatError: The document is not an object, or a property is not a text.
    """
    properties = json_document.get_object(json_document.parse_object(body, path), "properties", path)
    return {
        json_document.check_str(name, path, "properties"): json_document.check_str(value, path, "properties")
        for name, value in properties.items()
    }


def watermark_of(body: bytes, path: str) -> int | None:
    """Return the watermark of a snapshot document exactly as it is there.

    `parse_snapshot` reads the smallest number, which means "no watermark", as None. A commit carries on the number.

    Raises:
        FormatError: The document is not an object, or the watermark is not a 64-bit integer.
    """
    return json_document.get_int(json_document.parse_object(body, path), "watermark", path)


def unknown_fields(body: bytes, path: str) -> tuple[str, ...]:
    """Return the keys of a snapshot document that a commit would lose, in their order. Null counts as absent.

    Raises:
        FormatError: The document is not an object.
    """
    document = json_document.parse_object(body, path)
    lost = {field: value for field, value in document.items() if field not in WRITTEN_FIELDS and value is not None}
    return tuple(field for field, value in lost.items() if (field, value) != (_LOG_OFFSETS, {}))
