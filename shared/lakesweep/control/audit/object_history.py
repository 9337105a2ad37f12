"""The history of one object in the ledger: which runs were about to delete it, and with what result."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from lakesweep.control.area import MAX_CONTROL_BYTES, ControlArea
from lakesweep.control.chain import is_object_row
from lakesweep.control.lease import read_lease
from lakesweep.control.ndjson import unpack
from lakesweep.control.plans import load_plan
from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.format.codec import is_count
from lakesweep.storage.reads import read_many

UNKNOWN = "unknown"
"""A deletion was sent, and its answer is not known."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What one run did with one object."""

    run_id: str
    plan_id: str
    batch: int
    kind: str
    size_bytes: int | None
    reason: str
    result: str
    """As in the ledger, or `unknown`."""
    why: str | None
    """Why a recheck kept it."""
    version_id: str | None
    """Version id of its delete marker; removing the marker restores the object."""


@dataclass(frozen=True, slots=True)
class ObjectHistory:
    """All that the ledger says about an object."""

    entries: tuple[LedgerEntry, ...] = ()
    """Newest first."""
    damaged: tuple[str, ...] = ()
    """Parts of the ledger that cannot be read; they may have had rows of the object."""


def history_of(area: ControlArea, path: str) -> ObjectHistory:
    """Search the ledger of a table from the newest run back to the run that deleted the object.

    Costs a listing, and a read for each part of the ledger. One part is in memory at a time.

    Args:
        area: Where the ledger is.
        path: Of the object, as plans name it.

    Raises:
        StorageError: A request failed.
    """
    entries: list[LedgerEntry] = []
    damaged: list[str] = []
    of_run: list[dict[str, object]] = []
    current = ""
    names = sorted(sorted(area.names("ledger/")), key=_run_of, reverse=True)  # parts of a run keep their order
    for name, rows in _parts(area, names):
        run_id = _run_of(name)
        if run_id != current:
            entries += _merged(current, of_run)
            current, of_run = run_id, []
            if any(entry.result in ("deleted", "already_gone") for entry in entries):
                break
        if rows is None:
            damaged.append(area.path(name))
        else:
            of_run += [row for row in rows if row.get("key") == path]
    else:
        entries += _merged(current, of_run)
    return ObjectHistory(tuple(entries), tuple(damaged))


def begun_entry(area: ControlArea, path: str) -> LedgerEntry | None:
    """Return what a run that has begun and not ended is about to do to an object. The lease names its plan.

    Raises:
        MaintenanceError: The lease or the plan cannot be read.
    """
    intent = read_lease(area).intent
    if intent is None:
        return None
    deletes = load_plan(area, intent.plan_id).deletes
    delete = next((each for each in deletes if each.path == path), None)
    if delete is None:
        return None
    return LedgerEntry(
        intent.runs[-1], intent.plan_id, 0, delete.kind, delete.size_bytes, delete.reason, UNKNOWN, None, None
    )


def _parts(area: ControlArea, names: list[str]) -> Iterator[tuple[str, Iterator[dict[str, object]] | None]]:
    keys = [area.prefix + name for name in names]
    with closing(read_many(area.store, keys, max_bytes=MAX_CONTROL_BYTES)) as bodies:
        for name, (_, body) in zip(names, bodies, strict=False):
            if isinstance(body, ObjectNotFoundError):
                continue
            if isinstance(body, StorageError):
                raise body
            try:
                rows = list(filter(is_object_row, unpack(body.data, area.path(name))))
                yield name, iter(rows) if all(is_count(row.get("batch")) for row in rows) else None
            except FormatError:
                yield name, None


def _merged(run_id: str, rows: list[dict[str, object]]) -> Iterator[LedgerEntry]:
    """Yield one entry for each batch with rows of the object, newest first. The last row of a batch counts."""
    by_batch: dict[object, dict[str, object]] = {}
    for row in rows:
        if "result" in row or row.get("batch") not in by_batch:
            by_batch[row.get("batch")] = row
    for _, row in sorted(by_batch.items(), key=lambda item: _number(item[0]) or 0, reverse=True):
        yield LedgerEntry(
            run_id=run_id,
            plan_id=str(row.get("plan_id")),
            batch=_number(row.get("batch")) or 0,
            kind=str(row.get("kind")),
            size_bytes=_number(row.get("size_bytes")),
            reason=str(row.get("reason")),
            result=str(row.get("result", UNKNOWN)),
            why=_text(row.get("why")),
            version_id=_text(row.get("version_id")),
        )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _run_of(name: str) -> str:
    parts = name.split("/")
    return parts[2] if len(parts) > 2 else ""
