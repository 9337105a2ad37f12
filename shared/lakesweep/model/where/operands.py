"""Operands of a condition: columns, and literals beside them, as trees of sqlglot."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from lakesweep.errors import some_of
from lakesweep.format.values.data_type import DataField
from lakesweep.model.where.comparisons import Beside
from lakesweep.model.where.literals import Given, literal_of
from lakesweep.model.where.syntax import bad_where

if TYPE_CHECKING:
    from sqlglot.expressions import Expression


class Columns:
    """The columns of a table, found by name as Spark finds them: capitals do not matter."""

    def __init__(self, fields: Sequence[DataField], zone: tzinfo) -> None:
        self._fields = fields
        self._zone = zone
        self.zoned: set[str] = set()
        """The columns that a time without a zone stands beside, where its value depends on the zone."""

    def named(self, node: "Expression") -> DataField:
        """Return the column that a tree names.

        Raises:
            UsageError: With code `bad_where`: there is none, or several.
        """
        if any(node.args.get(part) for part in ("table", "db", "catalog")):
            raise bad_where(f"{node.name} stands behind a point; fields of nested columns cannot be compared")
        found = [each for each in self._fields if each.name.lower() == node.name.lower()]
        if not found:
            names = [each.name for each in self._fields]
            raise bad_where(f"there is no column {node.name}; expected one of {some_of(names)}")
        if len(found) > 1:
            raise bad_where(
                f"{node.name} may be {some_of([each.name for each in found])}; Spark cannot tell them apart"
            )
        return found[0]

    def beside(self, column: DataField) -> Beside:
        """Return a column for comparisons."""
        return Beside(column.name, column.type, self._zone, lambda: self.zoned.add(column.name))


def bare(node: "Expression") -> "Expression":
    """Return a tree without the parentheses around it."""
    from sqlglot import expressions as exp

    while isinstance(node, exp.Paren):
        node = node.this
    return node


def column_of(node: "Expression", columns: Columns) -> DataField:
    """Return the column that a tree is.

    Raises:
        UsageError: With code `bad_where`: it is no column.
    """
    from sqlglot import expressions as exp

    node = bare(node)
    if isinstance(node, exp.Column):
        return columns.named(node)
    if isinstance(node, exp.Dot | exp.Bracket):
        raise bad_where("fields and elements of nested columns cannot be compared")
    if literal_of(node, "") is not None:
        raise bad_where("two literals are compared; expected a column beside a literal")
    raise unknown(node)


def literal_beside(node: "Expression", column: str) -> Given:
    """Return the literal that a tree is.

    Raises:
        UsageError: With code `bad_where`: it is none.
    """
    from sqlglot import expressions as exp

    node = bare(node)
    given = literal_of(node, column)
    if given is not None:
        return given
    if isinstance(node, exp.Column):
        raise bad_where(f"column {column} stands beside a name; expected a literal, and quotes around a text")
    if isinstance(node, exp.Concat):
        raise bad_where(f"column {column} stands beside several texts; expected one, with \\' for a quote in it")
    raise unknown(node)


def check_parts(node: "Expression", *names: str) -> None:
    """Refuse a tree with parts that are not looked at."""
    args: Mapping[str, object] = node.args
    more = sorted(name for name, value in args.items() if value and name not in names)
    if "query" in more:
        raise bad_where("a query stands within the condition; expected literals")
    if more:
        raise bad_where(f"{_word(node)} has a part that is not supported: {some_of(more)}")


def unknown(node: "Expression") -> Exception:
    """Build the error for a tree that is not supported."""
    from sqlglot import expressions as exp

    match node:
        case exp.Subquery() | exp.Select() | exp.Exists():
            return bad_where("a query stands within the condition; expected literals")
        case exp.AggFunc():
            return bad_where(f"{_word(node)} looks at several rows; expected a condition on one row")
        case exp.Func():
            return bad_where(f"the function {_word(node)} is not supported; expected columns beside literals")
    return bad_where(f"{_word(node)} is not supported; expected columns beside literals")


def _word(node: "Expression") -> str:
    """Return what a tree is, for messages; never its values."""
    from sqlglot import expressions as exp

    match node:
        case exp.Anonymous():
            return str(node.this)
        case exp.Func():
            return node.sql_name()
    return type(node).__name__.upper()
