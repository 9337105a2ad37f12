"""The branch that a call works on: its newest snapshot and schema, and all roots where a report names them."""

from dataclasses import dataclass

from lakesweep.commit.base import Base, read_base
from lakesweep.format.schema import TableSchema
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin
from lakesweep.storage.store import Store


@dataclass(frozen=True, slots=True)
class Opened:
    """One branch of a table."""

    table: Table
    """Its store caches nothing: what a commit builds on must be there now."""
    schema: TableSchema
    base: Base | None
    """`None`: the branch has no snapshot."""
    now_ms: int
    """By the storage clock."""
    view: TableView | None
    """All roots of the table; `None` for an execution that was not given them."""

    @property
    def store(self) -> Store:
        """Return the store to read manifests from, which may cache them."""
        return self.table.store if self.view is None else self.view.table.store

    def whole(self) -> TableView:
        """Return all roots of the table."""
        assert self.view is not None
        return self.view


def opened(table: Table, operation: str, view: TableView | None = None, *, execute: bool) -> Opened:
    """Read the newest snapshot and schema of a branch.

    An execution lists no more than it has to: other branches and tags do not matter to a commit.

    Args:
        table: The table.
        operation: The name of the operation.
        view: The table as it was just listed, if it was.
        execute: The call commits.

    Raises:
        RefusedError: This is no table, the branch does not exist, or its snapshot or schema cannot be read.
        StorageError: A request failed.
    """
    if view is None and execute:
        base = read_base(table.store, table.ref.branch)
        if base is not None:
            return Opened(table, base.schema, base, table.store.now_ms(), None)
    view = view or begin(table, operation)
    base = None
    if view.own.snapshots:
        (newest,) = view.own_documents(view.own.snapshots[-1:])
        base = Base(newest, view.schema, view.own.schemas[-1], first_schema_ms=view.own.schemas[0].modified_ms)
    return Opened(table, view.schema, base, view.now_ms, view)
