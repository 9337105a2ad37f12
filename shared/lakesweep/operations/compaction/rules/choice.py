"""Which bins a run rewrites: those of idle partitions, up to the limits of a partition and of the run.

A partition is *idle* if its newest live file was written longer ago than the idle time. Files state when they were
written by the clock of their writer, without its zone. Without a declared zone, that clock is taken for one of UTC-12:
no other clock shows the same time later. In doubt a partition is not idle, so nobody rewrites what a writer may still
change.

Source: Paimon `CompactProcedure` (`partition_idle_time`), which takes the zone of its own machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lakesweep.model.partitions.expiry import LAST_ZONE, instant_ms
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.writing.bins import Bin


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run rewrites at most. Of a partition, and in all, it takes one bin at least."""

    max_bytes: int
    max_partition_bytes: int | None = None
    """`None`: no limit but that of the run."""
    idle_ms: int | None = None
    """Only partitions whose newest file is older than this; `None`: all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The bins to rewrite, and what is left."""

    bins: tuple[Bin, ...] = ()
    waiting_files: int = 0
    """Files of bins that are beyond a limit."""
    busy_files: int = 0
    """Files of bins whose partition is not idle."""
    idle_from_ms: int | None = None
    """When the next partition with such bins is idle, if nobody writes into it; `None`: there is none, or its files do
    not say when they were written."""
    all_files: int = 0
    """Live files of the partitions that the call names, of all partitions if it names none."""


def choose(found: Sequence[Bin], files: Iterable[ReadFile], limits: Limits, now_ms: int, zone: tzinfo | None) -> Choice:
    """Choose from the bins that are worth their rewriting.

    Args:
        found: These bins.
        files: All live files of their partitions, also those in no bin.
        limits: The limits.
        now_ms: The time of the run, epoch milliseconds.
        zone: The declared zone of the writers' clocks, `None` if none is declared.
    """
    idle_from = _idle_from(found, files, limits.idle_ms, zone)
    idle = [each for each in found if _is_past(idle_from.get(each.partition), now_ms)]
    taken, size, sizes = list[Bin](), 0, defaultdict[bytes, int](int)
    most = limits.max_bytes if limits.max_partition_bytes is None else limits.max_partition_bytes
    for each in idle:
        own = sizes[each.partition]
        if (not taken or size + each.size_bytes <= limits.max_bytes) and (not own or own + each.size_bytes <= most):
            taken.append(each)
            size += each.size_bytes
            sizes[each.partition] += each.size_bytes
    return Choice(
        tuple(taken),
        _files_of(idle) - _files_of(taken),
        _files_of(found) - _files_of(idle),
        min((ms for ms in idle_from.values() if ms is not None and ms > now_ms), default=None),
    )


def _idle_from(
    found: Sequence[Bin], files: Iterable[ReadFile], idle_ms: int | None, zone: tzinfo | None
) -> dict[bytes, int | None]:
    """Return from when each partition of a bin is idle; `None`: nobody knows. Without an idle time, each of them is."""
    wanted = {each.partition for each in found}
    if idle_ms is None:
        return dict.fromkeys(wanted, 0)
    newest: dict[bytes, int | None] = {}
    for file in files:
        if file.partition in wanted:
            written_ms = (
                None if file.created_ms is None else instant_ms(file.created_ms, zone or LAST_ZONE, is_late=True)
            )
            before_ms = newest.get(file.partition, written_ms)
            newest[file.partition] = None if written_ms is None or before_ms is None else max(before_ms, written_ms)
    return {partition: None if ms is None else ms + idle_ms + 1 for partition, ms in newest.items()}


def _is_past(time_ms: int | None, now_ms: int) -> bool:
    return time_ms is not None and time_ms <= now_ms


def _files_of(bins: Iterable[Bin]) -> int:
    return sum(len(each.files) for each in bins)
