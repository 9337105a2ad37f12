"""The columns with which a data file is searched: those of a branch that needs it.

A field id means the same column in two branches only where both have the same schema of that id, since branches number
new columns independently.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField
from lakesweep.model.reading.casts import unsupported
from lakesweep.model.reading.columns import by_id, is_same
from lakesweep.model.reading.plan import ReadCounts, ReadFile, ReadPlan
from lakesweep.model.where.facts import keeps_values
from lakesweep.model.where.where import Where, parse_where
from lakesweep.operations.rows.schemas import BranchSchemas
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_schema
from lakesweep.table.paths import TablePaths


@dataclass(slots=True)
class Viewpoint:
    """A branch whose columns the condition is about."""

    branch: str
    schema: TableSchema
    where: Where
    paths: TablePaths
    schemas: BranchSchemas
    known_fields: dict[int, tuple[DataField, ...]] = field(default_factory=dict)
    """Id of a schema that was asked for -> its columns."""

    def fields(self, schema_id: int) -> tuple[DataField, ...]:
        """Return the columns of a schema that `Viewpoints.of` has found."""
        return self.known_fields[schema_id]

    def plan(self, table: Table) -> ReadPlan:
        """Return how files are searched: without vectors, and with rows of all kinds."""
        return ReadPlan(
            table=table.ref.location,
            branch=self.branch,
            snapshot_id=None,
            tag=None,
            schema_id=self.schema.id,
            fields=self.schema.fields,
            partition_keys=self.schema.partition_keys,
            primary_keys=(),
            columns=(),
            schemas=self.known_fields,
            splits=(),
            counts=ReadCounts(),
            where=self.where,
        )

    def file(self, each: RowEntry) -> ReadFile:
        """Return the data file of an entry, without its vector.

        Raises:
            FormatError: The partition is none of this branch.
        """
        return ReadFile.of(each, self.paths.data_file(each.entry))

    def hides(self, schema_id: int, file: ReadFile) -> bool:
        """Tell whether older readers may have seen other values in a file than those that the condition is asked of."""
        mine = self.fields(schema_id)
        for wanted in self.where.fields:
            found = by_id(mine, wanted.id)
            if wanted.name in self.schema.partition_keys:
                continue
            if any(each.name == wanted.name and each is not found for each in mine):
                return True  # another column had this name
            if found is None:
                continue
            if file.write_cols is not None and found.name not in file.write_cols:
                return True
            if not (is_same(found.type, wanted.type) or keeps_values(found.type, wanted.type)):
                return True
        return False

    def converts(self, schema_id: int) -> bool:
        """Tell whether Lakesweep reads the columns of a schema as those of the condition."""
        pairs = ((by_id(self.fields(schema_id), wanted.id), wanted) for wanted in self.where.fields)
        return not any(found is not None and any(unsupported(found.type, wanted.type)) for found, wanted in pairs)


class Viewpoints:
    """The branches of a table, as viewpoints. What cannot be read is none."""

    def __init__(self, view: TableView, where: Where) -> None:
        """Begin with the branch of the view.

        Raises:
            RefusedError: Its paths cannot be told.
        """
        self._view = view
        self._text, self._zone = where.text, where.zone
        own = Viewpoint(view.own.name, view.schema, where, view.paths(), BranchSchemas(view))
        self._known: dict[str, Viewpoint | None] = {own.branch: own}

    def known(self, branch: str) -> Viewpoint:
        """Return a viewpoint that `of` has returned."""
        found = self._known[branch]
        assert found is not None
        return found

    def of(self, branches: Collection[str], schema_id: int) -> Viewpoint | None:
        """Return from where to look at a file that was written with this schema, and that roots of branches need.

        `None`: none of these branches can tell what the columns of the file are.
        """
        own = self._view.own.name
        for branch in (own, *sorted(set(branches) - {own})):
            found = self._viewpoint(branch)
            fields = None if found is None else found.schemas.fields(branches, schema_id)
            if found is not None and fields is not None:
                found.known_fields[schema_id] = fields
                return found
        return None

    def _viewpoint(self, branch: str) -> Viewpoint | None:
        if branch not in self._known:
            self._known[branch] = self._made(branch)
        return self._known[branch]

    def _made(self, branch: str) -> Viewpoint | None:
        view, listing = self._view, self._view.listing.branches[branch]
        try:
            schema = read_schema(view.table.store, listing)
            where = parse_where(self._text, schema.fields, zone=self._zone)
            there = replace(view, own=listing, schema=schema)
            return Viewpoint(branch, schema, where, TablePaths(schema), BranchSchemas(there))
        except (UsageError, FormatError, RefusedError):
            return None
