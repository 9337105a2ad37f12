"""Conditions on rows: a tree of comparisons of columns with values, under three-valued logic.

A condition is true, false or null for a row, as in SQL. Values are in the form of their column's type: int for whole
numbers, the epoch day of a DATE, the millisecond of a TIME and the microsecond of a timestamp; float, bool, str, bytes;
`Decimal` with the column's scale. Only three comparisons exist. The others are their negations, since in Spark's order
every value is smaller than, equal to or larger than every other: NaN equals NaN and is larger than all numbers.

No `repr` shows a value: it may be what somebody wants to be forgotten.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.model.where.patterns import Pattern

Order = Literal["=", "<", "<="]


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row; None is null."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Known:
    """The same for every value of a column, and null for null: `x < 1000` of a TINYINT."""

    column: str
    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value, which is not null and not NaN. A NaN of the column is larger than the value."""

    column: str
    order: Order
    value: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column equals one of some values; none is null or NaN."""

    column: str
    values: tuple[object, ...] = field(repr=False)
    """Ascending, without repetition."""


@dataclass(frozen=True, slots=True)
class Matches:
    """A text column matches a pattern of `LIKE`."""

    column: str
    pattern: Pattern = field(repr=False)


@dataclass(frozen=True, slots=True)
class IsNan:
    """A FLOAT or DOUBLE column is NaN."""

    column: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null: true or false, never null."""

    column: str


@dataclass(frozen=True, slots=True)
class IsUnknown:
    """A condition is null: true or false, never null."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; null remains null."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    """All hold. At least two parts."""

    parts: tuple["Condition", ...]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one holds. At least two parts."""

    parts: tuple["Condition", ...]
    columns: frozenset[str]


Leaf = Known | Compare | OneOf | Matches | IsNan | IsNull
Condition = Constant | Leaf | IsUnknown | Not | And | Or


def columns_of(condition: Condition) -> frozenset[str]:
    """Return the names of the columns that a condition looks at."""
    match condition:
        case Constant():
            return frozenset()
        case And() | Or():
            return condition.columns
        case Not() | IsUnknown():
            return columns_of(condition.part)
    return frozenset((condition.column,))


def leaves_of(condition: Condition) -> Iterator[Condition]:
    """Yield the parts of a condition that have no parts."""
    match condition:
        case And() | Or():
            for part in condition.parts:
                yield from leaves_of(part)
        case Not() | IsUnknown():
            yield from leaves_of(condition.part)
        case _:
            yield condition


def all_of(parts: Iterable[Condition]) -> Condition:
    """Return that all of some conditions hold."""
    return _joined(And, parts)


def any_of(parts: Iterable[Condition]) -> Condition:
    """Return that at least one of some conditions holds."""
    return _joined(Or, parts)


def negated(part: Condition) -> Condition:
    """Return the negation of a condition."""
    match part:
        case Not():
            return part.part
        case Constant(value=None):
            return part
        case Constant():
            return Constant(not part.value)
    return Not(part)


def _joined(kind: type[And] | type[Or], parts: Iterable[Condition]) -> Condition:
    """Join conditions. Those of one column come together, because statistics of one column say more about them."""
    by_columns: dict[frozenset[str], list[Condition]] = defaultdict(list)
    for part in parts:
        for inner in part.parts if isinstance(part, kind) else (part,):
            by_columns[columns_of(inner)].append(inner)
    groups: list[Condition] = []
    for columns, group in by_columns.items():
        if len(columns) == 1 and len(group) > 1 and len(by_columns) > 1:
            groups.append(kind(tuple(group), columns))
        else:
            groups.extend(group)
    if len(groups) == 1:
        return groups[0]
    return kind(tuple(groups), frozenset().union(*by_columns))
