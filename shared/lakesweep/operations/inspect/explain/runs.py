"""What our runs did to the object that `explain` asks about, and who wrote it."""

import re

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.object_history import LedgerEntry, begun_entry, history_of
from lakesweep.control.ledger_rows import time_of
from lakesweep.control.plans import load_header
from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import MaintenanceError, StorageError
from lakesweep.model.plan import MOVE_FORMAT_VERSION
from lakesweep.model.roots import Root
from lakesweep.operations.inspect.explain.explanation import GONE, Deletion, Origin
from lakesweep.operations.inspect.explain.object import AskedObject
from lakesweep.storage.store import StoredObject, UndeleteRequest
from lakesweep.table.reach.holders import Holders

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_POSTPONED_USER = re.compile(r"-u-(?P<user>.+)-s-[0-9]+-w-")


def runs_on(
    area: ControlArea | None, asked: AskedObject, warnings: list[str], *, is_whole: bool
) -> tuple[Deletion, ...]:
    """Return what our runs did to an object.

    Args:
        area: Holds the ledger; without it nothing is known.
        asked: The object.
        warnings: Receives a sentence for each part of the answer that is not known.
        is_whole: Also ask the store whether the object can be restored.
    """
    if area is None:
        warnings.append("no control location is known (--control), so the ledger was not asked")
        return ()
    try:
        history = history_of(area, asked.path)
    except StorageError as error:
        warnings.append(f"the ledger could not be read: {error}")
        return ()
    warnings += [f"{part} is damaged, and may have spoken of this object" for part in history.damaged]
    entries = history.entries
    try:
        begun = begun_entry(area, asked.path)
    except MaintenanceError as error:
        warnings.append(f"the plan of an unfinished run could not be read: {error}")
    else:
        if begun is not None and begun.plan_id not in {entry.plan_id for entry in entries}:
            entries = (begun, *entries)
    return tuple(_deletion(area, asked, entry, is_whole=is_whole) for entry in entries)


def _deletion(area: ControlArea, asked: AskedObject, entry: LedgerEntry, *, is_whole: bool) -> Deletion:
    operation, has_content = None, False
    try:
        header = load_header(area, entry.plan_id)
        operation = header.operation
        has_content = header.format_version == MOVE_FORMAT_VERSION or entry.kind == "tag"
    except MaintenanceError:
        pass  # Plans may be deleted sooner than the ledger.
    # The plan of a branch rewrite can restore the documents that it deleted. Whether an undo may do that depends on
    # later changes.
    is_lost = entry.result in GONE and not entry.version_id and not has_content
    restorable = False if is_lost else None
    if is_whole and entry.version_id and asked.store is not None:
        try:
            restorable = asked.store.undelete([UndeleteRequest(asked.key, entry.version_id)], only_check=True)[0].ok
        except StorageError as error:
            restorable = False if error.code == "not_versioned" else None
    return Deletion(
        entry.run_id,
        time_of(entry.run_id),
        operation,
        entry.plan_id,
        entry.reason,
        entry.result,
        entry.why,
        entry.version_id,
        restorable,
    )


def first_seen_of(area: ControlArea | None, asked: AskedObject, stored: StoredObject | None) -> int | None:
    """Return when a scan with quarantine first saw the object as an orphan."""
    if area is None or stored is None:
        return None
    return read_quarantine(area).first_seen_ms.get((asked.path, stored.etag, stored.modified_ms))


def origin_of(name: str, holders: Holders, first_seen_ms: int | None) -> Origin:
    """Return who wrote a file, as far as its name and the roots tell."""
    user = _POSTPONED_USER.search(name)
    writer = next(reversed(_UUID.findall(name)), None)
    sibling = None if user is not None or writer is None else _sibling(holders, writer)
    if sibling is None:
        return Origin(first_seen_ms, writer, user["user"] if user else None, None)
    return Origin(first_seen_ms, writer, sibling.snapshot.commit_user, str(sibling.ref))


def _sibling(holders: Holders, writer: str) -> Root | None:
    """Return the oldest root that names another file of the same writer."""
    named = 0
    for each in holders.named():
        if writer in each.name:
            named |= each.named_by
    if not named:
        for mention in holders.mentions(lambda entry: writer in entry.file_name):
            named |= mention.named_by
    return min(holders.roots_in(named), key=lambda root: root.snapshot.time_ms, default=None)
