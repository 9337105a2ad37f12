"""What can be read of a table without changing it: its roots, files and rows, and its runs and plans."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Unpack

from lakesweep.api.arguments import Past, VersionArguments, located, past_ms, required, time_text, typed, version_of
from lakesweep.api.calling import speaking
from lakesweep.api.recorded import RecordedTable
from lakesweep.api.results import Document
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow

    from lakesweep.api.rows import PlannedRows
    from lakesweep.runs.session import Table as OpenedTable


class ReadableTable(RecordedTable):
    """A table that is only read. `Table` has the calls that change it."""

    __slots__ = ()

    def show(
        self,
        *,
        pinned: bool = False,
        with_deletion_vectors: bool = False,
        levels: bool = False,
        **version: Unpack[VersionArguments],
    ) -> Document:
        """Show roots, retention and oddities, and one version if an argument names it.

        Args:
            pinned: Also measure, in bytes, live files and what consumers, branches and tags hold. Reads more.
            with_deletion_vectors: Count deleted rows by partition. Reads more.
            levels: With a primary key: sorted runs and waiting files of each bucket. Reads more.
            version: See `VersionArguments`.
        """

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.operations.inspect.show import summarise

            chosen, falls_back = version_of(version)
            return summarise(
                table,
                chosen,
                pinned=bool(pinned),
                by_partition=bool(with_deletion_vectors),
                levels=bool(levels),
                falls_back_to_tags=falls_back,
            ).to_json()

        return self._read(read)

    def files(
        self, *, with_deletion_vectors: bool = False, positions: bool = False, **version: Unpack[VersionArguments]
    ) -> Document:
        """List the data files of one version below `files`: path, bytes, rows, level.

        Args:
            with_deletion_vectors: Say how many rows of each file are deleted, and where the vector lies.
            positions: Also list the deleted rows, from 0.
            version: See `VersionArguments`; by default the latest snapshot.
        """

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.operations.inspect.files import list_files

            chosen, falls_back = version_of(version)
            return list_files(
                table,
                chosen,
                falls_back_to_tags=falls_back,
                with_vectors=bool(with_deletion_vectors),
                with_positions=bool(positions),
            ).to_json()

        return self._read(read)

    def explain(
        self, file: "str | PathLike[str] | None" = None, *, older_than: Past | None = None, quarantine: Any = None
    ) -> Document:
        """Explain why an object exists, or what happened to it; without `file`, why the table's bytes are kept.

        Args:
            file: An object, relative to the table or as a full URI.
            older_than: Cutoff of a scan for orphan files; by default a day ago.
            quarantine: Quarantine of this table's scans, such as `1 d`, or a timedelta.

        Raises:
            RefusedError: Nothing is known about the object.
        """
        path = located("file", file)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
            from lakesweep.operations.inspect.explain.table import explain_table
            from lakesweep.runs.parameters.times import parse_span_ms

            before_ms = past_ms("older_than", older_than, table.store.now_ms)
            if path is None:
                if quarantine is not None:
                    raise UsageError("quarantine: expected with a file", code="bad_argument")
                return explain_table(table, before_ms).to_json()
            text = None if quarantine is None else time_text("quarantine", quarantine)
            waits_ms = None if text is None else parse_span_ms(text, "quarantine", "d")
            return explain_file(table, path, ExplainArguments(before_ms, waits_ms)).to_json()

        return self._read(read)

    def simulate(
        self, policies: Sequence[str] = (), *, tag_rules: str | None = None, days: int | None = None, **limits: Any
    ) -> Document:
        """Show what the table would keep under other rules: snapshots, files, bytes and USD a month, below `cases`.

        The location may also be that of a database or a warehouse.

        Args:
            policies: Such as `time-retained=3 d, retain-max=100, keep-daily=7`; by default some ages.
            tag_rules: Calendar rules for tags, such as `daily=7, weekly=4`.
            days: Also replay the commits of so many days.
            limits: One policy more: `retain_max`, `retain_min`, `older_than`, `time_retained`, `protect_commit_user`.
        """
        from lakesweep.api.simulating import simulation_of

        return self._read(lambda table: simulation_of(table, policies, tag_rules, days, limits))

    def check(self, *, all_roots: bool = False) -> Document:
        """Report below `findings` what is wrong with the table, and what mends it. `status` is `healthy` or `findings`.

        Args:
            all_roots: Check the data files of every root, not only of the newest snapshot of each branch.
        """

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.api.mending import with_options
            from lakesweep.operations.inspect.check.table import check_table

            return with_options(check_table(table, all_roots=bool(all_roots)).to_json(), self._place)

        return self._read(read)

    def tags(self, *names: str, time_zone: str | None = None) -> Document:
        """List the tags of the branch below `tags`, with snapshot and end of life.

        Args:
            names: Only these tags.
            time_zone: Time zone of the tags' times, such as `Europe/Berlin`.
        """
        only, zone = tuple(required("tag", name, str) for name in names), typed("time_zone", time_zone, str)

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.operations.inspect.tags import list_tags

            return list_tags(table, only, zone).to_json()

        return self._read(read)

    def branches(self, *, sizes: bool = False) -> Document:
        """List the branches below `branches`: where each began, and what it contains.

        Args:
            sizes: Also say how many bytes each alone keeps. Reads the metadata of all roots.
        """

        def read(table: "OpenedTable") -> Mapping[str, Any]:
            from lakesweep.operations.inspect.branches import list_branches

            return list_branches(table, sizes=bool(sizes))

        return self._read(read)

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        time_zone: str = "UTC",
        limit: int | None = None,
        allow_missing: bool = False,
        **version: Unpack[VersionArguments],
    ) -> "pyarrow.Table":
        """Read the rows of one version into memory. Needs the extra `read`.

        Args:
            columns: Names of the wanted columns, in this order; `None` for all.
            where: Only rows of this condition, in Spark's SQL, such as `price > 10 AND day = '2026-01-31'`.
            time_zone: Time zone of times in `where`.
            limit: At most this many rows, any of them.
            allow_missing: Leave out data files that do not exist. Then the rows are fewer than the version has.
            version: See `VersionArguments`; by default the latest snapshot.

        Returns:
            A table with the columns in the order of the schema, or of `columns`, and no particular order of rows.

        Raises:
            UsageError: A column or the condition is not valid.
            RefusedError: The version does not exist, its rows cannot be read, or a package is missing.
            FormatError: A file is damaged, or there are fewer rows than metadata tell, or more.
        """
        from lakesweep.operations.reading.types import arrow_schema, load_arrow

        with self._caller.listening(), speaking():
            arrow = load_arrow()
            found = self._planned_rows(columns, where, time_zone, limit, version)
            missing: list[str] | None = [] if allow_missing else None
            with closing(found.rows(missing)) as batches:
                return arrow.Table.from_batches(list(batches), schema=arrow_schema(found.plan.columns))

    def read_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        time_zone: str = "UTC",
        limit: int | None = None,
        allow_missing: bool = False,
        **version: Unpack[VersionArguments],
    ) -> "Generator[pyarrow.RecordBatch, None, None]":
        """Read the rows of one version batch by batch, in bounded memory; see `read`.

        The version is found and its files are listed before this returns. An error may follow after some batches, so
        rows count only once the generator has ended. Close the generator if you do not take it whole.
        """
        with self._caller.listening(), speaking():
            found = self._planned_rows(columns, where, time_zone, limit, version)
        return self._spoken_rows(found, [] if allow_missing else None)

    def _planned_rows(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        time_zone: str,
        limit: int | None,
        version: Mapping[str, Any],
    ) -> "PlannedRows":
        from lakesweep.api.rows import plan_rows

        return plan_rows(self._caller.open(self._place), columns, where, time_zone, limit, version)

    def _spoken_rows(
        self, found: "PlannedRows", missing: list[str] | None
    ) -> "Generator[pyarrow.RecordBatch, None, None]":
        with speaking(), closing(found.rows(missing)) as batches:
            yield from batches
