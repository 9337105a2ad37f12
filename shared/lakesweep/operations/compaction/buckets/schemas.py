"""All schemas of a branch: data files of each may be there, with rows that were merged by its rules."""

from lakesweep.commit.base import list_branch
from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.format.schema import TableSchema
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_schemas


def all_schemas(table: Table, latest: TableSchema) -> tuple[TableSchema, ...]:
    """Return all schemas of the branch, ascending by id.

    Args:
        table: One branch of a table.
        latest: Its latest schema, as the call has read it.

    Raises:
        StalePlanError: A later schema has come.
        RefusedError: A schema is missing, damaged, or has another id than its name says (`unreadable_schema`).
        StorageError: A request failed.
    """
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
