"""Ids of plans and runs: sortable by time, never the same twice."""

import secrets

from lakesweep.control.ledger_rows import timestamp


def new_id(now_ms: int) -> str:
    """Return an id such as `20260131T120000Z-1f2e3d4c`."""
    return f"{timestamp(now_ms)}-{secrets.token_hex(4)}"
