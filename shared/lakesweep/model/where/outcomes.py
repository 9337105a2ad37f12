"""What a condition can be for rows of which only facts are known: true, false or null.

The answer names every outcome that is possible, and maybe more; it never leaves one out. That is what makes it safe to
leave out a file for which the condition cannot be true. Two traps of statistics shape it:

- Bounds of FLOAT and DOUBLE do not count NaN in some formats, so a NaN is always possible.
- Bounds of texts are cut off: a longer text that begins with the upper bound may be there.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from typing import Any

from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.model.where.comparisons import FLOATS, INTEGER_BITS, TEXTS, TIMES
from lakesweep.model.where.conditions import (
    And,
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    IsUnknown,
    Known,
    Leaf,
    Matches,
    Not,
    OneOf,
    Or,
)
from lakesweep.model.where.facts import UNKNOWN, ColumnFacts, ColumnRange

TRUE, FALSE, NULL = 1, 2, 4
"""Outcomes, which add up to sets."""


@dataclass(frozen=True, slots=True)
class Values:
    """A column has a value that is neither null nor NaN, within bounds. None is unbounded."""

    low: Any = None
    high: Any = None
    is_cut: bool = False
    """Texts that begin with `high` are possible too."""

    def may_reach(self, value: Any) -> bool:
        """Tell whether a value of at least `value` is possible."""
        return self.high is None or value <= self.high or (self.is_cut and value.startswith(self.high))

    def may_exceed(self, value: Any) -> bool:
        """Tell whether a value above `value` is possible."""
        return self.high is None or value < self.high or (self.is_cut and value.startswith(self.high))

    def is_only(self, value: Any) -> bool:
        """Tell whether `value` is the only possible one."""
        return not self.is_cut and self.low is not None and self.low == value == self.high


@dataclass(frozen=True, slots=True)
class Null:
    """A column is null."""


@dataclass(frozen=True, slots=True)
class Nan:
    """A column is NaN."""


State = Values | Null | Nan
States = Mapping[str, tuple[State, ...]]
"""Name of a column -> every state that it can have in a row."""


def states_of(facts: ColumnFacts, types: Mapping[str, DataType]) -> States:
    """Return the states that columns can have.

    Args:
        facts: What is known.
        types: The columns to look at, by name.
    """
    return {
        name: tuple(_states(facts.columns.get(name, UNKNOWN), type_, facts.row_count)) for name, type_ in types.items()
    }


def outcomes(condition: Condition, states: States) -> int:
    """Return the possible outcomes of a condition."""
    match condition:
        case Constant():
            return NULL if condition.value is None else TRUE if condition.value else FALSE
        case And() | Or():
            return _by_state(condition, states)
        case Not():
            inner = outcomes(condition.part, states)
            return (inner & NULL) | (inner & TRUE) << 1 | (inner & FALSE) >> 1
        case IsUnknown():
            inner = outcomes(condition.part, states)
            return (TRUE if inner & NULL else 0) | (FALSE if inner & (TRUE | FALSE) else 0)
    return _union(_of_leaf(condition, state) for state in states[condition.column])


def _by_state(condition: And | Or, states: States) -> int:
    """Return the outcomes of several parts. For parts of one column, each state of it is looked at by itself."""
    if len(condition.columns) == 1:
        (column,) = condition.columns
        own = states[column]
        if len(own) != 1:
            return _union(_combined(condition, {column: (state,)}) for state in own)
    return _combined(condition, states)


def _combined(condition: And | Or, states: States) -> int:
    parts = [outcomes(part, states) for part in condition.parts]
    # For AND, one FALSE decides; TRUE needs all. For OR, the other way round.
    all_, one = (TRUE, FALSE) if isinstance(condition, And) else (FALSE, TRUE)
    found = one if any(part & one for part in parts) else 0
    if all(part & all_ for part in parts):
        found |= all_
    if any(part & NULL for part in parts) and all(part & (all_ | NULL) for part in parts):
        found |= NULL
    return found


def _of_leaf(leaf: Leaf, state: State) -> int:
    if isinstance(leaf, IsNull):
        return TRUE if isinstance(state, Null) else FALSE
    if isinstance(state, Null):
        return NULL
    if isinstance(leaf, Known):
        return TRUE if leaf.value else FALSE
    if isinstance(leaf, IsNan):
        return TRUE if isinstance(state, Nan) else FALSE
    if isinstance(state, Nan):
        return FALSE  # It is larger than every value that a condition names.
    match leaf:
        case Compare():
            return _compared(leaf, state)
        case OneOf():
            return _one_of(leaf.values, state)
    return _matched(leaf, state)


def _compared(leaf: Compare, state: Values) -> int:
    value: Any = leaf.value
    low = state.low
    match leaf.order:
        case "=":
            may_be_true = (low is None or low <= value) and state.may_reach(value)
            may_be_false = not state.is_only(value)
        case "<":
            may_be_true = low is None or low < value
            may_be_false = state.may_reach(value)
        case "<=":
            may_be_true = low is None or low <= value
            may_be_false = state.may_exceed(value)
    return (TRUE if may_be_true else 0) | (FALSE if may_be_false else 0)


def _one_of(values: tuple[Any, ...], state: Values) -> int:
    first = 0 if state.low is None else bisect_left(values, state.low)
    if first == len(values) or not state.may_reach(values[first]):
        return FALSE
    return TRUE if state.is_only(values[first]) else TRUE | FALSE


def _matched(leaf: Matches, state: Values) -> int:
    prefix = leaf.pattern.prefix
    is_below = state.low is not None and state.low > prefix and not state.low.startswith(prefix)
    return FALSE if is_below or not state.may_reach(prefix) else TRUE | FALSE


def _states(found: ColumnRange, type_: DataType, row_count: int) -> Iterable[State]:
    null_count = found.null_count
    if type_.root not in _WITH_STATISTICS and not found.is_exact:
        null_count = None  # Formats count other things than nulls in nested columns.
    if null_count != 0:  # Unknown or impossible counts are here, too.
        yield Null()
    if null_count == row_count:
        return
    if type_.root in FLOATS:
        yield Nan()
    yield _values(found, type_)


def _values(found: ColumnRange, type_: DataType) -> Values:
    """Return the bounds of a range in the form of conditions. What does not suit the type is unknown."""
    low, high = (_bound(value, type_) for value in (found.low, found.high))
    if type_.root in TIMES and not found.is_exact and high is not None:
        # Some writers cut off what follows the millisecond.
        high += 999 - high % 1000
    is_cut = type_.root in TEXTS and not found.is_exact
    if low is not None and high is not None and low > high and not (is_cut and low.startswith(high)):
        return Values()
    return Values(low, high, is_cut)


def _bound(value: object, type_: DataType) -> Any:
    root = type_.root
    match value:
        case bool():
            return value if root == "BOOLEAN" else None
        case int() if root in INTEGER_BITS or root == "DATE":
            return value
        case float() if root in FLOATS:
            return None if isnan(value) else value
        case str() if root in TEXTS:
            return value
        case Decimal() if root == "DECIMAL":
            return value
        case Timestamp() if root in TIMES:
            return value.epoch_ms * 1000 + value.nano_of_ms // 1000
    return None


_WITH_STATISTICS = frozenset(
    ("BOOLEAN", "DATE", "DECIMAL", "BINARY", "VARBINARY", *INTEGER_BITS, *FLOATS, *TEXTS, *TIMES)
)


def _union(found: Iterable[int]) -> int:
    every = 0
    for each in found:
        every |= each
    return every
