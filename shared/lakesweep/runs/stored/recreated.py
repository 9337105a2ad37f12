"""Plans of a table that was deleted and made anew at the same location."""

from lakesweep.errors import RefusedError
from lakesweep.model.identity import table_identity
from lakesweep.model.plan import PlanHeader
from lakesweep.runs.session import Table
from lakesweep.table.discover import sort_listing

RECREATED = "table_recreated"
"""Code of a plan that was made of another table at the same location."""


def check_same_table(table: Table, header: PlanHeader) -> None:
    """Refuse a plan that was made of another table at this location.

    A plan that a run has begun is not asked: it must end, and every deletion of it has its own conditions.

    Raises:
        RefusedError: With code `table_recreated`.
        StorageError: A request failed.
    """
    if not header.identity:
        return  # an earlier version made the plan, or the plan depends on one document alone
    found = table_identity(sort_listing(table.ref.location, table.store.list("schema/")))
    if found != header.identity:
        what = f"its first schema is {found.partition(':')[0]}, written anew" if found else "it has no schema"
        raise RefusedError(
            f"table {table.ref}: {what}; expected the table that plan {header.plan_id} was made of. The table was "
            "deleted or made anew since, so nothing of the plan is carried out; make a new plan",
            code=RECREATED,
        )
