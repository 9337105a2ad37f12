"""`read`: the rows of one version, read on this machine. The table is not changed."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Any

from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.values.data_type import type_name
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.operations.reading.ahead import read_ahead
from lakesweep.operations.reading.arrow import missing_file, read_split, stores_of
from lakesweep.operations.reading.targets import STREAM, opened
from lakesweep.runs.session import Table
from lakesweep.storage.together import waits

_AT_ONCE = 8
_HELD_ROWS = 10_000
"""So few rows for a stream are held until all are read, and no other data file is asked for."""

Protect = Callable[[ReadPlan], AbstractContextManager[str | None]]
"""Keeps the files of a plan from being deleted until the block ends, and returns the tag that does."""


def unprotected(plan: ReadPlan) -> AbstractContextManager[None]:
    """Protect nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class ReadRows:
    """What a read has written."""

    plan: ReadPlan
    to: str
    rows: int
    missing: tuple[str, ...]
    """Data files that do not exist, whose rows are left out."""
    protected_by: str | None = None
    """The tag that protected the version until the end; `None`: nothing did."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        plan, counts = self.plan, self.plan.counts
        return {
            "table": plan.table,
            "branch": plan.branch,
            "snapshot_id": plan.snapshot_id,
            "tag": plan.tag,
            "schema_id": plan.schema_id,
            "columns": [{"name": column.name, "type": type_name(column.field.type)} for column in plan.columns],
            "to": self.to,
            "rows": self.rows,
            "files": counts.files,
            "pruned_files": counts.pruned_files,
            "deleted_rows": counts.deleted_rows,
            "level_0_files": counts.level_0_files,
            "level_0_rows": counts.level_0_rows,
            "missing_files": list(self.missing),
            "protected_by": self.protected_by,
        }


def write_rows(
    table: Table,
    plan: ReadPlan,
    to: str,
    *,
    limit: int | None = None,
    allows_missing: bool = False,
    emit: Callable[[str], None],
    protect: Protect = unprotected,
) -> ReadRows:
    """Write the rows of a plan.

    Args:
        table: The table of the plan.
        plan: The plan.
        to: See `targets.opened`. To a stream, no row is written before every data file is known to exist, or all of a
            few rows are read.
        limit: The most rows; `None` for all.
        allows_missing: Leave out data files that do not exist.
        emit: Writes text to the stream.
        protect: Protects the version while it is read.

    Raises:
        UsageError: The target is no valid path.
        RefusedError: The target exists or lies in the table; or as `read_split`.
        FormatError: A file is damaged. A stream has some of the rows then, a file none.
        StorageError: A read or write failed.
    """
    missing: list[str] = []
    rows = 0
    with opened(to, plan, emit) as target, protect(plan) as tag:
        is_held = to == STREAM and limit is not None and limit <= _HELD_ROWS
        if to == STREAM and not allows_missing and not is_held:
            check_present(table, plan)
        held: list[tuple[int, Any]] = []
        with closing(rows_of(table, plan, limit=limit, missing=missing if allows_missing else None)) as found:
            for number, part in found:
                rows += part.num_rows
                if is_held:
                    held.append((number, part))
                else:
                    target.write(number, part)
        for number, part in held:
            target.write(number, part)
    return ReadRows(plan, to, rows, tuple(missing), tag)


def rows_of(
    table: Table, plan: ReadPlan, *, limit: int | None = None, missing: list[str] | None = None
) -> Generator[tuple[int, Any], None, None]:
    """Yield the rows of a plan, as record batches with the number of their split. Close it if it is not taken whole.

    Args:
        table: The table of the plan.
        plan: The plan.
        limit: The most rows; `None` for all.
        missing: Takes the paths of data files that do not exist, which are left out; `None`: such a file is an error.

    Raises:
        RefusedError: As `read_split`.
        FormatError: A file is damaged, or there are fewer rows than metadata tell, or more.
        StorageError: A read failed.
    """
    stores = stores_of(plan, table.store, table.open_store)
    on_missing = None if missing is None else lambda file: missing.append(file.path)
    rows = 0
    splits = plan.splits if limit != 0 else ()
    # The order of the splits is kept for the names of files alone: nothing depends on which request is sent first.
    found = read_ahead(
        splits,
        lambda split: read_split(stores, plan, split, on_missing=on_missing),
        in_threads=waits(table.store) and len(splits) > 1,
    )
    with closing(found):
        for number, batch in found:
            part = batch if limit is None else batch.slice(0, limit - rows)
            rows += part.num_rows
            yield number, part
            if rows == limit:
                return
    if limit is None and not missing:
        check_rows(plan, rows)


def check_rows(plan: ReadPlan, rows: int) -> None:
    """Make sure that all rows were read, where metadata tell how many there are.

    Raises:
        FormatError: There are fewer, or more.
    """
    counts = plan.counts
    if plan.where is not None or plan.has_kinds or counts.deleted_rows is None:
        return
    if rows != counts.rows - counts.deleted_rows:
        raise FormatError(
            f"table {plan.table}: expected {counts.rows} rows without {counts.deleted_rows} deleted ones, found {rows}"
        )


def check_present(table: Table, plan: ReadPlan) -> None:
    """Make sure that every data file exists.

    Raises:
        RefusedError: One does not.
        StorageError: A request failed.
    """
    stores = stores_of(plan, table.store, table.open_store)

    def check(file: ReadFile) -> None:
        store, key = stores.resolve(file.path)
        try:
            store.read_range(key, file.size_bytes - 1, 1)
        except ObjectNotFoundError as error:
            raise missing_file(plan, file) from error

    files = [file for split in plan.splits for file in split.files]
    if not waits(stores.table):
        for file in files:
            check(file)
        return
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="present") as pool:
        for _ in pool.map(check, files):
            pass
