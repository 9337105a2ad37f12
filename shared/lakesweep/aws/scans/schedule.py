"""When a table's scheduled scan for orphan files is due: one small document per table, `orphan_scan.json`.

It is changed only by conditional writes, and before a scan is requested. So of two table sweeps that find the same
table due, one finds the other's write. A function may die between the write and the message. Then the scan makes no
progress, and is requested again once it has been silent for long enough. Manual scans are not noted here.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.format.codec import from_json, to_json
from lakesweep.model.safety import SCAN_LOST_MS, SCAN_SILENCE_MS

FORMAT_VERSION = 1
NAME = "orphan_scan.json"
FAILED = "failed"

Step = Literal["wait", "begin", "go_on"]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The history of a table's scheduled scans. Times are by the storage's clock."""

    first_seen_ms: int
    """When a table sweep first found the table."""
    scan_id: str | None = None
    """Id of the last scan; `None` before the first one."""
    began_ms: int = 0
    asked_ms: int = 0
    """When it was last requested."""
    ended_ms: int | None = None
    status: str | None = None
    """How it ended."""


def next_step(found: Scheduled, location: str, now_ms: int, interval_ms: int) -> Step:
    """Return the next action for a table.

    Args:
        found: The history of its scans.
        location: Location of the table. It decides when the first scan is due, to spread the scans of a warehouse.
        now_ms: The time by the storage's clock.
        interval_ms: Time between the beginnings of two scans.
    """
    if found.scan_id is None:
        return "begin" if now_ms >= found.first_seen_ms + jitter_ms(location, interval_ms) else "wait"
    if found.ended_ms is None:
        if now_ms >= found.began_ms + SCAN_LOST_MS:
            return "begin"
        return "go_on" if now_ms >= found.asked_ms + SCAN_SILENCE_MS else "wait"
    wait_ms = min(interval_ms, SCAN_LOST_MS) if found.status == FAILED else interval_ms
    return "begin" if now_ms >= found.began_ms + wait_ms else "wait"


def jitter_ms(location: str, interval_ms: int) -> int:
    """Return a time below the interval that is always the same for a table."""
    digest = hashlib.sha256(location.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % interval_ms


def read_scheduled(area: ControlArea) -> tuple[Scheduled | None, str | None]:
    """Return the document and its ETag. A damaged document counts as absent, so it is written again.

    Raises:
        StorageError: It could not be read.
    """
    try:
        body = area.read(NAME)
    except ObjectNotFoundError:
        return None, None
    try:
        document = from_json_bytes(body.data, area.path(NAME))
        if document.pop("format_version", None) != FORMAT_VERSION:
            return None, body.etag
        return from_json(Scheduled, document, area.path(NAME)), body.etag
    except FormatError:
        return None, body.etag


def write_scheduled(area: ControlArea, document: Scheduled, etag: str | None) -> None:
    """Replace the document with this ETag, or write the first one.

    Raises:
        PreconditionFailedError: Another function has written it meanwhile.
        StorageError: It could not be written.
    """
    data = to_json_bytes({"format_version": FORMAT_VERSION, **to_json(document)})
    area.put(NAME, data, if_absent=etag is None, if_match=etag)


def note_end(area: ControlArea, scan_id: str, status: str, now_ms: int) -> None:
    """Note that a scan has ended, if it is the table's last one.

    Raises:
        StorageError: A request failed.
    """
    found, etag = read_scheduled(area)
    if found is None or found.scan_id != scan_id or found.ended_ms is not None:
        return
    try:
        write_scheduled(area, replace(found, ended_ms=now_ms, status=status), etag)
    except PreconditionFailedError:
        return  # another function noted the same, or a table sweep has given the scan up
