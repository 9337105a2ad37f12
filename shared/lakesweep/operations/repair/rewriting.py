"""The files and the snapshot of a repair.

The new base list is the base list of the former snapshot and then its delta list, record by record, as for any commit.
A manifest with a lost entry is replaced by a new one, with copies of its other records. The new one has the place of
the old one: Paimon's merging fails if an entry is deleted before it is added. The new delta list is empty, so readers
of changes see nothing. Source: Paimon `FileStoreCommitImpl#replaceManifestList`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import Manifests
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.format.manifest_list_writer import RawList, raw_list_of, write_manifest_list
from lakesweep.format.manifest_writer import WrittenManifest, write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.operations.repair.loss import Loss, entries_of
from lakesweep.operations.repair.vectors import Put


def prepared(attempt: Attempt, loss: Loss, manifests: Manifests, statistics: str | None, put: Put) -> Prepared:
    """Return the files and the snapshot that leave out what is lost.

    Args:
        attempt: The snapshot to build on, and the names to use.
        loss: What is lost of this snapshot.
        manifests: How to write manifests.
        statistics: The statistics file that the new snapshot names.
        put: Writes new index files.
    """
    base, content = attempt.base.root.snapshot, loss.content
    names = MetadataNames(attempt.uuid)
    rewritten = _rewritten(attempt, loss, names, manifests)
    files: dict[str, bytes] = {}
    parts = [part for each in content.lists for part in _repaired(each, loss, rewritten)]
    base_name, delta_name = names.manifest_list(), names.manifest_list()
    files[base_name] = write_manifest_list(parts, (), codec=manifests.codec, level=manifests.level)
    files[delta_name] = write_manifest_list((), (), codec=manifests.codec, level=manifests.level)
    index_name = base.index_manifest
    if loss.vectors.is_changed:
        index_name = names.index_manifest()
        files[index_name] = loss.vectors.written(put, manifests)
    return next_snapshot(
        attempt,
        Change(
            kind="OVERWRITE",
            schema_id=base.schema_id,
            base_list=base_name,
            delta_list=delta_name,
            index_manifest=index_name,
            statistics=statistics,
            total_record_count=loss.total_record_count,
            delta_record_count=0,
            next_row_id=max(base.next_row_id or 0, content.next_row_id),
            files=files,
            keeps_properties=True,
        ),
    )


def _rewritten(
    attempt: Attempt, loss: Loss, names: MetadataNames, manifests: Manifests
) -> Mapping[str, tuple[WrittenManifest, ...]]:
    """Write new manifests, and return manifest -> what replaces it: nothing if no record of it remains."""
    parts = {part.meta.file_name: part for part in loss.content.parts}
    found: dict[str, tuple[WrittenManifest, ...]] = {}
    for name, places in loss.removed.items():
        kept = (each for place, each in entries_of(loss.content, parts[name]) if place not in places)
        written = write_manifests(
            kept,
            names,
            attempt.base.schema.partition_types,
            codec=manifests.codec,
            level=manifests.level,
            target_bytes=manifests.target_bytes,
        )
        found[name] = tuple(attempt.written(written))
    return found


def _repaired(found: RawList, loss: Loss, rewritten: Mapping[str, tuple[WrittenManifest, ...]]) -> Iterator[RawList]:
    """Yield the parts of a list: runs of its records as they are, and new records in between."""
    begin = 0
    for place, meta in enumerate(found.metas):
        if meta.file_name not in rewritten and meta.file_name not in loss.absent:
            continue
        yield replace(found, records=found.records[begin:place], metas=found.metas[begin:place])
        begin = place + 1
        if written := rewritten.get(meta.file_name, ()):
            yield raw_list_of(written, found)
    yield replace(found, records=found.records[begin:], metas=found.metas[begin:])
