"""What the fleet policy lets passes compact, as arguments of `compact`, and a compaction by it.

A pass that may not commit asks another process for this compaction. That one reads the policy anew, so a policy that
has changed meanwhile holds.
"""

from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.policy import CompactionRules
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import MAX_BYTES, CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.compaction.task import OPERATION
from lakesweep.operations.writing.engine import RewritingEngine
from lakesweep.runs.committing.catalog import Catalog, declared_catalog
from lakesweep.runs.committing.opened import opened
from lakesweep.runs.fleet import rule_of, watched_ruling
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table


def arguments_of(rules: CompactionRules | None, catalog: Catalog, *, has_key: bool) -> CompactArguments:
    """Return the arguments of a compaction that nobody watches.

    Args:
        rules: What the policy says; `None`: nothing, so the arguments are those of a call by default.
        catalog: What is declared about the catalog.
        has_key: The table has a primary key.
    """
    if rules is None:
        return CompactArguments(catalog, unattended=True)
    return CompactArguments(
        catalog,
        max_bytes=MAX_BYTES if rules.max_bytes is None else rules.max_bytes,
        max_partition_bytes=rules.max_partition_bytes,
        idle_ms=None if has_key else rules.idle_ms,
        level_0_ms=rules.level_0_ms if has_key else None,
        sole_compactor=rules.sole_compactor,
        unattended=True,
    )


def compact_by_policy(table: Table, *, execute: bool, engine: RewritingEngine | None) -> RunReport:
    """Compact what the fleet policy lets passes compact.

    Args:
        table: One branch of a table.
        execute: If false, nothing changes.
        engine: Rewrites data files; by default this process.

    Raises:
        UsageError: The location of the policy holds no valid policy.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        ruling = watched_ruling(table)
        rules, has_key = rule_of(ruling).compaction or None, False
        if rules is not None:
            has_key = bool(opened(table, OPERATION, execute=True).schema.primary_keys)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if rules is None or not rules.states(has_key=has_key):
        sentence = f"table {table.ref}: no fleet policy lets passes compact its data files (compaction)"
        return replace(report_of(table, OPERATION, "nothing_to_do", None), warnings=(sentence,))
    arguments = arguments_of(rules, declared_catalog(Catalog(), ruling), has_key=has_key)
    return compact(table, arguments, execute=execute, engine=engine)
