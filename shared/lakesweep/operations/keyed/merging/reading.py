"""Read runs: all columns of merged runs, and only the keys of deeper runs."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.values.data_type import DataField
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.keyed import Key, KeyedFile, MergeJob, MergeRules, Run
from lakesweep.model.reading.columns import KIND_FIELD, SEQUENCE_FIELD, file_columns
from lakesweep.model.reading.plan import ReadColumn, ReadPlan
from lakesweep.model.where.facts import ColumnRange
from lakesweep.operations.keyed.merging.codes import Part, RowKey, bound, parts_of, row_key, steps
from lakesweep.operations.keyed.merging.stream import Rows
from lakesweep.operations.reading.arrow import kept_rows, missing_file
from lakesweep.operations.reading.parquet import Choose
from lakesweep.operations.reading.types import arrow_type, load_arrow, load_numpy
from lakesweep.operations.writing.rewriting import MOST_COLUMN_BYTES
from lakesweep.table.stores import TableStores

_HELD_BYTES = 32 << 20
"""The rows of all runs that wait in memory."""
_BUFFERED_BYTES = 128 << 20
"""What is kept of the files of all runs before it is unpacked."""
_LEAST_BUFFER, _MOST_BUFFER = 64 << 10, 8 << 20
_SMALL_BYTES = 8 << 20
"""A smaller file is read with one request."""
_MOST_ROWS = 1 << 16
_UNPACKED = 3
"""So much larger are values in memory than in a file."""
_BITS = 256
"""Of a value with any length."""
_LAST_KIND = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each run is read at a time."""

    batch_rows: int
    batch_bytes: int
    small_bytes: int
    """A smaller file is read with one request."""
    buffer_bytes: int | None
    """See `parquet_batches`."""


def sizes_of(job: MergeJob, columns: Sequence[ReadColumn]) -> Sizes:
    """Return sizes that keep all runs of a job in memory together."""
    runs = len(job.runs) + len(job.deeper)
    large = sum(max(file.file.size_bytes for file in run) for run in job.runs)
    packed = max(file.file.size_bytes / max(1, file.file.rows) for file in job.files)
    row_bytes = max(_UNPACKED * packed, sum(map(_width, columns)) / 8, 1)
    share = _BUFFERED_BYTES // (len(job.runs) * max(1, len(columns)))
    return Sizes(
        batch_rows=max(1, min(_MOST_ROWS, int(_HELD_BYTES / (runs * row_bytes)))),
        batch_bytes=_HELD_BYTES // runs,
        small_bytes=_SMALL_BYTES if large <= _BUFFERED_BYTES // 2 else 0,
        buffer_bytes=None if large <= _BUFFERED_BYTES else max(_LEAST_BUFFER, min(_MOST_BUFFER, share)),
    )


def _width(column: ReadColumn) -> int:
    try:
        return int(arrow_type(column.field.type).bit_width)
    except ValueError:
        return _BITS


def with_system(plan: ReadPlan, columns: Sequence[ReadColumn], fields: Sequence[DataField]) -> ReadPlan:
    """Return a plan that also reads system columns, and rows of all kinds."""
    return replace(
        plan,
        columns=(*columns, *(ReadColumn(field, False) for field in fields)),
        schemas={id_: (*own, *fields) for id_, own in plan.schemas.items()},
        primary_keys=(),
    )


class Reader:
    """Reads the runs of one job."""

    def __init__(
        self,
        stores: TableStores,
        plan: ReadPlan,
        rules: MergeRules,
        vectors: Mapping[str, DeletionVector],
        sizes: Sizes,
        columns: Sequence[ReadColumn],
        *,
        has_sequence: bool,
    ) -> None:
        """Prepare.

        Args:
            stores: The table's store.
            plan: See `MergeWork`.
            rules: How rows are merged.
            vectors: Path of a data file -> its vector.
            sizes: How much is read at a time.
            columns: Those of the merged rows, without system columns; the key is among them.
            has_sequence: The sequence numbers of merged rows are read.
        """
        self._has_sequence = has_sequence
        self._stores, self._rules, self._vectors, self._sizes = stores, rules, vectors, sizes
        self._plan = with_system(plan, columns, (SEQUENCE_FIELD, KIND_FIELD) if has_sequence else (KIND_FIELD,))
        by_name = {column.name: column for column in columns}
        keys = [by_name[name] for name in rules.keys]
        self.types = [column.field.type for column in keys]
        self._deep_plan = replace(plan, columns=tuple(keys))
        self._counts: list[int] = []

    @property
    def rows_read(self) -> int:
        """So many merged rows, without those that a vector deletes."""
        return sum(self._counts)

    def merged(self, run: Run) -> Generator[Rows, None, None]:
        """Yield the rows of a run with all columns, then the sequence number and the kind.

        Raises:
            RefusedError: A data file does not exist (`missing_data_file`), or its rows are not as its entry states
                (`unsorted_file`).
            FormatError: A file is damaged.
            StorageError: A read failed.
        """
        before: RowKey | None = None
        for file in run:
            for _, _, batch in self._read(self._plan, file, None):
                keys = self._keys(file, batch)
                before, is_strict = self._checked(file, keys, before)
                self._check_system(file, batch)
                self._counts.append(batch.num_rows)
                rows = Rows(file, keys, batch, is_strict, batch.nbytes)
                if self._rules.ignores_deletes:
                    rows = _without_deletes(rows)
                if rows.count:
                    yield rows

    def deeper(self, run: Run, low: Key, high: Key) -> Generator[Rows, None, None]:
        """Yield the keys of a run, and where they lie. Rows that delete others are left out.

        Args:
            run: The run.
            low: Row groups whose keys are all smaller are not read.
            high: Row groups whose keys are all larger are not read.

        Raises:
            As `merged`.
        """
        numpy = load_numpy()
        before: RowKey | None = None
        for file in run:
            if file.high < low or file.low > high:
                continue
            for first, kept, batch in self._read(self._deep_plan, file, self._choice(file, low, high)):
                keys = self._keys(file, batch)
                before, is_strict = self._checked(file, keys, before)
                places = (
                    numpy.arange(batch.num_rows)
                    if kept is None
                    else numpy.flatnonzero(kept.to_numpy(zero_copy_only=False))
                )
                yield Rows(file, keys, None, is_strict, batch.nbytes, places + first)

    def _read(
        self, plan: ReadPlan, file: KeyedFile, choose: Choose | None
    ) -> Generator[tuple[int, Any, Any], None, None]:
        sizes, is_deep = self._sizes, plan is self._deep_plan
        try:
            yield from kept_rows(
                self._stores,
                plan,
                file.file,
                self._vectors.get(file.file.path),
                sizes.batch_rows,
                is_whole=not is_deep and file.file.size_bytes <= sizes.small_bytes,
                most_bytes=MOST_COLUMN_BYTES,
                buffer_bytes=None if is_deep else sizes.buffer_bytes,
                batch_bytes=sizes.batch_bytes,
                choose=choose,
            )
        except ObjectNotFoundError as error:
            raise missing_file(plan, file.file) from error
        except FormatError as error:
            raise FormatError(f"table {plan.table}, {error}", code=error.code) from error

    def _choice(self, file: KeyedFile, low: Key, high: Key) -> Choose:
        """Return what chooses row groups by their first key column."""
        found = file_columns(self._deep_plan, file.file)[0].found
        name = None if found is None else found.name

        def choose(rows: int, ranges: Mapping[str, ColumnRange]) -> bool:
            own = ranges.get(name or "")
            if own is None or own.low is None or own.high is None:
                return True
            lowest, highest = (each.encode() if isinstance(each, str) else each for each in (own.low, own.high))
            return bool(lowest <= high[0] and highest >= low[0])  # type: ignore[operator]

        return choose

    def _keys(self, file: KeyedFile, batch: Any) -> list[Part]:
        found: list[Part] = []
        for name, type_ in zip(self._rules.keys, self.types, strict=True):
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count:
                raise self._unsorted(file, f"a value of the key column {name} in each row", "a row without one")
            found += parts_of(column, type_)
        return found

    def _checked(self, file: KeyedFile, keys: Sequence[Part], before: RowKey | None) -> tuple[RowKey, bool]:
        """Make sure that rows ascend and lie where the entry says.

        Returns:
            The last key, and whether none comes twice.
        """
        first, last = row_key(keys, 0), row_key(keys, -1)
        ascends, is_strict = steps(keys)
        if not ascends or (before is not None and before > first):
            raise self._unsorted(file, "rows that ascend by their key", "a smaller key after a larger one")
        if first < bound(file.low, self.types) or last > bound(file.high, self.types):
            raise self._unsorted(file, "keys between _MIN_KEY and _MAX_KEY of its entry", "another one")
        return last, is_strict and before != first

    def _check_system(self, file: KeyedFile, batch: Any) -> None:
        where = f"table {self._plan.table}, {file.file.path}"
        stated = file.file.min_sequence, file.max_sequence
        if self._has_sequence and not _within(batch.column(batch.num_columns - 2), *stated, where):
            expected = "sequence numbers from {} to {}, as its entry states".format(*stated)
            raise self._unsorted(file, expected, "another one")
        if not _within(batch.column(batch.num_columns - 1), 0, _LAST_KIND, where):
            raise FormatError(f"{where}: expected kinds of rows from 0 to {_LAST_KIND}, found another one")

    def _unsorted(self, file: KeyedFile, expected: str, found: str) -> RefusedError:
        return RefusedError(
            f"table {self._plan.table}, {file.file.path}: expected {expected}, found {found}", code="unsorted_file"
        )


def _within(column: Any, low: int, high: int, where: str) -> bool:
    """Tell whether the values of a system column lie in a range.

    Raises:
        FormatError: A value is null.
    """
    from pyarrow import compute

    if column.null_count:
        raise FormatError(f"{where}: expected a sequence number and a kind in each row, found none")
    found = compute.min_max(column)
    return bool(found["min"].as_py() >= low and found["max"].as_py() <= high)


def _without_deletes(rows: Rows) -> Rows:
    """Return rows without those that delete others."""
    arrow = load_arrow()
    kept = ~is_delete(rows.batch)
    if kept.all():
        return rows
    mask = arrow.array(kept)
    numpy = load_numpy()
    keys = [part[kept] if isinstance(part, numpy.ndarray) else part.filter(mask) for part in rows.keys]
    return replace(rows, keys=keys, batch=rows.batch.filter(mask))


def is_delete(batch: Any) -> Any:
    """Return for each row whether it deletes others: kinds 1 (-U) and 3 (-D)."""
    return batch.column(batch.num_columns - 1).to_numpy() & 1 == 1
