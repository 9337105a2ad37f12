"""What a compaction changes in figures."""

from collections.abc import Sequence
from contextlib import suppress

from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType
from lakesweep.model.commits.manifests import ManifestFigures, SavedRequests
from lakesweep.model.partitions.ranges import Range, Values, may_hold, ranges_of

_SAMPLE = 50
"""The most partitions for which manifests are counted."""


def figures_of(metas: Sequence[ManifestMeta]) -> ManifestFigures:
    """Return the figures of some manifests."""
    return ManifestFigures(
        len(metas),
        sum(meta.file_size for meta in metas),
        sum(meta.added_count + meta.deleted_count for meta in metas),
        sum(meta.deleted_count for meta in metas),
    )


def saved_requests(
    before: Sequence[ManifestMeta], after: Sequence[ManifestMeta], types: Sequence[DataType]
) -> SavedRequests:
    """Return how many requests a compaction saves others.

    A reader of the whole table opens each manifest. A commit that looks for conflicts opens those that may name its
    partition, by their statistics. The smallest partition of each manifest stands for its partitions.

    Args:
        before: The manifests that there were.
        after: The manifests that there are.
        types: Of the partition keys.
    """
    partitions = _partitions(before, types)
    opened = [_opened(metas, partitions, types) for metas in (before, after)]
    return SavedRequests(len(before) - len(after), round((opened[0] - opened[1]) / max(len(partitions), 1)))


def _partitions(metas: Sequence[ManifestMeta], types: Sequence[DataType]) -> list[Values]:
    step = max(len(metas) // _SAMPLE, 1)
    partitions: list[Values] = []
    for meta in metas[::step]:
        with suppress(MaintenanceError):
            if meta.partition_min is not None:
                partitions.append(decode_row(meta.partition_min, types, f"manifest/{meta.file_name}"))
    return partitions


def _opened(metas: Sequence[ManifestMeta], partitions: Sequence[Values], types: Sequence[DataType]) -> int:
    ranges: list[tuple[Range, ...] | None] = [ranges_of(meta, types) for meta in metas]
    return sum(may_hold(each, values) for values in partitions for each in ranges)
