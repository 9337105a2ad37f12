"""What a call merges of a table with a primary key, and what a report says of it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base, list_branch
from lakesweep.commit.index_files import refuse_external
from lakesweep.errors import FormatError, RefusedError, StalePlanError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.options import parse_bool
from lakesweep.format.values.partition_path import DEFAULT_NAME
from lakesweep.model.commits.compaction import BucketMerge, CompactionReport, PartitionBins
from lakesweep.model.keyed import KeyedFile, MergeRules
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.partitions.rules import PARTITION_DEFAULT_NAME
from lakesweep.model.partitions.spec import matcher, parse_specs
from lakesweep.model.reading.plan import ReadCounts, ReadFile, ReadPlan
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place, buckets_of
from lakesweep.operations.compaction.rules.age import old_from_ms
from lakesweep.operations.compaction.rules.choice import Limits, choose
from lakesweep.operations.compaction.rules.pick import deleted_rows
from lakesweep.operations.keyed.rules.allowed import check_index, check_keyed_table
from lakesweep.operations.keyed.rules.facts import BucketFacts, bucket_facts
from lakesweep.operations.keyed.rules.files import check_files
from lakesweep.operations.keyed.rules.jobs import BucketWork, work_of
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.keyed.rules.pick import LevelOptions, Unit, level_options, pick
from lakesweep.operations.reading.columns import check_casts, columns_of
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.options import Writing, writing_of
from lakesweep.operations.writing.parquet import check_types
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_schemas

NEVER_MS = 1 << 62
"""A time that never comes."""
_FORCE_UP = ("compaction.force-up-level-0", "force-lookup")


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged of one bucket."""

    bucket: Bucket
    unit: Unit
    work: BucketWork
    facts: BucketFacts

    @property
    def inputs(self) -> frozenset[KeyedFile]:
        """The files that are rewritten, or get another level."""
        return frozenset(file for job in self.work.jobs for file in job.files).union(self.work.moved)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run merges, and what is left."""

    merges: tuple[Merge, ...] = ()
    waiting_files: int = 0
    busy_files: int = 0
    idle_from_ms: int | None = None


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
        self.schemas = _all_schemas(table, schema)
        self.rules: MergeRules = check_keyed_table(self.schemas, full=arguments.full, is_alone=arguments.sole_compactor)
        self.levels: LevelOptions = level_options(self.options)
        self._forces_level_0 = self.rules.has_vectors or any(_flag(self.options, name) for name in _FORCE_UP)
        self.writing: Writing = writing_of(replace(schema, options=self.options), schema.fields)
        check_types(schema.fields)
        self._is_wanted = _matcher(schema, arguments, zone)

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

    def report(self, schema: TableSchema, buckets: Mapping[Place, Bucket], choice: Choice) -> CompactionReport:
        """Return what a report says."""
        return CompactionReport(
            partitions=_partitions(schema, choice.merges),
            all_files=sum(len(bucket.files) for bucket in buckets.values()),
            waiting_files=choice.waiting_files,
            busy_files=choice.busy_files,
            idle_from_ms=choice.idle_from_ms,
            catalog=self.arguments.catalog.type,
            buckets=tuple(_bucket(schema, merge) for merge in choice.merges),
        )

    def _merge(self, bucket: Bucket) -> Merge | None:
        levels = levels_of(bucket.files, self.levels.num_levels)
        unit = pick(levels, self.levels, full=self.arguments.full, forces_level_0=self._forces_level_0)
        if unit is None:
            return None
        work = work_of(levels, unit, self.rules, self.levels.small_bytes)
        if not work.jobs and not work.moved:
            return None
        return Merge(bucket, unit, work, bucket_facts(levels, unit))


def _flag(options: Mapping[str, str], name: str) -> bool:
    try:
        return parse_bool(options.get(name, "false"), name)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _all_schemas(table: Table, latest: TableSchema) -> tuple[TableSchema, ...]:
    """Return all schemas of the branch, ascending by id."""
    listing = list_branch(table.store, table.ref.branch, ("schema",))
    ids = [int(ref.path.rpartition("-")[2]) for ref in listing.schemas]
    if ids and max(ids) > latest.id:
        raise StalePlanError(
            f"table {table.ref}: schema {max(ids)} came while the table was looked at by schema {latest.id}; run again"
        )
    found = {latest.id: latest} | read_schemas(table.store, listing, [each for each in ids if each != latest.id])
    if missing := set(ids) - set(found):
        raise RefusedError(
            f"table {table.ref}: expected the id of each schema in its name, found another one in schema "
            f"{min(missing)}",
            code="unreadable_schema",
        )
    return tuple(found[each] for each in sorted(found))


def _matcher(schema: TableSchema, arguments: CompactArguments, zone: tzinfo | None) -> Callable[[bytes], bool] | None:
    """Return what tells whether the files of a partition are wanted; `None`: all."""
    if not arguments.partitions:
        return None
    keys, types = schema.partition_keys, schema.partition_types
    if not keys:
        why = "the table has no partition keys; expected a call without partitions, which compacts all of it"
        raise RefusedError(why, code="not_partitioned")
    name = schema.options.get(PARTITION_DEFAULT_NAME, DEFAULT_NAME)
    matches = matcher(parse_specs(arguments.partitions, keys, types, name, zone))
    return lambda partition: matches(tuple(decode_row(partition, types, "a partition")))


def _name(schema: TableSchema, partition: bytes) -> str:
    types = schema.partition_types
    return partition_name(schema.partition_keys, types, decode_row(partition, types, "a partition"))


def _partitions(schema: TableSchema, merges: Sequence[Merge]) -> tuple[PartitionBins, ...]:
    by_partition: defaultdict[bytes, list[Merge]] = defaultdict(list)
    for each in merges:
        by_partition[each.bucket.place[0]].append(each)
    found = []
    for partition, own in by_partition.items():
        files: list[ReadFile] = [file.file for merge in own for file in merge.inputs]
        deleted = [deleted_rows(file) for file in files]
        found.append(
            PartitionBins(
                _name(schema, partition),
                len(files),
                sum(file.size_bytes for file in files),
                sum(file.rows for file in files),
                None if None in deleted else sum(count for count in deleted if count is not None),
                sum(len(merge.work.jobs) + len(merge.work.moved) for merge in own),
            )
        )
    return tuple(found)


def _bucket(schema: TableSchema, merge: Merge) -> BucketMerge:
    partition, number = merge.bucket.place
    deeper = {file for job in merge.work.jobs for run in job.deeper for file in run}
    facts = merge.facts
    return BucketMerge(
        partition=_name(schema, partition),
        bucket=number,
        why=merge.unit.why,
        level=merge.unit.level,
        runs=facts.runs,
        level_0_files=facts.level_0_files,
        level_0_rows=facts.level_0_rows,
        level_0_since_ms=facts.level_0_from_ms,
        files=len(merge.inputs),
        bytes=sum(file.file.size_bytes for file in merge.inputs),
        deeper_bytes=sum(file.file.size_bytes for file in deeper),
        jobs=tuple(sum(file.file.size_bytes for file in job.files) for job in merge.work.jobs),
    )
