"""Which manifests may have entries of a partition, by the statistics of their list.

Paimon's readers trust the same statistics, so an entry that they hide is read by nobody.
"""

from collections.abc import Sequence

from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType

Range = tuple[object, object]
Values = Sequence[object]


def ranges_of(meta: ManifestMeta, types: Sequence[DataType]) -> tuple[Range, ...] | None:
    """Return the smallest and the largest value of each partition key, `None` if they are not known."""
    if meta.partition_min is None or meta.partition_max is None:
        return None
    path = f"manifest/{meta.file_name}"
    try:
        low, high = (decode_row(row, types, path) for row in (meta.partition_min, meta.partition_max))
    except MaintenanceError:
        return None
    return tuple(zip(low, high, strict=True))


def may_hold(ranges: Sequence[Range] | None, values: Values) -> bool:
    """Tell whether a partition with these values may lie in some ranges."""
    return ranges is None or all(lies_in(*each, value) for each, value in zip(ranges, values, strict=True))


def lies_in(low: object, high: object, value: object) -> bool:
    """Tell whether a value may lie in a range. Nulls count in no range, and a range without numbers tells nothing."""
    if value is None or low is None or high is None or isinstance(value, float):
        return True
    smallest, found, largest = (each.encode() if isinstance(each, str) else each for each in (low, value, high))
    return bool(smallest <= found <= largest)  # type: ignore[operator]
