"""Conditions that people write to choose rows, in Spark's SQL: `price > 10 AND region IN ('eu', 'us')`.

Columns stand beside literals. A row for which the condition is null is not chosen. Everything whose value in Spark is
not known here is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import FormatError, some_of
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.where.comparisons import TIMES
from lakesweep.model.where.conditions import Condition, OneOf, columns_of, leaves_of
from lakesweep.model.where.constant import constant
from lakesweep.model.where.facts import ColumnFacts
from lakesweep.model.where.operands import Columns
from lakesweep.model.where.outcomes import TRUE, outcomes, states_of
from lakesweep.model.where.parser import condition_of
from lakesweep.model.where.syntax import bad_where, parse_tree

MAX_COMPARISONS = 5_000
"""How many comparisons a condition has. Arrow makes a chain of them a deep tree, and twice as many end the process. A
list of `IN` is one comparison, but for columns with nanoseconds."""


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on rows. `str` and `repr` show its columns and none of its values."""

    text: str = field(repr=False)
    """As somebody wrote it. Not for logs and reports: a value may be what somebody wants to be forgotten."""
    condition: Condition = field(repr=False)
    fields: tuple[DataField, ...] = field(repr=False)
    """The columns that it looks at, in the order of the table."""
    zone: str = "UTC"
    """The zone of times that are written without one."""
    zoned: tuple[str, ...] = field(default=(), repr=False)
    """The columns with local time zone that such times stand beside, in the order of the table."""

    @property
    def depends_on_zone(self) -> bool:
        """Whether the condition may choose other rows in another zone."""
        return bool(self.zoned)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it looks at."""
        return frozenset(each.name for each in self.fields)

    @property
    def types(self) -> dict[str, DataType]:
        """The types of these columns."""
        return {each.name: each.type for each in self.fields}

    @property
    def note(self) -> str | None:
        """What a person should know about the answer: the zone of times, where it matters. None: nothing."""
        if not self.depends_on_zone:
            return None
        return f"times without a zone beside {some_of(self.zoned)} are times of the zone {self.zone}"

    @property
    def always(self) -> bool | None:
        """True: every row is chosen. False: no row is. None: this depends on the rows, or is not certain."""
        return constant(self.condition, self.types)

    def may_match(self, facts: ColumnFacts) -> bool:
        """Tell whether a row may be chosen; False only if it is certain that none is."""
        if facts.row_count == 0:
            return False
        return bool(outcomes(self.condition, states_of(facts, self.types)) & TRUE)

    def __str__(self) -> str:
        """Return what it looks at, for messages."""
        return f"a condition on {', '.join(each.name for each in self.fields) or 'no column'}"


def parse_where(text: str, fields: Sequence[DataField], *, zone: str = "UTC") -> Where:
    """Read a condition.

    Args:
        text: The condition, in Spark's SQL.
        fields: The columns of the table.
        zone: The zone of times that have none, beside columns with local time zone.

    Raises:
        UsageError: With code `bad_where`: the message says what is not supported. It contains names of columns and
            functions, and no literal.
    """
    try:
        known_zone = parse_zone(zone, "where")
    except FormatError as error:
        raise bad_where(f"expected a time zone such as Europe/Berlin, UTC or +08:00, found {zone}") from error
    columns = Columns(fields, known_zone)
    try:
        condition = condition_of(parse_tree(text), columns)
    except RecursionError:
        raise bad_where("the condition nests too deep") from None
    types = {each.name: each.type for each in fields}
    count = sum(_comparisons(leaf, types) for leaf in leaves_of(condition))
    if count > MAX_COMPARISONS:
        raise bad_where(
            f"expected at most {MAX_COMPARISONS} comparisons, found {count}; write several values of a column as IN, "
            "or several conditions"
        )
    names = columns_of(condition)
    return Where(
        text,
        condition,
        tuple(each for each in fields if each.name in names),
        zone,
        tuple(each.name for each in fields if each.name in columns.zoned),
    )


def _comparisons(leaf: Condition, types: Mapping[str, DataType]) -> int:
    if not isinstance(leaf, OneOf):
        return 1
    type_ = types[leaf.column]
    return len(leaf.values) if type_.root in TIMES and (type_.precision or 0) > 6 else 1
