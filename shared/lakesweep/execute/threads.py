"""Those who delete a large plan in this process: a few threads, which share what is read of the plan."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakesweep.control.plans import PART_ROWS
from lakesweep.errors import OutOfTimeError
from lakesweep.execute.part_actions import PartActions
from lakesweep.execute.slices import SLICE_KEYS, Lane, Site, SliceResult, work
from lakesweep.execute.spine import Environment
from lakesweep.execute.waves import Crew
from lakesweep.model.plan import PlanHeader
from lakesweep.storage.guard import Guard

LANES = 4
"""A request for a thousand keys takes about a second, and two of them a second are the rate."""
WAVE_KEYS = PART_ROWS
"""Ten seconds at the full rate, so that there is time for a wave whenever there is time for a batch; and one part of
the plan, so that little of it is in memory."""


def thread_crew(env: Environment, header: PlanHeader) -> Crew:
    """Return threads that delete what a plan takes.

    Args:
        env: Stores and control area. When its time runs out, no further slice is begun.
        header: Of the plan.
    """
    actions = PartActions.shared(env.area, header)
    is_over = threading.Event()

    def check_time(what: str) -> None:
        if is_over.is_set():
            raise OutOfTimeError(f"{what}: this process is to end")
        env.check_time(what)

    site = Site(env.stores, env.area, env.sleep, throttled=env.throttled, check_time=check_time, actions=actions)

    def run_wave(lanes: Sequence[Lane], guard: Guard) -> list[SliceResult]:
        under_lease = replace(site, stores=env.stores.guarded(guard))
        with ThreadPoolExecutor(max_workers=LANES, thread_name_prefix="delete") as pool:
            try:
                found = pool.map(lambda lane: list(work(under_lease, lane)), lanes)
                return [result for results in found for result in results]
            except BaseException:
                is_over.set()  # threads finish the slices that they have begun, and write down what became of them
                raise

    return Crew(run_wave, LANES, slice_keys=SLICE_KEYS, wave_keys=WAVE_KEYS, actions=actions, ends_with_wave=True)
