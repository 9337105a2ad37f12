"""From when a file of level 0 is old enough for a pass."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pytest

from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.compaction.rules.age import old_from_ms

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NOW_MS = 1_800_000_000_000


def file(created_ms: int | None, level: int = 0) -> ReadFile:
    return ReadFile(f"{created_ms}-{level}", 10, 1, "parquet", 0, level, 0, b"", None, created_ms=created_ms)


def old_from(*files: ReadFile, zone: tzinfo | None = UTC) -> int | None:
    return old_from_ms(files, 10 * MINUTE_MS, NOW_MS, zone)


def test_the_oldest_file_of_level_0_decides() -> None:
    """The time is exclusive, and files of other levels do not matter."""
    files = (file(NOW_MS), file(NOW_MS - 4 * MINUTE_MS), file(NOW_MS - HOUR_MS, level=5))
    assert old_from(*files) == NOW_MS + 6 * MINUTE_MS + 1
    assert old_from(file(NOW_MS - HOUR_MS, level=1)) is None and old_from() is None


@pytest.mark.parametrize("created_ms", [None, -(1 << 62), 1 << 62], ids=str)
def test_a_time_that_nobody_can_read_is_old(created_ms: int | None) -> None:
    assert old_from(file(NOW_MS), file(created_ms)) == 0


def test_no_file_is_from_the_future() -> None:
    """A clock that is ahead delays nothing for longer than the time."""
    assert old_from(file(NOW_MS + HOUR_MS)) == NOW_MS + 10 * MINUTE_MS + 1


def test_the_zone_of_the_writers_clocks() -> None:
    """Without a declared zone the clock may be that of UTC+14, so the file may be 14 hours older."""
    assert old_from(file(NOW_MS), zone=None) == NOW_MS - 14 * HOUR_MS + 10 * MINUTE_MS + 1
    berlin = old_from(file(NOW_MS + HOUR_MS), zone=ZoneInfo("Europe/Berlin"))
    assert berlin == NOW_MS + 10 * MINUTE_MS + 1
