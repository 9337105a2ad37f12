"""Ids of plans and runs: sortable by time, never the same twice."""

import secrets
from datetime import UTC, datetime


def new_id(now_ms: int) -> str:
    """Return an id such as `20260131T120000Z-1f2e3d4c`."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{time}-{secrets.token_hex(4)}"
