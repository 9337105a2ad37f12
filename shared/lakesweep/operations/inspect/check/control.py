"""What `check` finds in the control location: plans that no run finished, and who holds the lease."""

from collections.abc import Iterator
from itertools import islice

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.plans import plan_ids
from lakesweep.control.reports import PUT_OFF, plan_end
from lakesweep.errors import FormatError
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.operations.inspect.health import Finding, command
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table

NEWEST = 20
"""`check` looks at this many plans, the newest."""


def control_findings(table: Table, area: ControlArea) -> Iterator[Finding]:
    """Find plans that a run began and no run finished, and a lease that its run did not give back.

    Raises:
        StorageError: A request failed.
    """
    location, now_ms = table.ref.location, table.store.now_ms()
    try:
        lease = read_lease(area)
    except FormatError as error:
        yield Finding("lease", str(error), command("runs", location, executes=False))
        return
    intent = lease.intent
    is_over = now_ms >= lease.expires_ms + DELETE_MARGIN_MS
    if intent is not None and is_over:
        run_id = intent.runs[-1] if intent.runs else lease.run_id
        yield Finding(
            "plans",
            f"run {run_id} began plan {intent.plan_id} and did not finish it; no other plan begins before",
            command("execute", location, intent.plan_id, executes=False),
        )
    elif lease.expires_ms and is_over:
        yield Finding(
            "lease",
            f"run {lease.run_id} did not give back the lease, which expired {say_time(lease.expires_ms)}; the next run "
            "takes it",
            command("maintain", location),
        )
    for plan_id in islice(sorted(plan_ids(area), reverse=True), NEWEST):
        if intent is not None and intent.plan_id == plan_id:
            continue
        try:
            end = plan_end(area, plan_id)
        except FormatError as error:
            yield Finding("plans", str(error), command("plans", location, executes=False))
            continue
        if end is not None and end.status in ("partial", PUT_OFF):
            yield Finding(
                "plans",
                f"plan {plan_id} is not completely executed: run {end.run_id} ended {end.status.replace('_', ' ')}",
                command("execute", location, plan_id, executes=False),
            )
