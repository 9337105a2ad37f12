"""What a call of `delete-rows` deletes, on any snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.index_files import refuse_external
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.where.where import Where
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.checks import check_table, rewrites_files
from lakesweep.operations.rows.commit import index_at
from lakesweep.operations.rows.copies import Copies, copies_of
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.operations.rows.groups import Group, groups_of
from lakesweep.operations.rows.search import Found, Search
from lakesweep.operations.rows.summary import partitions_of
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.session import Table

OPERATION = "delete-rows"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What becomes of the rows of a condition in one snapshot."""

    found: Found
    index: RawIndex | None
    """The index manifest of the snapshot."""
    groups: tuple[Group, ...]
    """The index files to write."""
    copies: Copies | None
    """The data files to rewrite; `None`: the table has deletion vectors."""

    @property
    def leaving(self) -> Sequence[ReadFile]:
        """The data files that leave the table."""
        if self.copies is not None:
            return self.copies.files
        return [match.file for match in self.found.matches if match.is_whole]

    @property
    def vector_rows(self) -> int:
        """How many rows vectors delete more than before."""
        return 0 if self.copies is not None else sum(match.count for match in self.found.matches if not match.is_whole)


class Task:
    """What a call deletes."""

    def __init__(self, table: Table, arguments: DeleteRowsArguments, where: Where, engine: RowsEngine) -> None:
        self.arguments = arguments
        self.table = remembering_manifests(table)
        self.where = where
        self.search = Search(self.table, engine, where)
        self.engine = engine

    def warnings(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that a table allows.

        Raises:
            RefusedError: It does not allow the commit.
        """
        check_table(base.schema)
        refuse_external(self.table.store, base.schema)
        newest, given = base.root, self.arguments
        return refuse_commit(
            base.schema, newest.snapshot, newest.body, given.catalog.type, "delete_rows", given.fallback_reappears
        )

    def deletion(self, base: Base, found: Found) -> Deletion:
        """Return what becomes of the rows that were found in a snapshot.

        Raises:
            RefusedError: As `copies_of`, or the index manifest is missing or damaged.
            StorageError: A request failed.
        """
        index, copies = index_at(self.table, base), None
        if rewrites_files(base.schema):
            found, copies = copies_of(self.table, base.schema, self._options(base.schema), found, index)
        changes = copies.changes if copies is not None else (match.change for match in found.matches)
        groups = groups_of(changes, index, base.schema, dangling=found.plan.counts.dangling)
        return Deletion(found, index, groups, copies)

    def _options(self, schema: TableSchema) -> dict[str, str]:
        return {**schema.options, **self.arguments.options}

    def report(self, base: Base | None = None, deletion: Deletion | None = None) -> RowsReport:
        """Return what a report says."""
        where, given = self.where, self.arguments
        report = RowsReport(
            condition=where.text if given.keep_condition else str(where),
            zone=where.zone if where.depends_on_zone else None,
            catalog=given.catalog.type,
        )
        if base is None or deletion is None:
            return report
        found = deletion.found
        return replace(
            report,
            base_uuid=base.root.snapshot.uuid,
            partitions=partitions_of(base.schema, found),
            all_files=found.plan.counts.files + found.plan.counts.pruned_files,
            searched_files=self.search.searched_files,
            index_files=sum(len(group.former) for group in deletion.groups),
            rewritten=None if deletion.copies is None else deletion.copies.report(),
        )
