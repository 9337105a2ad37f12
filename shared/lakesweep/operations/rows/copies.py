"""Data files that lose rows by being rewritten: copy-on-write, for tables whose readers apply no deletion vectors.

One file becomes a new one with its other rows, or leaves if it has none. Such a table may have vectors from before they
were switched off. Readers show the rows of these vectors again. So they are searched like all others, and stay unless
the condition chooses them. The vectors leave with their files.

Source: Paimon `DeleteFromPaimonTableCommand` (Spark).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.commit.environment import Attempt
from lakesweep.errors import FormatError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import APPEND
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import read_vector
from lakesweep.model.commits.rows import RewrittenFiles
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.reading.plan import with_all_columns
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.operations.rows.groups import Change, vector_files
from lakesweep.operations.rows.search import Found
from lakesweep.operations.tags.options import declared_zone
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.options import Writing, writing_of
from lakesweep.operations.writing.parquet import check_types
from lakesweep.operations.writing.rewriting import RewrittenBin, Work, creation_time_ms
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.session import Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.paths import TablePaths
from lakesweep.table.vectors import locate


@dataclass(frozen=True, slots=True)
class Copies:
    """What becomes of the data files that lose rows."""

    plan: ReadPlan
    """How their rows are read: with all columns, without a condition."""
    writing: Writing
    files: tuple[ReadFile, ...] = ()
    """They all leave. Each has its vector, if it has one from before, which leaves with it."""
    bins: tuple[Bin, ...] = ()
    """Those of which rows are left. Each is rewritten alone."""
    kept_rows: int = 0

    @property
    def changes(self) -> tuple[Change, ...]:
        """What becomes of the vectors."""
        return tuple(Change(file, None) for file in self.files)

    def report(self, made: Sequence[RewrittenBin] = ()) -> RewrittenFiles:
        """Return what a report says of them."""
        new = [file for each in made for file in each.files]
        return RewrittenFiles(
            files=len(self.bins),
            bytes=sum(each.size_bytes for each in self.bins),
            kept_rows=self.kept_rows,
            written_files=len(new),
            written_bytes=sum(file.size_bytes for file in new),
        )


def copies_of(
    table: Table, schema: TableSchema, options: Mapping[str, str], found: Found, index: RawIndex | None
) -> tuple[Found, Copies]:
    """Return what becomes of data files with rows of a condition; files that keep no row lose all of them.

    Args:
        table: The table.
        schema: The latest schema of the branch.
        options: The table's options, with those of the call.
        found: The rows, in a snapshot.
        index: The index manifest of this snapshot.

    Raises:
        RefusedError: Lakesweep writes no data files for such a table, or a column cannot be read.
        StorageError: A request failed.
    """
    writing = writing_of(replace(schema, options=options), schema.fields)
    check_types(schema.fields)
    plan = with_all_columns(table, found.plan.shared, schema)
    located = locate(table.store, vector_files(index), TablePaths(schema))
    files = {match.file.path: match.file._replace(vector=located.get(match.file.vector_key)) for match in found.matches}
    matches, bins, kept_rows = [], list[Bin](), 0
    for match in found.matches:
        file = match.file
        gone = None if match.blob is None else read_vector(match.blob, None, file.path)
        kept = 0 if gone is None else file.rows - gone.cardinality
        kept_rows += kept
        if kept and gone is not None:
            bins.append(Bin((file,), (gone.blob.tobytes(),)))
        matches.append(match if kept else replace(match, blob=None))
    return replace(found, matches=tuple(matches)), Copies(plan, writing, tuple(files.values()), tuple(bins), kept_rows)


@dataclass(slots=True)
class Copying:
    """Writes the data files of all attempts of one commit."""

    table: Table
    engine: RowsEngine
    zone: str | None
    """Of the writers' clocks; `None`: as the fleet policy declares it, else UTC. It is read once there is work."""
    since: Stopwatch | None = None
    """Counts from before the first of the files was written that the last attempt names; `None`: there are none."""
    is_reused: bool = False
    """An earlier attempt has written some of them."""
    _written: dict[tuple[int, Bin], RewrittenBin] = field(default_factory=dict)

    def write(self, attempt: Attempt, copies: Copies) -> Sequence[RewrittenBin]:
        """Write data files, or use those of an earlier attempt; in the order of the bins.

        Raises:
            MaintenanceError: As `rewrite_bin`. Some files may exist; they are orphans.
        """
        since = self.since
        is_late = since is not None and since.elapsed_ms() > ORPHAN_AGE_MS // 2
        if not attempt.may_reuse or attempt.base.is_restart or is_late:
            self._written = {}  # a rollback or an orphan scan may have deleted what an earlier attempt wrote
        if not self._written:
            self.since = None
        schema = attempt.base.schema
        keys = {each: (schema.id, each) for each in copies.bins}
        fresh = [each for each, key in keys.items() if key not in self._written]
        self.is_reused = len(fresh) < len(copies.bins)
        if fresh:
            self.since = self.since or Stopwatch()
            zone = declared_zone(self.table, self.zone, None if self.zone is not None else ruling_of(self.table))
            created_ms = creation_time_ms(attempt.now_ms, zone)
            work = Work(copies.plan, schema, copies.writing, created_ms, APPEND)
            for each, made in zip(fresh, self.engine.rewrite(work, fresh), strict=True):
                self._check(each, made)
                self._written[keys[each]] = made
        return [self._written[key] for key in keys.values()]

    @staticmethod
    def _check(each: Bin, made: RewrittenBin) -> None:
        gone = read_vector(each.gone[0], None, each.files[0].path)
        expected, found = each.rows - gone.cardinality, sum(file.rows for file in made.files)
        if found != expected:
            raise FormatError(
                f"{each.files[0].path}: expected {expected} rows to stay, found {found}; nothing is committed"
            )
