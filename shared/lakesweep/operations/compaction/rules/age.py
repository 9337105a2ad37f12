"""From when a table with a primary key is compacted: once a file of level 0 is older than a time.

Files state when they were written by the clock of their writer, without its zone. Without a declared zone, that clock
is taken for one of UTC+14: no other clock shows the same time earlier. In doubt a file is old enough, since an early
merge costs work and hides nothing.
"""

from collections.abc import Iterable
from datetime import timedelta, timezone, tzinfo

from lakesweep.model.partitions.expiry import instant_ms
from lakesweep.model.reading.plan import ReadFile

FIRST_ZONE = timezone(timedelta(hours=14))
"""Clocks show no later time anywhere."""


def old_from_ms(files: Iterable[ReadFile], level_0_ms: int, now_ms: int, zone: tzinfo | None) -> int | None:
    """Return from when the oldest file of level 0 is older than a time, `None` if level 0 has no file.

    Args:
        files: Live files.
        level_0_ms: The time.
        now_ms: The time of the run, epoch milliseconds. Nothing was written later, whatever the clock of a writer says.
        zone: The declared zone of the writers' clocks, `None` if none is declared.
    """
    found = (_old_from_ms(file, level_0_ms, now_ms, zone or FIRST_ZONE) for file in files if not file.level)
    return min(found, default=None)


def _old_from_ms(file: ReadFile, level_0_ms: int, now_ms: int, zone: tzinfo) -> int:
    written_ms = None if file.created_ms is None else instant_ms(file.created_ms, zone, is_late=False)
    return 0 if written_ms is None else min(written_ms, now_ms) + level_0_ms + 1
