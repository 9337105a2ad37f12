"""Materialise the assets of examples/dagster_assets.py, while one lease is held. Prints what came of it."""

import json
import sys
import threading

import dagster_assets as example
from dagster_assets import Lake, defs

from lakesweep import Table

warehouse, control = sys.argv[1:]
entered, left = threading.Event(), threading.Event()


def wait(what: str, done: int, total: int | None) -> None:
    entered.set()
    left.wait(120)


holder = threading.Thread(
    target=Table(f"{warehouse}/sales.db/orders", control=control, progress=wait).run,
    args=("expire-snapshots",),
    kwargs={"retain_max": 3, "retain_min": 1},
)
holder.start()
entered.wait(60)
tried: list[str] = []
real = Table.maintain


def maintain(self: Table, **how: bool) -> object:
    """Let the other maintainer go on once it was in the way."""
    try:
        return real(self, **how)
    except example.LeaseHeldError:
        tried.append(self.location)
        left.set()
        holder.join()
        raise


example.Table.maintain = maintain  # type: ignore[assignment]
result = defs.get_implicit_global_asset_job_def().execute_in_process(
    resources={"lake": Lake(warehouse=warehouse, control=control, wait_seconds=0.1)}
)
found = {
    each.asset_key.to_user_string(): each.materialization.metadata["status"].value
    for each in result.get_asset_materialization_events()
}
retries = sum(event.is_step_up_for_retry for event in result.all_events)
print(json.dumps({"ok": result.success, "assets": found, "retries": retries, "tried": tried}))
