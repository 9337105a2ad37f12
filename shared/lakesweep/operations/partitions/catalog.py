"""Find what the call or the fleet policy declares about a table's catalog.

No file of a table shows its catalog. What a commit may promise depends on it, so it is declared, and never guessed.
"""

from lakesweep.errors import UsageError
from lakesweep.operations.partitions.arguments import Catalog
from lakesweep.runs.fleet import Ruling, rule_of
from lakesweep.runs.parameters import partitions as given
from lakesweep.runs.parameters.parameter import Call


def stated_catalog(call: Call) -> Catalog:
    """Return what a call declares.

    Raises:
        UsageError: It declares a lock, and no type.
    """
    catalog = Catalog(call[given.CATALOG_TYPE], call[given.CATALOG_LOCK])
    if catalog.has_lock and catalog.type is None:
        raise UsageError("catalog_lock is stated without catalog_type; expected both", code="bad_argument")
    return catalog


def declared_catalog(stated: Catalog, ruling: Ruling | None) -> Catalog:
    """Return what the call declares, else what the fleet policy declares. A call that states a type states the lock."""
    if stated.type is not None:
        return stated
    rule = rule_of(ruling)
    return Catalog(rule.catalog_type, rule.catalog_lock)
