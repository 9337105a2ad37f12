"""Snapshots: the roots of a table.

A *snapshot* names the manifest lists, index manifest and statistics that make up one version of one branch. Tags and
changelogs are snapshot documents too. Source: Paimon `Snapshot`.
"""

from dataclasses import dataclass

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values import json_document

LATEST_VERSION = 3
"""Documents up to this version are supported; the first ones have no version."""

_NO_WATERMARK = -(1 << 63)
_FIELDS = frozenset(
    (
        "version", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList",
        "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize", "indexManifest", "commitUser",
        "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount", "deltaRecordCount", "changelogRecordCount",
        "watermark", "statistics", "uuid", "nextRowId", "operation", "tagCreateTime", "tagTimeRetained",
    )
)  # fmt: skip

WRITTEN_FIELDS = (
    "version", "uuid", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList",
    "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize", "indexManifest", "commitUser",
    "writerVersion", "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount", "deltaRecordCount",
    "changelogRecordCount", "watermark", "statistics", "properties", "nextRowId", "operation",
)  # fmt: skip
"""The fields of a snapshot, in the order in which Paimon writes them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table. File names are plain names below `manifest/` and `statistics/`."""

    id: int
    version: int | None
    schema_id: int
    """The latest schema at the time of the commit. The files may have older schemas."""
    base_manifest_list: str
    base_manifest_list_size: int | None
    delta_manifest_list: str
    delta_manifest_list_size: int | None
    changelog_manifest_list: str | None
    changelog_manifest_list_size: int | None
    index_manifest: str | None
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_ms: int
    total_record_count: int | None
    delta_record_count: int | None
    changelog_record_count: int | None
    watermark: int | None
    """Epoch milliseconds; None also if the document has the smallest number, which means "no watermark"."""
    statistics: str | None
    uuid: str | None
    next_row_id: int | None
    operation: str | None


def parse_snapshot(body: bytes, path: str) -> Snapshot:
    """Read a snapshot document.

    Raises:
        FormatError: It is not a complete snapshot document, or a file in it has more than a plain name.
        UnsupportedFormatError: A later version wrote it.
    """
    return snapshot_of(json_document.parse_object(body, path), path)


def snapshot_of(document: dict[str, object], path: str) -> Snapshot:
    """Read a snapshot from a parsed document, such as a tag's, that may have more fields."""
    json_document.check_field_names(document, _FIELDS, path)
    return Snapshot(
        version=_supported_version(document, path),
        id=_non_negative(document, "id", path),
        schema_id=_non_negative(document, "schemaId", path),
        base_manifest_list=json_document.require_file_name(document, "baseManifestList", path),
        base_manifest_list_size=json_document.get_int(document, "baseManifestListSize", path),
        delta_manifest_list=json_document.require_file_name(document, "deltaManifestList", path),
        delta_manifest_list_size=json_document.get_int(document, "deltaManifestListSize", path),
        changelog_manifest_list=json_document.get_file_name(document, "changelogManifestList", path),
        changelog_manifest_list_size=json_document.get_int(document, "changelogManifestListSize", path),
        index_manifest=json_document.get_file_name(document, "indexManifest", path),
        commit_user=json_document.require_str(document, "commitUser", path),
        commit_identifier=json_document.require_int(document, "commitIdentifier", path),
        commit_kind=json_document.require_str(document, "commitKind", path),
        # Java would read a missing time as 0, which makes a snapshot look old enough to expire.
        time_ms=json_document.require_int(document, "timeMillis", path),
        total_record_count=json_document.get_int(document, "totalRecordCount", path),
        delta_record_count=json_document.get_int(document, "deltaRecordCount", path),
        changelog_record_count=json_document.get_int(document, "changelogRecordCount", path),
        watermark=_watermark(document, path),
        statistics=json_document.get_file_name(document, "statistics", path),
        uuid=json_document.get_str(document, "uuid", path),
        next_row_id=json_document.get_int(document, "nextRowId", path),
        operation=json_document.get_str(document, "operation", path),
    )


def _supported_version(document: dict[str, object], path: str) -> int | None:
    version = json_document.get_int(document, "version", path)
    if version is not None and version > LATEST_VERSION:
        raise UnsupportedFormatError(
            f"{path}: expected a snapshot of version {LATEST_VERSION} or less, found version {version}",
            code="unsupported_version",
        )
    if version is not None and version < 0:
        raise FormatError(f"{path}: expected a snapshot version that is not negative, found {version}")
    # Java writes 0 into the tag of a snapshot that has none.
    return version or None


def _non_negative(document: dict[str, object], field: str, path: str) -> int:
    number = json_document.require_int(document, field, path)
    if number < 0:
        raise json_document.wrong_type(path, field, "a number that is not negative", number)
    return number


def _watermark(document: dict[str, object], path: str) -> int | None:
    watermark = json_document.get_int(document, "watermark", path)
    return None if watermark == _NO_WATERMARK else watermark
