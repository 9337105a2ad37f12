"""Small documents beside snapshots: changelogs, consumers, hints, and the success files of tags.

Source: Paimon `Changelog`, `ExpireSnapshotsImpl`, `Consumer`, `HintFileUtils`, `SuccessFile`.
"""

import re

from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.format.values import json_document
from lakesweep.format.values.json_text import print_object

_DIGITS = re.compile(rb"[0-9]{1,19}")
_LINE_ENDS = b"\r\n"
_MAX_ID = (1 << 63) - 1


def parse_changelog(body: bytes, path: str) -> Snapshot:
    """Read a long-lived changelog: what remains of an expired snapshot while its changelog is kept.

    The document has a snapshot's fields; its base and delta lists may have been deleted.
    """
    return parse_snapshot(body, path)


def parse_consumer(body: bytes, path: str) -> int:
    """Return the id of the next snapshot that a consumer, the progress of a streaming reader, will read."""
    document = json_document.parse_object(body, path)
    next_snapshot = json_document.require_int(document, "nextSnapshot", path)
    if next_snapshot < 0:
        raise json_document.wrong_type(path, "nextSnapshot", "a snapshot id", next_snapshot)
    return next_snapshot


def parse_hint(body: bytes) -> int | None:
    """Return the snapshot id in a hint (`EARLIEST` or `LATEST`), or None for anything but one decimal number.

    A hint may be missing, old or wrong, so a search may only begin with it. Paimon does not accept a space around the
    number either, but it joins lines (`FileIO#readFileUtf8`): a file from an editor or `echo` ends with a line end.
    """
    digits = body.translate(None, _LINE_ENDS)
    if not _DIGITS.fullmatch(digits):
        return None
    number = int(digits)
    return number if 0 < number <= _MAX_ID else None


def success_body(created_ms: int, modified_ms: int) -> bytes:
    """Return the success file of a tag: when the tag of this name was first made, and when it was last made."""
    return print_object({"creationTime": created_ms, "modificationTime": modified_ms}, "success file")


def created_ms_of(body: bytes, path: str) -> int:
    """Read from a success file when the tag of this name was first made.

    Raises:
        FormatError: The document lacks this time.
    """
    return json_document.require_int(json_document.parse_object(body, path), "creationTime", path)
