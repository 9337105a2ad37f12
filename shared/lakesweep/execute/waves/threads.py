"""Workers in this process for a large plan: a few threads, which share the parts of the plan that they read."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakesweep.control.plans import PART_ROWS
from lakesweep.errors import OutOfTimeError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.part_actions import PartActions
from lakesweep.execute.waves.driver import Workers
from lakesweep.execute.waves.slices import SLICE_KEYS, Assignment, Site, SliceResult, work
from lakesweep.model.plan import PlanHeader
from lakesweep.storage.guard import Guard

LANES = 4
"""A request for a thousand keys takes about a second, and the rate is two such requests per second."""
WAVE_KEYS = PART_ROWS
"""Ten seconds at the full rate: when there is time for a batch, there is time for a wave. One part of the plan, so that
little of the plan is in memory."""


def thread_workers(env: Environment, header: PlanHeader) -> Workers:
    """Return threads that delete the objects of a plan.

    Args:
        env: Stores and control area. When its time runs out, no further slice is begun.
        header: Of the plan.
    """
    actions = PartActions.shared(env.area, header)
    is_over = threading.Event()

    def check_time(what: str) -> None:
        if is_over.is_set():
            raise OutOfTimeError(f"{what}: this process must end")
        env.check_time(what)

    site = Site(env.stores, env.area, env.sleep, throttled=env.throttled, check_time=check_time, actions=actions)

    def run_wave(assignments: Sequence[Assignment], guard: Guard) -> list[SliceResult]:
        under_lease = replace(site, stores=env.stores.guarded(guard))
        with ThreadPoolExecutor(max_workers=LANES, thread_name_prefix="delete") as pool:
            try:
                found = pool.map(lambda assignment: list(work(under_lease, assignment)), assignments)
                return [result for results in found for result in results]
            except BaseException:
                is_over.set()  # threads finish the slices that they have begun, and record the results
                raise

    return Workers(run_wave, LANES, slice_keys=SLICE_KEYS, wave_keys=WAVE_KEYS, actions=actions, ends_with_wave=True)
