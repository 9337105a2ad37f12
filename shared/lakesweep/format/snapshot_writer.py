"""Snapshots as bytes, in the order and form of Java's Jackson."""

import json
from collections.abc import Mapping

from lakesweep.format.snapshot import Snapshot


def write_snapshot(snapshot: Snapshot, properties: Mapping[str, str] | None = None) -> bytes:
    """Return a snapshot document. Absent fields are left out; `operation` and `writerVersion` are never written."""
    fields: dict[str, object] = {
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
        "properties": None if properties is None else dict(properties),
        "nextRowId": snapshot.next_row_id,
    }
    stated = {key: value for key, value in fields.items() if value is not None}
    return json.dumps(stated, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
