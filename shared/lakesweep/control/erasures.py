"""The records of erasures: `erasures/<run_id>/<number>.json`, one document for each fact.

A document is written once and never changed. Each has the SHA-256 of the one before. So one that was changed, or lost
before the last, is noticed when the record is read. A lost end is not: the record then looks unfinished.

If two runs continue one erasure, the second finds the name taken and stops.
"""

import hashlib

from lakesweep.control.area import ControlArea, from_json_bytes, table_key, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError, RefusedError
from lakesweep.format.codec import from_json, is_id, to_json
from lakesweep.format.values.json_document import shorten, wrong_type
from lakesweep.model.erasure.record import Entry, Erasure, Fact

ERASURE_FORMAT_VERSION = 1
FOLDER = "erasures/"
_NAMES = ("table", "branch", "run_id", "previous")


def append(area: ControlArea, erasure: Erasure, fact: Fact) -> Erasure:
    """Add a fact to an erasure, and return it as it is then.

    Raises:
        RefusedError: Another run has added one since the record was read (`erasure_contended`).
        StorageError: It could not be written.
    """
    who = area.who()
    entry = Entry(area.store.now_ms(), who.actor, who.version, fact)
    body = to_json_bytes(
        {
            "format_version": ERASURE_FORMAT_VERSION,
            "table": erasure.table,
            "branch": erasure.branch,
            "run_id": erasure.run_id,
            "previous": erasure.last,
            **to_json(entry),
        }
    )
    name = _name(erasure.run_id, len(erasure.entries) + 1)
    try:
        area.put(name, body, if_absent=True)
    except PreconditionFailedError as error:
        raise RefusedError(
            f"table {area.table}: another run continues erasure {erasure.run_id}: {area.path(name)} exists already; "
            "expected one run at a time",
            code="erasure_contended",
        ) from error
    return Erasure(erasure.run_id, erasure.table, erasure.branch, (*erasure.entries, entry), _hash(body))


def load_erasure(area: ControlArea, run_id: str) -> Erasure:
    """Return an erasure.

    Raises:
        RefusedError: The table has no such erasure (`no_such_run`), or the record is of another table
            (`plan_of_another_table`).
        FormatError: A document of it is damaged, missing or was changed.
        StorageError: A request failed.
    """
    found = sorted(area.names(f"{FOLDER}{run_id}/")) if is_id(run_id) else []
    if not found:
        raise RefusedError(
            f"table {area.table}: expected an erasure with the id {run_id[:200]!r}, found none; lakesweep runs TABLE "
            "lists the runs of this control location",
            code="no_such_run",
        )
    erasure = Erasure(run_id, area.table, "")
    for number, name in enumerate(found, start=1):
        path = area.path(name)
        if name != _name(run_id, number):
            raise FormatError(f"{path}: expected {_name(run_id, number)}; the record of an erasure is incomplete")
        erasure = _with(erasure, _read(area, name, path), path, area)
    return erasure


def erasure_ids(area: ControlArea) -> list[str]:
    """Return the ids of all erasures of a table, oldest first."""
    return sorted(name.strip("/").rpartition("/")[2] for name in area.folders(FOLDER))


def _read(area: ControlArea, name: str, path: str) -> bytes:
    try:
        return area.read(name).data
    except ObjectNotFoundError as error:
        raise FormatError(f"{path}: expected a part of the record of an erasure, found nothing") from error


def _with(erasure: Erasure, body: bytes, path: str, area: ControlArea) -> Erasure:
    document = from_json_bytes(body, path)
    version = document.pop("format_version", None)
    if version != ERASURE_FORMAT_VERSION:
        raise wrong_type(path, "format_version", str(ERASURE_FORMAT_VERSION), version)
    table, branch, run_id, previous = (from_json(str, document.pop(name, None), path, name) for name in _NAMES)
    if table_key(table) != table_key(area.table):
        raise RefusedError(
            f"{path}: an erasure of table {shorten(table)}; expected {area.table}", code="plan_of_another_table"
        )
    if run_id != erasure.run_id or (erasure.entries and branch != erasure.branch):
        raise FormatError(f"{path}: expected a part of erasure {erasure.run_id}, found one of {shorten(run_id)}")
    if previous != erasure.last:
        raise FormatError(f"{path}: the part before it is another one than this part was written after")
    entry = from_json(Entry, document, path)
    return Erasure(run_id, erasure.table, branch, (*erasure.entries, entry), _hash(body))


def _name(run_id: str, number: int) -> str:
    return f"{FOLDER}{run_id}/{number:05}.json"


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
