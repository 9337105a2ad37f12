"""The files and the snapshot of one attempt to commit an older version on top.

The new base list has the live files of the former snapshot and no DELETE. Readers collect the DELETEs of all manifests
first, and drop every ADD of the same entry: an old DELETE would hide a file that the new delta adds again. A manifest
whose entries are all live stays as it is; the live entries of the others are copied into new ones.

The new delta list deletes what leaves, and adds what comes back. Every entry is a copy. Index files, statistics,
watermark and properties are those of the target.

Source: Paimon `FileStoreCommitImpl#rollbackToAsLatest`, `FileDeletionBase`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import Manifests
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest_list_writer import write_manifest_list
from lakesweep.format.manifest_writer import ManifestWriter, WrittenManifest, write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import as_delete
from lakesweep.format.values.data_type import DataType
from lakesweep.model.roots import Root
from lakesweep.table.contents.content import TextEntry
from lakesweep.table.contents.difference import Difference


def prepared(attempt: Attempt, target: Root, difference: Difference, manifests: Manifests) -> Prepared:
    """Write new manifests, and return the lists and the snapshot that let a branch hold an older version again.

    Args:
        attempt: The snapshot to build on, and the names to use.
        target: The older version.
        difference: Between the snapshot and the target.
        manifests: How to write manifests.
    """
    names, types = MetadataNames(attempt.uuid), attempt.base.schema.partition_types
    codec, level = manifests.codec, manifests.level

    def copied(entries: Iterable[TextEntry]) -> Iterator[WrittenManifest]:
        return write_manifests(entries, names, types, codec=codec, level=level, target_bytes=manifests.target_bytes)

    others = chain(_copies(difference.rest(), names, types, manifests), copied(difference.moved_back()))
    rest = tuple(attempt.written(others))
    deletes = ((text, raw._replace(record=as_delete(raw.record))) for text, raw in difference.entries("going"))
    delta = tuple(attempt.written(copied(chain(deletes, difference.entries("coming")))))
    base_name, delta_name = names.manifest_list(), names.manifest_list()
    snapshot, base = target.snapshot, attempt.base.root.snapshot
    return next_snapshot(
        attempt,
        Change(
            kind="OVERWRITE",
            schema_id=snapshot.schema_id,
            base_list=base_name,
            delta_list=delta_name,
            index_manifest=snapshot.index_manifest,
            statistics=snapshot.statistics,
            total_record_count=difference.target_rows,
            delta_record_count=difference.row_delta,
            next_row_id=max(base.next_row_id or 0, snapshot.next_row_id or 0, difference.next_row_id),
            files={
                base_name: write_manifest_list(difference.clean_lists(), rest, codec=codec, level=level),
                delta_name: write_manifest_list((), delta, codec=codec, level=level),
            },
            of=target,
        ),
    )


def _copies(
    found: Iterable[tuple[bytes, list[Row]]], names: MetadataNames, types: Sequence[DataType], how: Manifests
) -> Iterator[WrittenManifest]:
    writer: ManifestWriter | None = None
    for text, rows in found:
        if writer is not None and (writer.schema_text != text or writer.size >= how.target_bytes):
            yield writer.finish()
            writer = None
        if writer is None:
            writer = ManifestWriter(text, names.manifest(), types, how.codec, how.level)
        writer.add_copies(rows)
    if writer is not None:
        yield writer.finish()
