"""Reads all rows of a version as a task does, for tests."""

from collections.abc import Callable, Sequence
from typing import Any

from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.roots import TableRef
from lakesweep.operations.reading.arrow import read_split, stores_of
from lakesweep.operations.reading.plan import plan_read
from lakesweep.operations.reading.types import arrow_schema
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store


def planned(
    store: Store,
    version: Version | None = None,
    *,
    branch: str = "main",
    columns: Sequence[str] | None = None,
    where: str | None = None,
    open_store: Callable[[str], Store] | None = None,
) -> ReadPlan:
    table = Table(TableRef(store.location, branch), store, None, open_store or _none)
    return plan_read(table, version or Version(), columns=columns, where=where)


def arrow_rows(store: Store, plan: ReadPlan, open_store: Callable[[str], Store] | None = None) -> Any:
    """Return the rows of a plan as one Arrow table."""
    import pyarrow

    stores = stores_of(plan, store, open_store)
    batches = [batch for split in plan.splits for batch in read_split(stores, plan.shared, split)]
    return pyarrow.Table.from_batches(batches, arrow_schema(plan.columns))


def read_rows(store: Store, version: Version | None = None, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a version, in the order of its files."""
    plan = planned(store, version, **options)
    return arrow_rows(store, plan, options.get("open_store")).to_pylist()


def _none(location: str) -> Store:
    raise AssertionError(f"{location} is not needed")
