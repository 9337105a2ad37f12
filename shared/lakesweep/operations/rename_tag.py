"""`rename_tag`: the same snapshot under another name."""

from lakesweep.model.plan import Plan
from lakesweep.operations.context import Table

OPERATION = "rename_tag"


def plan_rename_tag(table: Table, name: str, target: str) -> Plan:
    """Plan another name for a tag."""
    raise NotImplementedError
