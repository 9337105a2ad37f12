"""`delete_tag`: remove tags, and the files that only they hold."""

from lakesweep.model.plan import Plan
from lakesweep.operations.context import Table

OPERATION = "delete_tag"


def plan_delete_tag(table: Table, names: tuple[str, ...]) -> Plan:
    """Plan the removal of tags by name."""
    raise NotImplementedError
