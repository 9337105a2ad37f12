"""Whether a condition is the same for every row that there could be."""

from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from itertools import product
from math import inf, nextafter, prod
from typing import Any

from lakesweep.format.values.data_type import DataType
from lakesweep.model.where.comparisons import FLOATS, INTEGER_BITS, TEXTS
from lakesweep.model.where.conditions import Compare, Condition, Matches, OneOf, columns_of, leaves_of
from lakesweep.model.where.outcomes import TRUE, Nan, Null, State, Values, outcomes

MAX_COMBINATIONS = 2_000
"""How many rows are tried; beyond, the answer is not certain."""
_EXACT = Context(prec=100)


def constant(condition: Condition, types: Mapping[str, DataType]) -> bool | None:
    """Tell whether a condition chooses every row (True), no row (False), or whether that depends on the row (None).

    A condition compares with few values. Between two of these, one value stands for all others, so it suffices to try
    the values themselves, one of each gap, null and NaN. That does not hold for patterns, so for a column that has one,
    nothing is tried: every comparison may be true or false.
    """
    values: dict[str, set[Any]] = {name: set() for name in types}
    has_pattern = set()
    for leaf in leaves_of(condition):
        match leaf:
            case Compare():
                values[leaf.column].add(leaf.value)
            case OneOf():
                values[leaf.column].update(leaf.values)
            case Matches():
                has_pattern.add(leaf.column)
    states = {
        name: tuple(_states([] if name in has_pattern else sorted(values[name]), types[name]))
        for name in columns_of(condition)
    }
    if prod(map(len, states.values())) > MAX_COMBINATIONS:
        return None
    found = {
        outcomes(condition, {name: (state,) for name, state in zip(states, row, strict=True)})
        for row in product(*states.values())
    }
    if found == {TRUE}:
        return True
    return None if any(each & TRUE for each in found) else False


def _states(values: list[Any], type_: DataType) -> Iterable[State]:
    if type_.nullable:
        yield Null()
    if type_.root in FLOATS:
        yield Nan()
    if not values:
        yield Values()
        return
    yield from (Values(value, value) for value in values)
    first = _smallest(values[0], type_)
    if first is not None:
        yield Values(first, first)
    for value in values:
        between = _next(value, type_)
        if between is not None:
            yield Values(between, between)


def _smallest(value: Any, type_: DataType) -> Any:
    """Return a value below another; None if there is none."""
    root = type_.root
    if root in INTEGER_BITS:
        least: Any = -(1 << INTEGER_BITS[root])
    elif root == "DECIMAL":
        least = _decimal(1 - 10 ** (type_.precision or 0), type_)
    elif root in FLOATS:
        least = -inf
    elif root in TEXTS:
        least = ""
    elif root == "BOOLEAN":
        least = False
    elif isinstance(value, bytes):
        least = b""
    else:
        least = value - 1
    return least if least < value else None


def _next(value: Any, type_: DataType) -> Any:
    """Return the smallest value above another; None if there is none."""
    root = type_.root
    if root in INTEGER_BITS:
        return value + 1 if value < (1 << INTEGER_BITS[root]) - 1 else None
    if root == "DECIMAL":
        units = int(value.scaleb(type_.scale or 0, _EXACT)) + 1
        return _decimal(units, type_) if units < 10 ** (type_.precision or 0) else None
    if root in FLOATS:
        return nextafter(value, inf) if value < inf else None
    if root in TEXTS:
        return value + "\0"
    if root == "BOOLEAN":
        return None if value else True
    if isinstance(value, bytes):
        return value + b"\0"
    return value + 1


def _decimal(units: int, type_: DataType) -> Decimal:
    return Decimal(units).scaleb(-(type_.scale or 0), _EXACT)
