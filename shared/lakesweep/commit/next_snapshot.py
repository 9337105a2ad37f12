"""The snapshot that follows a base: what every commit writes alike, and what it carries on.

Source: Paimon `FileStoreCommitImpl#tryCommitOnce`, `Snapshot`, `SequenceSnapshotProperties`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakesweep.commit.allowed import SEQUENCE_PROPERTY
from lakesweep.commit.environment import IDENTIFIER, Attempt, Prepared
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.schema import TableSchema
from lakesweep.format.snapshot import Snapshot
from lakesweep.format.snapshot_writer import properties_of, watermark_of
from lakesweep.format.values import json_document
from lakesweep.model.roots import Root
from lakesweep.storage.clock import Stopwatch
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changes, compared with its base."""

    kind: str
    """`OVERWRITE` or `COMPACT`."""
    schema_id: int
    base_list: str
    """Name of the new base list; `files` has it."""
    delta_list: str
    """Name of the new delta list; `files` has it."""
    index_manifest: str | None
    statistics: str | None
    total_record_count: int | None
    delta_record_count: int
    next_row_id: int | None
    files: Mapping[str, bytes]
    """File name below `manifest/` -> body; not those that were written at once."""
    keeps_properties: bool = False
    """All properties are carried on, as where no row changes; otherwise only the largest sequence number."""
    since: Stopwatch | None = None
    """See `Prepared`."""
    of: Root | None = None
    """The version whose watermark and properties are carried on; `None`: the base. The largest sequence number stays
    that of the base."""


def next_snapshot(attempt: Attempt, change: Change) -> Prepared:
    """Return the snapshot that follows the base of an attempt, with its new files."""
    base = attempt.base.root
    carried = change.of or base
    properties = properties_of(base.body, base.ref.path)
    if not change.keeps_properties:
        properties = {name: value for name, value in properties.items() if name == SEQUENCE_PROPERTY}
    if change.of is not None:
        properties = {**properties_of(carried.body, carried.ref.path), **properties}
    snapshot = replace(
        base.snapshot,
        id=base.snapshot.id + 1,
        version=3,
        schema_id=change.schema_id,
        base_manifest_list=change.base_list,
        base_manifest_list_size=len(change.files[change.base_list]),
        delta_manifest_list=change.delta_list,
        delta_manifest_list_size=len(change.files[change.delta_list]),
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        index_manifest=change.index_manifest,
        commit_user=attempt.commit_user,
        commit_identifier=IDENTIFIER,
        commit_kind=change.kind,
        time_ms=attempt.now_ms,
        total_record_count=change.total_record_count,
        delta_record_count=change.delta_record_count,
        changelog_record_count=None,
        watermark=watermark_of(carried.body, carried.ref.path),
        statistics=change.statistics,
        uuid=attempt.uuid,
        next_row_id=change.next_row_id,
        operation=None,
    )
    return Prepared(snapshot, properties or None, change.files, change.since)


def statistics_of(store: Store, base: Snapshot, schema: TableSchema) -> tuple[str | None, str | None]:
    """Return the statistics file that the next snapshot names, and a warning if the base's is lost.

    A statistics file holds for one schema. Paimon reads it at each commit, and fails if it is missing.

    Raises:
        StorageError: A request failed.
    """
    if base.statistics is None:
        return None, None
    path = f"statistics/{base.statistics}"
    try:
        document = json_document.parse_object(store.read(path, MAX_DOCUMENT_BYTES).data, path)
        same = json_document.require_int(document, "schemaId", path) == schema.id
    except ObjectNotFoundError:
        return None, f"{path} does not exist, so the new snapshot names no statistics; ANALYZE makes new ones"
    except FormatError as error:
        return None, f"{error}; the new snapshot names no statistics; ANALYZE makes new ones"
    return (base.statistics if same else None), None
