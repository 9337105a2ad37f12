"""Write rows with a primary key into Parquet files as Paimon's Java engine does.

Before the table's columns lie the columns of the key again, the sequence number and the kind of the row.

Source: Paimon 1.4 `KeyValue`, `KeyValueDataFileWriter`, `KeyValueThinDataFileWriterImpl`, `StatsCollectorFactories`.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakesweep.errors import FormatError
from lakesweep.format.row_entries import ValueStats
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.format.values.data_type import DataField
from lakesweep.model.keyed import MergeRules
from lakesweep.model.reading.columns import KIND_FIELD, SEQUENCE_FIELD
from lakesweep.operations.reading.types import load_arrow
from lakesweep.operations.writing.options import KEY_MODE, Writing
from lakesweep.operations.writing.parquet import rolled
from lakesweep.operations.writing.statistics import Statistics, comparable, value_of

_KEY_ID = (1 << 30) - 1
"""The ids of the columns of the key begin here."""
_LAST_KIND = 3
_DELETES = (1, 3)
"""Kinds of rows that delete others: -U and -D."""


@dataclass(frozen=True, slots=True)
class KeyedBytes:
    """A new data file that lies nowhere yet; see `NewDataFile`."""

    name: str
    body: bytes
    rows: int
    stats: ValueStats
    key_stats: ValueStats
    min_key: bytes
    max_key: bytes
    min_sequence: int
    max_sequence: int
    delete_rows: int


def keyed_files(
    batches: Iterable[Any], fields: Sequence[DataField], rules: MergeRules, writing: Writing
) -> Generator[KeyedBytes, None, None]:
    """Yield data files with the rows of batches, in their order. No rows: no file.

    Threads and memory are those of `parquet_files`.

    Args:
        batches: Record batches with the columns of the table, in Arrow's types for them, then the sequence number
            (int64) and the kind of the row (int8). The keys of all rows ascend, and none comes twice.
        fields: The columns of the table.
        rules: Its key.
        writing: How.

    Raises:
        RefusedError: As `parquet_files`.
        FormatError: The keys do not ascend, are no text, or the kind of a row is none.
    """
    places = [[field.name for field in fields].index(key) for key in rules.keys]
    keys = [fields[place] for place in places]
    copies = [] if rules.is_thin else [replace(key, id=_KEY_ID + key.id, name=f"_KEY_{key.name}") for key in keys]
    count = len(fields)
    order = [*(places if copies else ()), count, count + 1, *range(count)]
    columns = [*copies, SEQUENCE_FIELD, KIND_FIELD, *fields]
    names = [column.name for column in columns]
    arrow = load_arrow()
    ordered = (arrow.RecordBatch.from_arrays([batch.columns[each] for each in order], names) for batch in batches)
    last = _Last()
    yield from rolled(ordered, columns, writing, partial(_Collected, fields, keys, places, writing, last))


class _Last:
    """The key of the last row so far, in whichever file."""

    key: tuple[Any, ...] | None = None


class _Collected:
    """What an entry says of one file."""

    def __init__(
        self,
        fields: Sequence[DataField],
        keys: Sequence[DataField],
        places: Sequence[int],
        writing: Writing,
        last: _Last,
    ) -> None:
        modes = {key.name: KEY_MODE for key in keys}
        self._count, self._keys, self._places, self._last = len(fields), keys, places, last
        self._stats = Statistics(fields, writing)
        self._key_stats = Statistics(keys, replace(writing, modes=modes, is_dense=False))
        self._rows = self._deletes = 0
        self._low: tuple[Any, ...] = ()
        self._sequences: list[int] = []

    def add(self, group: Any) -> None:
        from pyarrow import compute

        values = group.select(range(group.num_columns - self._count, group.num_columns))
        sequence, kind = group.columns[-self._count - 2 : -self._count]
        self._stats.add(values)
        key = values.select(self._places)
        self._key_stats.add(key)
        low, self._last.key = self._ends([comparable(column) for column in key.columns])
        self._low = self._low if self._rows else low
        self._rows += group.num_rows
        found = compute.min_max(sequence)
        self._sequences += [found["min"].as_py(), found["max"].as_py()]
        low, high = (compute.min_max(kind)[each].as_py() for each in ("min", "max"))
        if low < 0 or high > _LAST_KIND:
            raise FormatError(f"expected kinds of rows from 0 to {_LAST_KIND}, found {low if low < 0 else high}")
        if high:
            self._deletes += sum(compute.sum(compute.equal(kind, each)).as_py() for each in _DELETES)

    def _ends(self, columns: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the first and the last key of columns.

        Raises:
            FormatError: A key is not larger than the one before.
        """
        try:
            low, high = (
                tuple(value_of(column[place], key) for column, key in zip(columns, self._keys, strict=True))
                for place in (0, len(columns[0]) - 1)
            )
        except UnicodeDecodeError as error:
            raise FormatError("expected text in the primary key, found bytes that are not UTF-8") from error
        before = self._last.key
        if (before is not None and before >= low) or not _ascend(columns):
            raise FormatError("expected rows whose keys ascend, found a key that is not larger than the one before")
        return low, high

    def result(self, name: str, body: bytes) -> KeyedBytes:
        assert self._last.key is not None, "a file without rows"
        types = [key.type for key in self._keys]
        return KeyedBytes(
            name,
            body,
            self._rows,
            self._stats.result(),
            self._key_stats.result(),
            encode_row(self._low, types),
            encode_row(self._last.key, types),
            min(self._sequences),
            max(self._sequences),
            self._deletes,
        )


def _ascend(columns: Sequence[Any]) -> bool:
    """Tell whether each row is larger than the one before."""
    from pyarrow import compute

    larger = None
    for column in reversed(columns):
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        is_more = compute.greater(after, before)
        if larger is not None:
            is_more = compute.or_(is_more, compute.and_(compute.equal(after, before), larger))
        larger = is_more
    return bool(compute.all(larger, min_count=0).as_py())
