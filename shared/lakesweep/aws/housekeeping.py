"""Housekeeping of the deployment's control location: one table after the other, a message a day.

Only where the fleet policy states `control` is anything deleted. Without it, and in a deployment that observes, the log
says what would go. A table that another run maintains waits for the next day.
"""

from dataclasses import replace

from lakesweep.aws.messages import Housekeeping
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.control.audit.tables import KnownTable, known_tables
from lakesweep.errors import LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.roots import MAIN
from lakesweep.operations.housekeeping.location import Call, house_of_table
from lakesweep.operations.housekeeping.table import TableHouse
from lakesweep.runs.fleet import read_policy
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline

TABLE_RESERVE_MS = 300_000
"""Time that must be left to begin with a table: for listings of 100 000 documents, reads of 10 000 and their deletion
at the pace of one request after another. A table that takes longer dies with its function, and comes again."""
_QUARANTINE_MARGIN_MS = 7 * 86_400_000
"""A scan writes the quarantine again so long after its interval at the latest."""


def keep_houses(runtime: Runtime, message: Housekeeping, context: Context) -> None:
    """Look at each table after `message.cursor` while time is left; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: The control location could not be listed, or the policy could not be read.
    """
    counter, settings, telemetry = RequestCounter(), runtime.settings, runtime.telemetry
    deadline = Deadline(context.get_remaining_time_in_millis)
    cursor = message.cursor
    try:
        policy = FleetPolicy("", ())
        if settings.policy is not None:
            policy = read_policy(lambda place: open_store(place, counter=counter), settings.policy)
        call = _call(runtime, policy)
        for each in known_tables(open_store(settings.control, counter=counter), cursor or ""):
            deadline.check("housekeeping", TABLE_RESERVE_MS)
            _look(runtime, each, call, context, counter)
            cursor = each.key
    except OutOfTimeError:
        # Whoever came further goes on from there, so the hops of the earlier part do not count.
        rest = replace(message, cursor=cursor, hop=0 if cursor != message.cursor else message.hop)
        if not runtime.queues.again(rest, 0):
            telemetry.count("HopLimitReached")
            telemetry.warn("housekeeping was handed on too often; the next day begins anew", last=cursor)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    finally:
        telemetry.count_requests(counter.snapshot())


def _call(runtime: Runtime, policy: FleetPolicy) -> Call:
    call = Call(policy, execute=runtime.settings.may_delete and policy.control is not None)
    quarantine_ms, least_ms = call.retention.quarantine_ms, runtime.settings.orphan_interval_ms + _QUARANTINE_MARGIN_MS
    if quarantine_ms is None or quarantine_ms >= least_ms:
        return call
    control = replace(call.retention, quarantine_ms=least_ms)
    return replace(call, policy=replace(policy, control=control))


def _look(runtime: Runtime, known: KnownTable, call: Call, context: Context, counter: RequestCounter) -> None:
    """Keep house of a table of this deployment. An error holds back no other table."""
    if known.area is None or not runtime.settings.allows(known.area.table):
        return
    location, telemetry = known.area.table, runtime.telemetry
    try:
        table = runtime.open_table(location, MAIN, context, counter)
        (house,) = house_of_table(table, call).tables
    except LeaseLostError as error:
        telemetry.warn(f"housekeeping: {error}", table=location, code=error.code)
        return
    except OutOfTimeError:
        raise
    except MaintenanceError as error:
        telemetry.warn(f"housekeeping: {error}", table=location, code=error.code)
        telemetry.count("RunsFailed")
        return
    _tell(runtime, house)


def _tell(runtime: Runtime, house: TableHouse) -> None:
    telemetry = runtime.telemetry
    if house.status == "nothing_to_do" and not house.named and not house.is_gone:
        return
    telemetry.tell("housekeeping", house=house.to_json())
    if house.status == "partial" or (house.refusal is not None and house.refusal.code != "lease_held"):
        telemetry.count("RunsFailed")
