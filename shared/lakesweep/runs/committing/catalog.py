"""Find what the call or the fleet policy declares about a table's catalog.

No file of a table shows its catalog. What a commit may promise depends on it, so it is declared, and never guessed.
"""

from dataclasses import dataclass

from lakesweep.errors import UsageError
from lakesweep.runs.fleet import Ruling, rule_of, ruling_of
from lakesweep.runs.parameters import commits as given
from lakesweep.runs.parameters.parameter import Call, stated
from lakesweep.runs.session import Table


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the call or the fleet policy declares about the catalog of a table. A table's files do not show it."""

    type: str | None = None
    """One of `model.policy.CATALOG_TYPES`; `None`: not declared, so nothing is committed."""
    has_lock: bool = False
    """Every writer of the table takes the catalog's lock for a commit."""

    def to_json(self) -> dict[str, object]:
        """Return what is declared."""
        return stated(catalog_type=self.type, catalog_lock=self.has_lock)


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


def catalog_of(table: Table, call: Call) -> Catalog:
    """Return what the call declares, else what the fleet policy declares about the table.

    Raises:
        UsageError: The call declares a lock, and no type.
        StorageError: The policy could not be read.
    """
    catalog = stated_catalog(call)
    return declared_catalog(catalog, None if catalog.type is not None else ruling_of(table))
