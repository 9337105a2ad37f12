"""The order of the tables of an overview: the one on which a person should act first is first."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from lakesweep.model.overview import TableOverview

Key = Callable[[TableOverview], tuple[float | int | str, ...]]


def _urgency(table: TableOverview) -> tuple[float | int | str, ...]:
    return (not must_act(table), -table.saving_usd_month, -table.usd_month, table.name)


ORDERS: Mapping[str, Key] = MappingProxyType(
    {
        "urgency": _urgency,
        "saving": lambda table: (-table.saving_usd_month, table.name),
        "cost": lambda table: (-table.usd_month, table.name),
        "bytes": lambda table: (-(table.bytes + (table.noncurrent_bytes or 0)), table.name),
        "small-files": lambda table: (-(table.small_files or 0), table.name),
        "snapshots": lambda table: (-table.snapshots, table.name),
        "name": lambda table: (table.name,),
    }
)
"""The values of `--sort`. `urgency`: first what is lost or about to be, then what a pass would save, then cost."""
DEFAULT = "urgency"


def must_act(table: TableOverview) -> bool:
    """Tell whether something of a table is lost or about to be, or cannot be known since the table cannot be read."""
    return table.problem is not None or any(finding.severity == "act" for finding in table.findings)


def in_order(tables: Iterable[TableOverview], order: str = DEFAULT) -> tuple[TableOverview, ...]:
    """Return tables in one of `ORDERS`. Tables of one name are in the order of their locations."""
    key = ORDERS[order]
    return tuple(sorted(tables, key=lambda table: (*key(table), table.table)))
