"""`expire-partitions`: take partitions out of a table that are older than the table's options allow.

The options of the table decide, overridden by the call's; a fleet policy may state them for a table that does not. By
`values-time` a partition's values say how old it is, by `update-time` the newest creation time of its entries does.
Partitions of one batch go in one commit. Before each attempt the partitions are looked at anew: by `update-time` a
partition that was written to meanwhile stays.

Source: Paimon `PartitionExpire`, `PartitionValuesTimeExpireStrategy`, `PartitionUpdateTimeExpireStrategy`.
"""

from collections.abc import Mapping

from lakesweep.errors import RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.model.partitions.expiry import Expiry
from lakesweep.model.partitions.rules import EXPIRATION_TIME, partition_rules
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import ExpirePartitionsArguments
from lakesweep.operations.partitions.run import carry_out
from lakesweep.operations.partitions.task import Selection, Task
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.committing.opened import opened
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.table.contents.content import Content
from lakesweep.table.contents.contents import Contents

OPERATION = "expire-partitions"


def options_of(schema: Mapping[str, str], arguments: ExpirePartitionsArguments) -> dict[str, str]:
    """Return the options of a table for a call: those of the fleet policy count where the table states no time."""
    otherwise = {} if EXPIRATION_TIME in schema else arguments.otherwise
    return {**schema, **otherwise, **arguments.options}


def expire_partitions(
    table: Table, arguments: ExpirePartitionsArguments, *, execute: bool, view: TableView | None = None
) -> RunReport:
    """Take expired partitions out of a branch.

    Args:
        table: The table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
        view: The table as it was just listed, if it was.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, view, execute=execute)
        schema = target.schema
        options = options_of(schema.options, arguments)
        rules = partition_rules(options)
        if rules is None:
            raise RefusedError(
                f"table {table.ref} states no {EXPIRATION_TIME}; expected it among its options, in `partitions` of "
                "the fleet policy, or --expiration-time",
                code="no_expiration_time",
            )
        if not schema.partition_keys:
            return report_of(table, OPERATION, "nothing_to_do", None)
        zone = declared_zone(table, arguments.time_zone, ruling_of(table))
        expiry = Expiry(rules, schema.partition_keys, schema.partition_types, target.now_ms, zone)
    except RefusedError as error:
        return refused(table, OPERATION, error)

    def selection(content: Content, index: RawIndex | None) -> Selection:
        choice = expiry.choose(content.partitions())
        return Selection(
            choice.due,
            not_due={str(reason): count for reason, count in choice.kept.items()},
            due_later=choice.due_later,
            next_due_ms=choice.next_due_ms,
            warnings=choice.warnings,
        )

    task = Task(
        operation=OPERATION,
        arguments=arguments.to_json(),
        catalog=arguments.catalog,
        contents=Contents(
            target.store,
            str(table.ref),
            schema.partition_types,
            expiry.may_be_due if rules.strategy == "values-time" else None,
        ),
        choose=selection,
        options=options,
        fallback_reappears=True,  # a rule of the table's owner; the report says that a fallback shows it again
        batch_size=rules.batch_size,
        unattended=arguments.unattended,
    )
    return carry_out(target, task, execute=execute)
