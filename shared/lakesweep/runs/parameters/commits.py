"""Parameters that every operation which commits has: what is declared about the catalog, and how long it tries."""

from lakesweep.runs.parameters.parameter import Kind, bad_value, flag

COMMIT_OPTIONS = frozenset(
    {"commit.max-retries", "commit.timeout", "commit.min-retry-wait", "commit.max-retry-wait"},
)
"""Table options that decide how long a commit is tried again while other writers commit first."""


def read_catalog(value: object, name: str) -> str:
    """Read the type of a catalog. The types are imported only now, so that `--help` stays quick."""
    from lakesweep.model.policy import CATALOG_TYPES

    if value not in CATALOG_TYPES:
        raise bad_value(name, f"one of {', '.join(CATALOG_TYPES)}", value)
    return str(value)


catalog: Kind[str | None] = Kind("text", read_catalog, None, "TYPE")

CATALOG_TYPE = catalog(
    "catalog_type",
    "Type of the table's catalog, which no file of the table shows: filesystem, hive, jdbc, glue or rest. By default "
    "that of the fleet policy; without either, nothing is committed.",
)
CATALOG_LOCK = flag(
    "catalog_lock", "With --catalog-type: every writer of the table takes the catalog's lock for each commit."
)
CATALOG = (CATALOG_TYPE, CATALOG_LOCK)
AS_LATEST = flag(
    "as_latest", "Commit the version as a new snapshot, and withdraw nothing. Ids go on, and later snapshots stay."
)
"""Of a rollback, which commits nothing otherwise."""
