"""Old documents of every kind in a deployment's control location."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.functions.deployment import Deployment

MESSAGE: dict[str, object] = {"format_version": 1, "kind": "housekeeping", "cursor": None, "hop": 0}
OLD = "20200101T000000Z-0a0b0c0d"
CONTROL = {"retention": {"plans": "24 d", "reports": "24 d", "ledger": "24 d"}}
NAMES = (
    *(f"plans/{OLD}/actions-00000.ndjson.gz", f"reports/{OLD}.json", "cache.bin", "orphans.ndjson.gz"),
    *(f"ledger/dt=2020-01-01/{OLD}/00001-result.ndjson.gz", f"jobs/{OLD}.json"),
)
"""What goes, below the folder of a table."""


def key_of(deployed: Deployment, name: str) -> str:
    """Return the name of a table's folders, once a pass has stored a report of it."""
    wanted = name.replace("/", "-")
    (found,) = {key.split("/")[1] for key in deployed.control_keys() if key.startswith(f"tables/{wanted}-")}
    return found


def write_old(deployed: Deployment, name: str) -> set[str]:
    """Write documents that housekeeping deletes, and return their keys."""
    key, control = key_of(deployed, name), deployed.control()
    folder = f"tables/{key}/"
    report = next(each for each in deployed.control_keys() if each.startswith(f"{folder}reports/"))
    document: dict[str, Any] = json.loads(control.read(report).data)
    document["report"] |= {"run_id": OLD, "outcome": None}
    document["ledger"] = None
    for each in NAMES:
        body = json.dumps(document).encode() if each.startswith("reports/") else b"x"
        control.put(f"{folder}{each}", body)
    others = {f"scans/{key}/{OLD}/result.json", f"names/{key}/{OLD}.decode-1"}
    for each in others:
        control.put(each, b"{}")
    written = {f"{folder}{each}" for each in NAMES} | others
    for stored in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[deployed.control_bucket].keys.values():
        if stored.name.removeprefix("lakesweep/") in written:
            stored.last_modified = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=500)
    return written
