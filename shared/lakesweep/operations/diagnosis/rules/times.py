"""What clocks and the times of passes mean."""

from lakesweep.model.diagnosis import Line
from lakesweep.model.safety import STATE_LIFETIME_MS

CLOCK_LOOK_MS = 5_000
CLOCK_ACT_MS = 60_000
"""A minute is half of the margin that a lease leaves to its successor."""
LATE_MS = STATE_LIFETIME_MS + 2 * 3_600_000
"""A deployment makes a pass at least once a day for each table, and its sweep looks hourly."""


def clock_line(where: str, store_ms: int, own_ms: int) -> Line:
    """Compare the clock of a store with this machine's.

    Args:
        where: The store, for the sentence.
        store_ms: Its clock. S3's is up to about a second behind.
        own_ms: This machine's clock at the same moment.
    """
    off_ms = own_ms - store_ms
    if abs(off_ms) <= CLOCK_LOOK_MS:
        return Line("clock", "ok", f"this machine and {where} agree about the time")
    side = "ahead of" if off_ms > 0 else "behind"
    says = f"this machine is {abs(off_ms) // 1000} s {side} {where}"
    return Line("clock", "act" if abs(off_ms) > CLOCK_ACT_MS else "look", says, "timedatectl set-ntp true")


def is_late(newest_ms: int, pass_ms: int, now_ms: int) -> bool:
    """Tell whether commits wait for a pass for longer than a deployment ever lets them.

    Args:
        newest_ms: When the newest snapshot was committed.
        pass_ms: When the last pass looked; 0: never.
        now_ms: Now.
    """
    return newest_ms > pass_ms and now_ms - max(newest_ms, pass_ms) > LATE_MS
