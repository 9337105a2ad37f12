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


def arguments_of(rules: CompactionRules | None, catalog: Catalog) -> CompactArguments:
    """Return the arguments of a compaction that nobody watches.

    Args:
        rules: What the policy says; `None`: nothing, so the arguments are those of a call by default.
        catalog: What is declared about the catalog.
    """
    if rules is None:
        return CompactArguments(catalog, unattended=True)
    return CompactArguments(
        catalog,
        max_bytes=MAX_BYTES if rules.max_bytes is None else rules.max_bytes,
        max_partition_bytes=rules.max_partition_bytes,
        idle_ms=rules.idle_ms,
        level_0_ms=rules.level_0_ms,
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
        rules = rule_of(ruling).compaction or None
        if rules is not None and not rules.states(has_key=_has_key(table)):
            rules = None
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if rules is None:
        sentence = f"table {table.ref}: no fleet policy lets passes compact its data files (compaction)"
        return replace(report_of(table, OPERATION, "nothing_to_do", None), warnings=(sentence,))
    arguments = arguments_of(rules, declared_catalog(Catalog(), ruling))
    return compact(table, arguments, execute=execute, engine=engine)


def _has_key(table: Table) -> bool:
    return bool(opened(table, OPERATION, execute=True).schema.primary_keys)
