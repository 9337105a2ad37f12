"""Names of partitions for people: `dt=20240101/hr=08`.

`parse_specs` reads them again. A directory of a partition is something else, see `partition_path`: null, '' and ' '
share one directory, and only names tell them apart.
"""

from collections.abc import Sequence

from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.partition_path import DEFAULT_NAME, value_text

_ESCAPES = {code: f"%{code:02X}" for code in (*range(32), 127, *b"%,/=")}
_UTC_SECOND = DataType("TIMESTAMP", precision=0)


def partition_name(
    keys: Sequence[str], types: Sequence[DataType], values: Sequence[object], default_name: str = DEFAULT_NAME
) -> str:
    """Return the name of a partition, "" without partition keys; null has the name that paths have for it."""
    return "/".join(
        f"{_escaped(key)}={_escaped(default_name if (text := value_name(value, type_)) is None else text)}"
        for key, type_, value in zip(keys, types, values, strict=True)
    )


def value_name(value: object, type_: DataType) -> str | None:
    """Return a value for people, `None` for null: dates and times as such, time stamps with a zone in UTC."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Timestamp) and type_.root == "TIMESTAMP_LTZ":
        return value_text(value, _UTC_SECOND, legacy_name=False).replace(" ", "T") + "Z"
    return value_text(value, type_, legacy_name=False)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
