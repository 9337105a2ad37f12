"""What a document in a control location is, by its name alone. A name that Lakesweep does not write is foreign."""

import re
from collections.abc import Collection

from lakesweep.format.codec import is_id
from lakesweep.model.housekeeping import Kind, Place

HEADER, END, RESULT, SCAN, PLANS = "header.json", "end.json", "result.json", "scan.json.gz", "plans/"
LEASE = "lease.json"
_STATE = frozenset({LEASE, "state.json", "orphan_scan.json", "orphan_scans.json"})
_SINGLE: dict[str, Kind] = {"cache.bin": "cache", "orphans.ndjson.gz": "quarantine"}
_PLAN = re.compile(r"plans/([^/]+)/(?:header\.json|end\.json|undone\.json|actions-[A-Za-z0-9._-]+\.ndjson\.gz)")
_REPORT = re.compile(r"reports/([^/]+)\.json")
_LEDGER = re.compile(r"ledger/dt=([^/]*)/([^/]+)/[0-9]+(?:-[0-9]+)?-(?:intent|result)\.ndjson\.gz")
_ERASURE = re.compile(r"erasures/([^/]+)/[0-9]{5,}\.json")
_JOB = re.compile(r"jobs/([^/]+)\.json")
_SCAN_NAME = re.compile(r"([^/]+)/[A-Za-z0-9_-][A-Za-z0-9._/=-]*")
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_SLICE = re.compile(r"[0-9]{7,}-[0-9]{2}-(?:intent|result)\.ndjson\.gz")


def kind_of(place: Place, name: str) -> tuple[Kind, str]:
    """Return the kind of a document, and the group that it belongs to.

    Args:
        place: Where it is.
        name: Below the table's folder there.
    """
    if place == "names":
        return ("segment", name) if _SEGMENT.fullmatch(name) else ("foreign", name)
    if place == "scans":  # a scan that found nothing stores its plan here
        return _grouped("scan", _PLAN.fullmatch(name) or _SCAN_NAME.fullmatch(name), name)
    if name in _STATE:
        return "state", name
    if name in _SINGLE:
        return _SINGLE[name], name
    if match := _LEDGER.fullmatch(name):
        day, run_id = match[1], match[2]
        is_own = is_id(run_id) and day == f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"
        return ("ledger", run_id) if is_own else ("foreign", name)
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("plan", _PLAN),
        ("report", _REPORT),
        ("erasure", _ERASURE),
        ("job", _JOB),
    )
    for kind, pattern in patterns:
        if match := pattern.fullmatch(name):
            return _grouped(kind, match, name)
    return "foreign", name


def _grouped(kind: Kind, match: re.Match[str] | None, name: str) -> tuple[Kind, str]:
    is_own = match is not None and is_id(match[1]) and not any(part in (".", "..", "") for part in name.split("/"))
    return (kind, match[1]) if is_own and match is not None else ("foreign", name)


def has_ended(scan_id: str, names: Collection[str]) -> bool:
    """Tell whether a scan has a result, or is none: an empty plan."""
    return f"{scan_id}/{RESULT}" in names or all(name.startswith(f"{PLANS}{scan_id}/") for name in names)


def order_in_ledger(name: str) -> tuple[bool, str]:
    """Return the order in which parts of a run were written: those of slices first, as the run itself names them."""
    return not _SLICE.fullmatch(name.rpartition("/")[2]), name
