"""When a table's scheduled scan for orphan files is due: one small document a table, `orphan_scan.json`.

It is changed by conditional writes alone, and before a scan is asked for: of two tours that find the same table due,
one finds the other's write. Whoever dies between the write and the message leaves a scan that never moves, and that is
asked for again when it has been silent for long enough. Scans that somebody asks for by hand are not noted here.
"""

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Literal

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.format.json_document import get_int, get_str, require_int, wrong_type

FORMAT_VERSION = 1
NAME = "orphan_scan.json"
SILENCE_MS = 2 * 3_600_000
"""A scan takes minutes. One that did not end in this time is asked for again, and goes on where it is."""
LOST_MS = 24 * 3_600_000
"""A scan that did not end in this time is given up: its plan would be too old to be carried out."""
FAILED = "failed"

Step = Literal["wait", "begin", "go_on"]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What is known of a table's scheduled scans. Times are the storage's."""

    first_seen_ms: int
    """A tour found the table."""
    scan_id: str | None = None
    """Of the last scan; `None`: there was none yet."""
    began_ms: int = 0
    asked_ms: int = 0
    """It was last asked for."""
    ended_ms: int | None = None
    status: str | None = None
    """How it ended."""


def next_step(found: Scheduled, location: str, now_ms: int, interval_ms: int) -> Step:
    """Say what a table needs.

    Args:
        found: What is known of its scans.
        location: Of the table. It decides when the first scan is due, so that those of a warehouse do not come at once.
        now_ms: The tour began.
        interval_ms: From the beginning of a scan to that of the next one.
    """
    if found.scan_id is None:
        return "begin" if now_ms >= found.first_seen_ms + jitter_ms(location, interval_ms) else "wait"
    if found.ended_ms is None:
        if now_ms >= found.began_ms + LOST_MS:
            return "begin"
        return "go_on" if now_ms >= found.asked_ms + SILENCE_MS else "wait"
    wait_ms = min(interval_ms, LOST_MS) if found.status == FAILED else interval_ms
    return "begin" if now_ms >= found.began_ms + wait_ms else "wait"


def jitter_ms(location: str, interval_ms: int) -> int:
    """Return a time below the interval, always the same for a table."""
    digest = hashlib.sha256(location.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % interval_ms


def read_scheduled(area: ControlArea) -> tuple[Scheduled | None, str | None]:
    """Return the document and its ETag; no document where it is damaged, so that it is written anew.

    Raises:
        StorageError: It could not be read.
    """
    try:
        body = area.read(NAME)
    except ObjectNotFoundError:
        return None, None
    try:
        return _scheduled(from_json_bytes(body.data, area.path(NAME)), area.path(NAME)), body.etag
    except FormatError:
        return None, body.etag


def write_scheduled(area: ControlArea, document: Scheduled, etag: str | None) -> None:
    """Write the document over the one with this ETag, or the first one.

    Raises:
        PreconditionFailedError: Somebody else has written it meanwhile.
        StorageError: It could not be written.
    """
    data = to_json_bytes({"format_version": FORMAT_VERSION, **asdict(document)})
    area.put(NAME, data, if_absent=etag is None, if_match=etag)


def note_end(area: ControlArea, scan_id: str, status: str, now_ms: int) -> None:
    """Note that a scan is over, if it is the last one.

    Raises:
        StorageError: That could not be done.
    """
    found, etag = read_scheduled(area)
    if found is None or found.scan_id != scan_id or found.ended_ms is not None:
        return
    try:
        write_scheduled(area, replace(found, ended_ms=now_ms, status=status), etag)
    except PreconditionFailedError:
        return  # somebody else noted the same, or a tour has given the scan up


def _scheduled(document: dict[str, object], path: str) -> Scheduled:
    version = require_int(document, "format_version", path)
    if version != FORMAT_VERSION:
        raise wrong_type(path, "format_version", str(FORMAT_VERSION), version)
    return Scheduled(
        first_seen_ms=require_int(document, "first_seen_ms", path),
        scan_id=get_str(document, "scan_id", path),
        began_ms=require_int(document, "began_ms", path),
        asked_ms=require_int(document, "asked_ms", path),
        ended_ms=get_int(document, "ended_ms", path),
        status=get_str(document, "status", path),
    )
