"""What a call merges of a table with a primary key, and what a report says of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import tzinfo

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.index_files import refuse_external
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.model.keyed import MergeRules
from lakesweep.model.reading.plan import ReadCounts, ReadPlan
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place, buckets_of
from lakesweep.operations.compaction.buckets.choice import Choice, Merge
from lakesweep.operations.compaction.buckets.schemas import all_schemas
from lakesweep.operations.compaction.partitions import wanted_partitions
from lakesweep.operations.compaction.rules.age import old_from_ms
from lakesweep.operations.compaction.rules.choice import Limits, choose
from lakesweep.operations.keyed.rules.allowed import check_index, check_keyed_table
from lakesweep.operations.keyed.rules.facts import bucket_facts
from lakesweep.operations.keyed.rules.files import check_files
from lakesweep.operations.keyed.rules.jobs import work_of
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.keyed.rules.pick import LevelOptions, forces_level_0, level_options, pick
from lakesweep.operations.reading.columns import check_casts, columns_of
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.options import Writing, writing_of
from lakesweep.operations.writing.parquet import check_types
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.session import Table

NEVER_MS = 1 << 62
"""A time that never comes."""


class Task:
    """What a call merges."""

    def __init__(
        self, table: Table, schema: TableSchema, arguments: CompactArguments, zone: tzinfo | None, now_ms: int
    ) -> None:
        """Check what does not depend on a snapshot.

        Raises:
            RefusedError: The table is none that Lakesweep merges, or an option does not parse.
        StalePlanError: A later schema has come.
        """
        self.arguments, self.zone, self._now_ms = arguments, zone, now_ms
        self.table = remembering_manifests(table)
        self.options = {**schema.options, **arguments.options}
        self.schemas = all_schemas(table, schema)
        self.rules: MergeRules = check_keyed_table(self.schemas, full=arguments.full, is_alone=arguments.sole_compactor)
        self.levels: LevelOptions = level_options(self.options)
        self._forces_level_0 = forces_level_0(self.options)
        self.writing: Writing = writing_of(replace(schema, options=self.options), schema.fields)
        check_types(schema.fields)
        self._is_wanted = wanted_partitions(schema, arguments.partitions, zone)

    def allow(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that a table allows.

        Raises:
            RefusedError: It does not allow the commit.
        """
        refuse_external(self.table.store, base.schema)
        newest = base.root
        return refuse_commit(base.schema, newest.snapshot, newest.body, self.arguments.catalog.type, "compact", True)

    def buckets(self, base: Base, index: RawIndex | None) -> Mapping[Place, Bucket]:
        """Return the buckets of a snapshot, of all partitions that are wanted.

        Raises:
            RefusedError: The metadata is damaged, or has index files that Lakesweep does not know.
        """
        has_vectors = self.rules.has_vectors
        if index is not None:
            check_index([entry for _, entry in index.rows], has_vectors=has_vectors)
        found = buckets_of(self.table, base, index, has_vectors=has_vectors, is_wanted=self._is_wanted)
        for bucket in found.values():
            check_files(bucket.files, self.schemas, has_vectors=has_vectors, full=self.arguments.full)
        return found

    def others(self, base: Base, index: RawIndex | None, partitions: Iterable[bytes]) -> Mapping[Place, Bucket]:
        """Return the buckets of those partitions that are not wanted. Raises: As `buckets`."""
        wanted, has_vectors = self._is_wanted, self.rules.has_vectors
        chosen = set() if wanted is None else {each for each in partitions if not wanted(each)}
        find = chosen.__contains__
        return buckets_of(self.table, base, index, has_vectors=has_vectors, is_wanted=find) if chosen else {}

    def choice(self, buckets: Mapping[Place, Bucket]) -> Choice:
        """Return what is merged, within the limits of the call.

        Raises:
            RefusedError: The files of a bucket are not those of an LSM tree.
        """
        given = self.arguments
        found = [merge for bucket in buckets.values() if (merge := self._merge(bucket)) is not None]
        due = {id(merge): self._due_ms(merge.bucket) for merge in found}
        bins = {
            Bin(tuple(file.file for file in sorted(merge.inputs))): merge
            for merge in found
            if due[id(merge)] <= self._now_ms
        }
        files = [file.file for bucket in buckets.values() for file in bucket.files]
        idle_ms = given.idle_ms if given.level_0_ms is None else None
        limits = Limits(given.max_bytes, given.max_partition_bytes, idle_ms)
        chosen = choose(tuple(bins), files, limits, self._now_ms, self.zone)
        young = [merge for merge in found if due[id(merge)] > self._now_ms]
        times = [due[id(merge)] for merge in young if due[id(merge)] < NEVER_MS]
        times += [] if chosen.idle_from_ms is None else [chosen.idle_from_ms]
        return Choice(
            tuple(bins[each] for each in chosen.bins),
            chosen.waiting_files,
            chosen.busy_files + sum(len(merge.inputs) for merge in young),
            min(times, default=None),
        )

    def _due_ms(self, bucket: Bucket) -> int:
        """Return from when a bucket may be merged, `NEVER_MS` if no file of level 0 makes it due.

        In doubt a file is old: to merge earlier than necessary costs little.
        """
        age_ms = self.arguments.level_0_ms
        if age_ms is None:
            return 0
        from_ms = old_from_ms([file.file for file in bucket.files], age_ms, self._now_ms, self.zone)
        return NEVER_MS if from_ms is None else from_ms

    def plan(self, base: Base, choice: Choice) -> ReadPlan:
        """Return how the files of a choice are read: in all columns of the latest schema.

        Raises:
            RefusedError: A column is of a type that Lakesweep does not read.
        """
        schema = base.schema
        wanted = {
            file.file.schema_id
            for merge in choice.merges
            for job in merge.work.jobs
            for file in (*job.files, *(file for run in job.deeper for file in run))
        }
        plan = ReadPlan(
            table=self.table.ref.location,
            branch=self.table.ref.branch,
            snapshot_id=base.root.snapshot.id,
            tag=None,
            schema_id=schema.id,
            fields=schema.fields,
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            columns=columns_of(self.table, schema, None),
            schemas={each.id: each.fields for each in self.schemas if each.id in wanted},
            splits=(),
            counts=ReadCounts(),
        )
        check_casts(self.table, plan)
        return plan

    def _merge(self, bucket: Bucket) -> Merge | None:
        levels = levels_of(bucket.files, self.levels.num_levels)
        unit = pick(levels, self.levels, full=self.arguments.full, forces_level_0=self._forces_level_0)
        if unit is None:
            return None
        work = work_of(levels, unit, self.rules, self.levels.small_bytes)
        if not work.jobs and not work.moved:
            return None
        return Merge(bucket, unit, work, bucket_facts(levels, unit))
