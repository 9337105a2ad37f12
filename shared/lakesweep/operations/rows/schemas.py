"""The schemas of branches, compared with those of the branch of a call."""

from collections.abc import Iterable

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_schema, read_schemas
from lakesweep.table.vectors import has_vectors


class BranchSchemas:
    """The schemas of branches. What cannot be read counts as different."""

    def __init__(self, view: TableView) -> None:
        """Begin with the schema of the view; others are read when they are asked for."""
        self._view = view
        self._latest: dict[str, TableSchema | None] = {view.own.name: view.schema}
        self._fields: dict[tuple[str, int], tuple[DataField, ...] | None] = {}

    def has_same_keys(self, branch: str) -> bool:
        """Tell whether a branch has the partition keys of this one, so that their partitions can be compared."""
        own, schema = self._view.schema, self._of(branch)
        return schema is not None and (schema.partition_keys, _roots(schema)) == (own.partition_keys, _roots(own))

    def applies_vectors(self, branch: str) -> bool:
        """Tell whether readers of a branch apply deletion vectors."""
        schema = self._of(branch)
        try:
            return schema is not None and has_vectors(schema)
        except FormatError:
            return False

    def fields(self, branches: Iterable[str], schema_id: int) -> tuple[DataField, ...] | None:
        """Return the columns of a data file that roots of these branches have.

        `None`: the branch of the view has no equal schema, so the columns cannot be compared with its own.
        """
        own = self._of_id(self._view.own.name, schema_id)
        alike = all(self.has_same_keys(each) and self._of_id(each, schema_id) == own for each in branches)
        return own if alike else None

    def _of(self, branch: str) -> TableSchema | None:
        if branch not in self._latest:
            try:
                self._latest[branch] = read_schema(self._view.table.store, self._view.listing.branches[branch])
            except (FormatError, RefusedError, ObjectNotFoundError):
                self._latest[branch] = None
        return self._latest[branch]

    def _of_id(self, branch: str, schema_id: int) -> tuple[DataField, ...] | None:
        key = branch, schema_id
        if key not in self._fields:
            try:
                found = read_schemas(self._view.table.store, self._view.listing.branches[branch], [schema_id])
                self._fields[key] = found[schema_id].fields
            except (FormatError, RefusedError, ObjectNotFoundError):
                self._fields[key] = None
        return self._fields[key]


def _roots(schema: TableSchema) -> tuple[str, ...]:
    return tuple(each.root for each in schema.partition_types)
