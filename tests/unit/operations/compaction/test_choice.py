"""Which bins a run takes: of idle partitions, up to the limits."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.compaction.rules.choice import Choice, Limits, choose
from lakesweep.operations.writing.bins import Bin

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_800_000_000_000
IDLE = Limits(1000, idle_ms=DAY_MS)


def file(partition: str, created_ms: int | None, size: int = 10) -> ReadFile:
    name = f"{partition}/{created_ms}-{size}"
    return ReadFile(name, size, 1, "parquet", 0, 0, 0, partition.encode(), None, created_ms=created_ms)


def bin_of(*files: ReadFile) -> Bin:
    return Bin(files)


def chosen(*found: Bin, others: tuple[ReadFile, ...] = (), limits: Limits = IDLE, zone: tzinfo | None = UTC) -> Choice:
    return choose(found, [*others, *(file for each in found for file in each.files)], limits, NOW_MS, zone)


def partitions(choice: Choice) -> str:
    return "".join(each.partition.decode() for each in choice.bins)


@pytest.mark.parametrize(("age_ms", "taken"), [(DAY_MS - 1, ""), (DAY_MS, ""), (DAY_MS + 1, "a"), (-1, "")])
def test_the_idle_time_is_exclusive(age_ms: int, taken: str) -> None:
    found = chosen(bin_of(file("a", NOW_MS - 9 * DAY_MS), file("a", NOW_MS - age_ms)))
    assert partitions(found) == taken
    assert (found.busy_files, found.idle_from_ms) == ((0, None) if taken else (2, NOW_MS - age_ms + DAY_MS + 1))


def test_a_file_in_no_bin_counts() -> None:
    """Somebody writes large files into the partition: a small one may follow."""
    old = NOW_MS - 9 * DAY_MS
    assert partitions(chosen(bin_of(file("a", old)), bin_of(file("b", old)), others=(file("a", NOW_MS),))) == "b"


@pytest.mark.parametrize("created_ms", [None, -(1 << 62), 1 << 62], ids=str)
def test_a_time_that_nobody_can_read_is_not_idle(created_ms: int | None) -> None:
    found = chosen(bin_of(file("a", NOW_MS - 9 * DAY_MS), file("a", created_ms)))
    assert (partitions(found), found.busy_files, found.idle_from_ms) == ("", 2, None)


def test_the_zone_of_the_writers_clocks() -> None:
    """Without a declared zone, the clock of the writer may be that of UTC-12."""
    local_ms = NOW_MS - DAY_MS - 5 * HOUR_MS
    assert partitions(chosen(bin_of(file("a", local_ms)), zone=UTC)) == "a"
    assert partitions(chosen(bin_of(file("a", local_ms)), zone=None)) == ""
    assert partitions(chosen(bin_of(file("a", local_ms)), zone=ZoneInfo("America/New_York"))) == "", "exactly a day"
    assert partitions(chosen(bin_of(file("a", local_ms - 7 * HOUR_MS)), zone=None)) == "", "exactly a day"
    assert partitions(chosen(bin_of(file("a", local_ms - 7 * HOUR_MS - 1)), zone=None)) == "a"


def test_an_hour_that_clocks_show_twice_is_the_later_one() -> None:
    """On 2026-11-01 in New York, 01:30 was at 05:30 and at 06:30 UTC."""
    local = datetime(2026, 11, 1, 1, 30, tzinfo=UTC)
    later_ms = int(local.timestamp() * 1000) + 5 * HOUR_MS
    files, zone = [file("a", int(local.timestamp() * 1000))], ZoneInfo("America/New_York")
    assert partitions(choose([Bin(tuple(files))], files, IDLE, later_ms + DAY_MS, zone)) == ""
    assert partitions(choose([Bin(tuple(files))], files, IDLE, later_ms + DAY_MS + 1, zone)) == "a"


def test_without_an_idle_time_all_are_taken() -> None:
    found = chosen(bin_of(file("a", None)), bin_of(file("b", NOW_MS)), limits=Limits(1000))
    assert (partitions(found), found.busy_files, found.idle_from_ms) == ("ab", 0, None)


@pytest.mark.parametrize(
    ("limits", "taken", "waiting"),
    [
        (Limits(1000), "aaab", 0),
        (Limits(1000, 20), "aab", 1),
        (Limits(25, 20), "aa", 2),
        (Limits(1000, 5), "ab", 2),
        (Limits(5), "a", 3),
    ],
)
def test_limits(limits: Limits, taken: str, waiting: int) -> None:
    """Of a partition, and in all, one bin is taken in any case, or a large one would never be."""
    found = chosen(*(bin_of(file(each, 0)) for each in "aaab"), limits=limits)
    assert (partitions(found), found.waiting_files) == (taken, waiting)
