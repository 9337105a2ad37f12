"""All rows of the ledger of one table, or of all tables of a control location, with what is damaged.

Parts are read one after the other, so memory does not grow with the ledger. Each result is a row. An object that a run
was about to delete is a row of its own only if no later part of the run has its result.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from lakesweep.control.area import MAX_CONTROL_BYTES, ControlArea, table_key
from lakesweep.control.audit.object_history import UNKNOWN
from lakesweep.control.audit.parts import LedgerPart, breaks, part_of
from lakesweep.control.ledger_rows import checked_rows, folder_of_run, stamp_of, time_of
from lakesweep.control.ndjson import unpack
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, StorageError
from lakesweep.storage.pools import threads
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store, StoredObject

COLUMNS = (
    *("table", "table_key", "run_id", "plan_id", "batch", "kind", "key", "size_bytes", "reason", "result", "why"),
    *("version_id", "time", "part"),
)
"""Of each row, in this order. `time` is when the part was written, in epoch milliseconds by the store's clock."""
Row = tuple[object, ...]
_PARALLEL = 16
_DAY_MS = 86_400_000
_MOST_WAITING = 200_000
"""Objects without a result that are kept in memory until their run ends. A run waits for the answer of one batch."""


@dataclass(frozen=True, slots=True)
class Span:
    """Which runs: by when they began, as their ids say. A run whose id has no time counts by each part's time."""

    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether it ends before it begins."""
        return self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms

    def has(self, time_ms: int) -> bool:
        """Tell whether a run that began at a time is meant."""
        return (self.since_ms is None or time_ms >= self.since_ms) and (
            self.until_ms is None or time_ms < self.until_ms
        )


def rows_of_all(control: Store, span: Span, problems: list[str]) -> Iterator[Row]:
    """Yield the rows of all tables of a control location, table by table, run by run.

    Args:
        control: The control location.
        span: Of which runs.
        problems: Gets a sentence for each part that cannot be read or has no place in its chain, and for each table
            that cannot be listed.

    Raises:
        StorageError: The tables cannot be listed, or a part cannot be read.
    """

    def parts_of(key: str) -> tuple[str, list[StoredObject] | MaintenanceError]:
        try:
            return key, _parts(control, f"tables/{key}/", span)
        except MaintenanceError as error:
            return key, error

    with threads(_PARALLEL, "ledgers") as pool:
        for key, parts in pool.map(parts_of, control.folders("tables/")):
            if isinstance(parts, MaintenanceError):
                problems.append(f"{control.location}/tables/{key}/ledger: {parts}")
            else:
                yield from _rows(control, key, None, parts, problems)


def rows_of(area: ControlArea, span: Span, problems: list[str]) -> Iterator[Row]:
    """Yield the rows of one table, run by run; see `rows_of_all`."""
    key = area.prefix.split("/")[1]
    return _rows(area.store, key, area, _parts(area.store, area.prefix, span), problems)


def _parts(store: Store, prefix: str, span: Span) -> list[StoredObject]:
    folder = f"{prefix}ledger/"
    if span.since_ms is None:
        pages = [store.list_range(folder)]
    else:
        since = stamp_of(span.since_ms)
        first = f"{folder}dt={since[:4]}-{since[4:6]}-{since[6:8]}/"
        # The folders of runs whose ids have no time lie before and behind those of days.
        pages = [store.list_range(folder, until=f"{folder}dt=1"), store.list_range(folder, after=first)]
    found = (entry for each in pages for page in each for entry in page)
    return [
        entry
        for entry in found
        if span.has(entry.modified_ms if (began := time_of(_run_of(entry.key))) is None else began)
    ]


def _run_of(key: str) -> str:
    """Return the run of a part: `tables/<table_key>/ledger/dt=<day>/<run_id>/<part>`."""
    parts = key.split("/")
    return parts[4] if len(parts) == 6 else ""


def _rows(
    store: Store, key: str, area: ControlArea | None, parts: Sequence[StoredObject], problems: list[str]
) -> Iterator[Row]:
    prefix = f"tables/{key}/"
    run: _Run | None = None
    keys = [entry.key for entry in parts]
    with closing(read_many(store, keys, max_bytes=MAX_CONTROL_BYTES)) as bodies:
        for entry, (_, body) in zip(parts, bodies, strict=True):
            run_id, path = _run_of(entry.key), f"{store.location}/{entry.key}"
            if run is None or run.run_id != run_id:
                if run is not None:
                    yield from run.rest()
                run = _Run(store, key, area, run_id, problems)
            if isinstance(body, ObjectNotFoundError):
                problems.append(f"{path}: expected a part of the ledger, found that it is gone by now")
                continue
            if isinstance(body, StorageError):
                if body.code != "too_large":
                    raise body
                problems.append(f"{path}: {body}")
                continue
            try:
                rows = list(unpack(body.data, path))
                objects = list(checked_rows(rows, path))
            except FormatError as error:
                problems.append(str(error))
                continue
            yield from run.take(part_of(entry.key.removeprefix(prefix), body.data, rows), objects, entry.modified_ms)
    if run is not None:
        yield from run.rest()


class _Run:
    """The parts of one run, as they are read."""

    def __init__(self, store: Store, key: str, area: ControlArea | None, run_id: str, problems: list[str]) -> None:
        self.run_id = run_id
        self._store, self._key, self._area, self._problems = store, key, area, problems
        self._waiting: dict[tuple[object, object], Row] = {}
        """Objects whose deletion may have been sent, by batch and key."""
        self._parts: list[LedgerPart] = []

    def take(self, part: LedgerPart, rows: Sequence[dict[str, object]], time_ms: int) -> Iterator[Row]:
        """Yield the rows of the next part whose results are known."""
        head = part.head or {}
        stated = head.get("table")
        if self._area is None and isinstance(stated, str) and table_key(stated) == self._key:
            self._area = ControlArea(self._store, stated)
        self._parts.append(replace(part, ends={}))
        for row in rows:
            at = (row["batch"], row["key"])
            found = self._row(part.name, row, time_ms)
            if "result" in row:
                self._waiting.pop(at, None)
                yield found
            else:
                self._waiting[at] = found
        while len(self._waiting) > _MOST_WAITING:
            yield self._waiting.pop(next(iter(self._waiting)))

    def rest(self) -> Iterator[Row]:
        """Yield the objects without a result, and note where the chain is broken."""
        by_writer: dict[str, list[LedgerPart]] = defaultdict(list)
        for part in self._parts:
            if part.head is not None:
                by_writer[part.writer].append(part)
        if self._area is not None:
            for own in by_writer.values():
                own.sort(key=lambda part: part.number)
                self._problems += breaks(self._area, self.run_id, folder_of_run(self.run_id), own)
        yield from self._waiting.values()

    def _row(self, name: str, row: dict[str, object], time_ms: int) -> Row:
        return (
            None if self._area is None else self._area.table,
            self._key,
            self.run_id,
            row["plan_id"],
            row["batch"],
            row["kind"],
            row["key"],
            row.get("size_bytes"),
            _text(row.get("reason")),
            row.get("result", UNKNOWN),
            _text(row.get("why")),
            row.get("version_id"),
            time_ms,
            name,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
