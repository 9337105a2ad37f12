"""Keys as numbers that are ordered as Paimon orders keys.

A column becomes one *part* or two, which are compared one after another: an array of int64, or of bytes for a text. The
key of one row is a tuple with a value of each part.

Source: Paimon `KeyComparatorSupplier`, `BinaryString#compareTo`, `UserDefinedSeqComparator`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from lakesweep.format.values.binary_row import MAX_COMPACT_DECIMAL, TEXT, TIMESTAMPS, Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.operations.reading.types import load_arrow, load_numpy, unit_of

Part = Any
"""An array of numpy (int64), or of Arrow (binary)."""
RowKey = tuple[Any, ...]
"""An int or bytes for each part."""
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_HALF, _WORD = 1 << 63, 1 << 64
_LARGEST_TEXT = 128
"""Longer texts are not taken apart into words."""


def parts_of(array: Any, type_: DataType) -> list[Part]:
    """Return the parts of a column without nulls."""
    arrow, numpy = load_arrow(), load_numpy()
    match type_.root:
        case "CHAR" | "VARCHAR":
            return [array.view(arrow.binary())]
        case "DECIMAL":
            words = numpy.frombuffer(array.buffers()[1], numpy.int64)[2 * array.offset :][: 2 * len(array)]
            if (type_.precision or 0) <= MAX_COMPACT_DECIMAL:
                return [words[::2]]
            return [words[1::2], words[::2] ^ numpy.int64(-_HALF)]
        case "BOOLEAN":
            array = array.cast(arrow.int8())
        case "DATE" | "TIME":
            array = array.view(arrow.int32())
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            array = array.view(arrow.int64())
    return [array.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False)]


def sequence_parts(array: Any, type_: DataType, *, is_descending: bool) -> list[Part]:
    """Return the parts of a column that may be null: null is the smallest value, in both orders."""
    numpy = load_numpy()
    if not array.null_count:
        parts = words_of(parts_of(array, type_))
        return [~part for part in parts] if is_descending else parts
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    found = [valid.astype(numpy.int64)]
    for part in words_of(parts_of(array.drop_null(), type_)):
        filled = numpy.zeros(len(array), numpy.int64)
        filled[valid] = ~part if is_descending else part
        found.append(filled)
    return found


def bound(key: Sequence[object], types: Sequence[DataType]) -> RowKey:
    """Return a key of metadata as the key of a row; see `lakesweep.model.keyed.Key`."""
    return tuple(value for each, type_ in zip(key, types, strict=True) for value in _values(each, type_))


def _values(value: Any, type_: DataType) -> Iterable[Any]:
    if type_.root in TEXT:
        return [value if isinstance(value, bytes) else value.encode()]
    if type_.root in TIMESTAMPS:
        time, per = Timestamp(*value), _PER_MS[unit_of(type_)]
        return [time.epoch_ms * per + time.nano_of_ms * per // 1_000_000]
    if type_.root == "DECIMAL":
        sign, digits, _ = Decimal(value).as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return [number] if (type_.precision or 0) <= MAX_COMPACT_DECIMAL else [number >> 64, number % _WORD - _HALF]
    return [int(value)]


def row_key(parts: Sequence[Part], row: int) -> RowKey:
    """Return the key of one row."""
    return tuple(_value(part, row) for part in parts)


def _value(part: Part, row: int) -> Any:
    value = part[row]
    return int(value) if _is_numbers(part) else value.as_py()


def _is_numbers(part: Part) -> bool:
    return isinstance(part, load_numpy().ndarray)


def count_below(parts: Sequence[Part], key: RowKey) -> int:
    """Return how many of some ascending rows have a smaller key."""
    low, high = 0, len(parts[0])
    for part, wanted in zip(parts, key, strict=True):
        if _is_numbers(part):
            some = part[low:high]
            first, last = (int(some.searchsorted(wanted, side)) for side in ("left", "right"))
            low, high = low + first, low + last
        else:
            rows = range(low, high)

            def value(row: int, part: Part = part) -> Any:
                return part[row].as_py()

            low, high = (low + find(rows, wanted, key=value) for find in (bisect_left, bisect_right))
        if low == high:
            break
    return low


def steps(parts: Sequence[Part]) -> tuple[bool, bool]:
    """Tell whether no row has a smaller key than the one before, and whether each has a larger one."""
    from pyarrow import compute

    is_more = is_same = None
    for part in reversed(parts):
        if _is_numbers(part):
            more, same = part[1:] > part[:-1], part[1:] == part[:-1]
        else:
            pair = part[1:], part[:-1]
            more, same = (check(*pair).to_numpy(zero_copy_only=False) for check in (compute.greater, compute.equal))
        is_more = more if is_more is None else more | same & is_more
        is_same = same if is_same is None else same & is_same
    assert is_more is not None
    is_strict = bool(is_more.all())
    return is_strict or bool((is_more | is_same).all()), is_strict


def joined(keys: Sequence[Sequence[Part]]) -> list[Part]:
    """Return the parts of some rows after each other."""
    if len(keys) == 1:
        return list(keys[0])
    numpy, arrow = load_numpy(), load_arrow()
    return [
        numpy.concatenate(parts) if _is_numbers(parts[0]) else arrow.concat_arrays(parts)
        for parts in zip(*keys, strict=True)
    ]


def combined(parts: Sequence[Part]) -> Any:
    """Return one int64 for each row, in the order of keys. Codes of two calls have nothing to do with each other."""
    numpy = load_numpy()
    code, low, span = numpy.zeros(len(parts[0]), numpy.int64), 0, 1
    if not len(code):
        return code
    for word in words_of(parts):
        part, first, last = word, int(word.min()), int(word.max())
        if (width := last - first + 1) == 1:
            continue
        if span == 1:
            code, low, span = part, first, width
            continue
        if span * width >= _HALF:
            (code, span), low = _ranks(code), 0
        if span * width >= _HALF:
            (part, width), first = _ranks(part), 0
        code, low, span = (code - low) * width + (part - first), 0, span * width
    return code


def _ranks(code: Any) -> tuple[Any, int]:
    """Return numbers from 0 on that have the same order, and how many there are."""
    numpy = load_numpy()
    order = code.argsort(kind="stable")
    ordered = code[order]
    ranks = numpy.empty(len(code), numpy.int64)
    ranks[order] = numpy.concatenate(([0], numpy.cumsum(ordered[1:] != ordered[:-1])))
    return ranks, int(ranks[order[-1]]) + 1


def words_of(parts: Iterable[Part]) -> list[Any]:
    """Return parts that are all numbers."""
    found: list[Any] = []
    for part in parts:
        found += [part] if _is_numbers(part) else _words(part)
    return found


def _words(array: Any) -> list[Any]:
    """Return texts as words of eight bytes; where a zero byte lies in one, their lengths come last."""
    from pyarrow import compute

    numpy = load_numpy()
    count = len(array)
    ends = numpy.frombuffer(array.buffers()[1], numpy.int32)[array.offset : array.offset + count + 1]
    lengths = numpy.diff(ends)
    longest = int(lengths.max(initial=0))
    if not longest:
        return [numpy.zeros(count, numpy.int64)]
    if longest > _LARGEST_TEXT:
        return [compute.rank(array, tiebreaker="dense").to_numpy().astype(numpy.int64)]
    data = numpy.frombuffer(array.buffers()[2], numpy.uint8)[ends[0] : ends[-1]]
    starts = ends[:-1] - ends[0]
    words = []
    for first in range(0, longest, 8):
        word = numpy.zeros(count, numpy.uint64)
        for byte in range(first, first + 8):
            word <<= numpy.uint64(8)
            if byte < longest:
                held = lengths > byte
                word |= numpy.where(held, data[numpy.minimum(starts + byte, len(data) - 1)], 0).astype(numpy.uint64)
        words.append((word ^ numpy.uint64(_HALF)).view(numpy.int64))
    if not data.all():
        words.append(lengths.astype(numpy.int64))
    return words
