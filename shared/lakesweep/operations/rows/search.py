"""Search a snapshot for the rows of a condition, and remember what was found for the next attempt.

A data file is never changed, and no two have one name. So what was found in a file holds on every later snapshot that
has this file with the same deletion vector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadFile, ReadPlan, Split
from lakesweep.model.roots import Root
from lakesweep.model.where.where import Where
from lakesweep.operations.reading.matching import matching_partition
from lakesweep.operations.reading.plan import plan_at
from lakesweep.operations.rows.checks import check_files
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.operations.rows.groups import Change
from lakesweep.runs.session import Table


@dataclass(frozen=True, slots=True)
class Match:
    """The rows of one data file that a deletion is about."""

    file: ReadFile
    count: int
    """0: none."""
    blob: bytes | None = field(repr=False)
    """Their positions; `None`: all rows of the file that no vector deletes."""

    @property
    def is_whole(self) -> bool:
        """Tell whether all rows of the file go, so that it leaves the table."""
        if not self.count:
            return False
        vector = self.file.vector
        deleted = 0 if vector is None else vector.cardinality
        return self.blob is None or (deleted is not None and self.count == self.file.rows - deleted)

    @property
    def change(self) -> Change:
        """What becomes of the file's vector."""
        return Change(self.file, None if self.is_whole else self.blob)


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a condition in one snapshot."""

    plan: ReadPlan
    matches: tuple[Match, ...]
    """Each data file with such rows, ascending by path."""
    is_reused: bool = False
    """Nothing was searched: what an earlier snapshot had is still there unchanged."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(match.count for match in self.matches)


@dataclass(slots=True)
class Search:
    """Searches the snapshots of one branch for the rows of one condition."""

    table: Table
    """Its store may cache metadata."""
    engine: RowsEngine
    where: Where
    searched_files: int = 0
    """Data files that were opened."""
    _known: dict[str, Match] = field(default_factory=dict)
    _last: tuple[Match, ...] | None = None
    _schema_id: int | None = None
    _partitions: dict[bytes, bool] = field(default_factory=dict)

    def at(self, root: Root, schema: TableSchema, *, looks_anew: bool = False) -> Found:
        """Return the rows of the condition in a snapshot.

        If all that an earlier call has found is still there unchanged, this is returned again. Rows that came since
        are not looked for then: they come after the deletion, as if their writer had committed later.

        Args:
            root: The snapshot.
            schema: The latest schema.
            looks_anew: Older data files may have come back since, so files that were not there are searched, too.

        Raises:
            MaintenanceError: As `plan_at` and `RowsEngine.match`.
        """
        if looks_anew:
            self._last = None  # also for the next call, if this one fails
        if self._schema_id not in (None, schema.id):
            self._known, self._last = {}, None
        self._schema_id = schema.id
        plan = plan_at(self.table, root, schema, self.where)
        check_files(plan)
        files = {file.path: file for split in plan.splits for file in split.files}
        if self._last is not None and all(files.get(each.file.path) == each.file for each in self._last):
            return Found(plan, self._last, is_reused=True)
        if self.where.always or self.where.columns <= set(plan.partition_keys):
            found = self._by_partition(plan, files)
        else:
            self._search(plan, files)
            found = [self._known[path] for path in sorted(files)]
        self._last = tuple(each for each in found if each.count)
        return Found(plan, self._last)

    def _search(self, plan: ReadPlan, files: Mapping[str, ReadFile]) -> None:
        """Search the files of which nothing is known."""
        known = {path for path, file in files.items() if path in self._known and self._known[path].file == file}
        parts = (tuple(file for file in split.files if file.path not in known) for split in plan.splits)
        splits = tuple(Split(part) for part in parts if part)
        fresh = {file.path: Match(file, 0, None) for split in splits for file in split.files}
        self.searched_files += len(fresh)
        if not splits:
            return
        rows = 0
        try:
            for each in self.engine.match(replace(plan, splits=splits)):
                fresh[each.path] = replace(fresh[each.path], count=each.count, blob=each.blob)
                rows += each.count
                self.table.progress("rows found", rows, None)
        except FormatError as error:
            raise RefusedError(f"table {self.table.ref}: {error}", code=error.code) from error
        # Only now: a search that ends early, for a file that is gone, has not seen every file. It is begun again.
        self._known |= fresh

    def _by_partition(self, plan: ReadPlan, files: Mapping[str, ReadFile]) -> list[Match]:
        """Return all rows of the partitions for which the condition is true, without a look into their files."""
        found, always = [], self.where.always
        for path in sorted(files):
            file = files[path]
            is_chosen = always or self._partitions.get(file.partition)
            if is_chosen is None:
                is_chosen = self._partitions[file.partition] = matching_partition(plan, file.partition)
            deleted = 0 if file.vector is None else file.vector.cardinality or 0
            found.append(Match(file, file.rows - deleted if is_chosen else 0, None))
        return found
