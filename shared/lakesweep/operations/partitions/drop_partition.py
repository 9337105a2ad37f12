"""`drop-partition`: take partitions out of a table by a commit.

It takes out what the partitions hold when it commits, also what writers have added since the call began, as Paimon
does. The report counts these files. Source: Paimon `FileStoreCommitImpl#dropPartitions`, `DropPartitionProcedure`.
"""

from collections.abc import Callable, Sequence

from lakesweep.errors import RefusedError, UsageError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.schema import TableSchema
from lakesweep.model.partitions.expiry import Due
from lakesweep.model.partitions.ranges import lies_in, ranges_of
from lakesweep.model.partitions.spec import PartitionSpec, matcher, matcher_of_alike, parse_specs, refuse_ambiguous
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import DropArguments
from lakesweep.operations.partitions.run import carry_out
from lakesweep.operations.partitions.task import Choose, Selection, Task
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.committing.opened import opened
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.table.contents.content import Content, Values
from lakesweep.table.contents.contents import Contents
from lakesweep.table.contents.live import Live

OPERATION = "drop-partition"
DEFAULT_NAME = ("partition.default-name", "__DEFAULT_PARTITION__")
_MAX_NAMED = 5


def drop_partition(table: Table, arguments: DropArguments, *, execute: bool) -> RunReport:
    """Take partitions out of a branch.

    Raises:
        UsageError: A partition is not given as the table's keys ask for.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        schema = target.schema
        options = {**schema.options, **arguments.options}
        keys, types, name = schema.partition_keys, schema.partition_types, options.get(*DEFAULT_NAME)
        has_zone = any(type_.root == "TIMESTAMP_LTZ" for type_ in types)
        zone = declared_zone(table, None, ruling_of(table)) if has_zone else None
        specs = parse_specs(arguments.specs, keys, types, name, zone)
    except RefusedError as error:
        if error.code == "bad_partition":
            raise UsageError(f"table {table.ref}: {error}", code=error.code) from error
        return refused(table, OPERATION, error)
    matches, alike = matcher(specs), matcher_of_alike(specs, types, name)

    def check(found: Sequence[Values]) -> None:
        refuse_ambiguous(specs, found, keys, types, name)

    contents = Contents(target.store, str(table.ref), types, alike, _passes_over(schema, specs))
    task = Task(
        operation=OPERATION,
        arguments=arguments.to_json(),
        catalog=arguments.catalog,
        contents=contents,
        choose=choose_matching(matches, check),
        options=options,
        matches=matches,
        fallback_reappears=arguments.fallback_reappears,
    )
    return carry_out(target, task, execute=execute)


def choose_matching(
    matches: Callable[[Values], bool], check: Callable[[Sequence[Values]], None] = lambda found: None
) -> Choose:
    """Return what chooses the partitions with matching values.

    Args:
        matches: Tells whether a partition's values match.
        check: Called with the values of all partitions.
    """

    def choose(content: Content, index: RawIndex | None) -> Selection:
        there = content.partitions()
        check([facts.values for facts in there if facts.files])
        found = [facts for facts in there if matches(facts.values)]
        # A file that is deleted twice must not hide another one that is still there.
        Live(content, frozenset(facts.row for facts in found if not facts.files)).check()
        found = [facts for facts in found if facts.files]
        rows = {facts.row for facts in found}
        indexed = {entry.partition for _, entry in index.rows} if index is not None else set()
        alone = frozenset(row for row in indexed - rows if matches(content.source.values(row)))
        found.sort(key=lambda facts: tuple((value is not None, str(value)) for value in facts.values))
        return Selection(tuple(Due(facts, None, "asked for") for facts in found), alone)

    return choose


def _passes_over(schema: TableSchema, specs: Sequence[PartitionSpec]) -> Callable[[ManifestMeta], bool]:
    """Return what tells whether a manifest has none of the partitions, by its statistics."""
    keys, types = schema.partition_keys, schema.partition_types

    def passes_over(meta: ManifestMeta) -> bool:
        found = ranges_of(meta, types)
        if found is None:
            return False
        ranges = dict(zip(keys, found, strict=True))
        return not any(all(lies_in(*ranges[key], value) for key, value in spec.values) for spec in specs)

    return passes_over
