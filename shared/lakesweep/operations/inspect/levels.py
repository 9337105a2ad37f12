"""How far the buckets of a table with a primary key are compacted: sorted runs, and level 0."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.format.schema import TableSchema
from lakesweep.model.keyed import KeyedFile
from lakesweep.model.roots import Root
from lakesweep.operations.keyed.rules.facts import bucket_facts
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.keyed.rules.pick import forces_level_0, level_options, pick
from lakesweep.storage.store import Store
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.keyed_files import keyed_files

SHOWN = 10


@dataclass(frozen=True, slots=True)
class ShownBucket:
    """One bucket."""

    partition: Mapping[str, str | None]
    bucket: int
    runs: int
    files: int
    bytes: int
    level_0_files: int
    level_0_rows: int
    level_0_since_ms: int | None
    """When the oldest of them was written, as the writer's clock says without its zone; `None`: unknown, or none."""
    why: str | None
    """Why a compaction would take it; `None`: it would not."""


@dataclass(frozen=True, slots=True)
class ShownLevels:
    """The buckets of one version."""

    bucket_count: int
    runs: int
    """Of the bucket with the most sorted runs: a reader of all rows merges so many."""
    level_0_files: int
    level_0_rows: int
    level_0_since_ms: int | None
    """When the oldest of them was written; see `ShownBucket`."""
    due_buckets: int
    """Buckets that a compaction would take."""
    buckets: tuple[ShownBucket, ...]
    """Those with the most runs."""


def levels_at(store: Store, schema: TableSchema, root: Root) -> ShownLevels | None:
    """Return how far a version is compacted; `None`: the table has no primary key.

    Args:
        store: The table's store.
        schema: The latest schema of the root's branch.
        root: The version.

    Raises:
        RefusedError: The metadata is damaged, an option does not parse, or files of a level overlap.
        StorageError: A read failed.
    """
    if not schema.primary_keys:
        return None
    options = level_options(schema.options)
    forces = forces_level_0(schema.options)
    files: defaultdict[tuple[bytes, int], list[KeyedFile]] = defaultdict(list)
    for file in keyed_files(store, root, schema, {}):
        files[file.file.partition, file.file.bucket].append(file)
    paths, found = TablePaths(schema), list[ShownBucket]()
    for partition, bucket in sorted(files):
        levels = levels_of(files[partition, bucket], options.num_levels)
        facts = bucket_facts(levels, pick(levels, options, full=False, forces_level_0=forces))
        found.append(
            ShownBucket(
                paths.partition_values(partition),
                bucket,
                facts.runs,
                facts.files,
                facts.bytes,
                facts.level_0_files,
                facts.level_0_rows,
                facts.level_0_from_ms,
                facts.why,
            )
        )
    found.sort(key=lambda each: (each.runs, each.level_0_rows), reverse=True)
    times = [each.level_0_since_ms for each in found if each.level_0_files]
    known = [ms for ms in times if ms is not None]
    return ShownLevels(
        bucket_count=len(found),
        runs=max((each.runs for each in found), default=0),
        level_0_files=sum(each.level_0_files for each in found),
        level_0_rows=sum(each.level_0_rows for each in found),
        level_0_since_ms=min(known) if known and len(known) == len(times) else None,
        due_buckets=sum(each.why is not None for each in found),
        buckets=tuple(found[:SHOWN]),
    )
