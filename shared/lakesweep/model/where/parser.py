"""Trees of sqlglot as conditions. What is not known to mean the same here and in Spark is refused."""

from typing import TYPE_CHECKING

from lakesweep.format.values.data_type import DataField
from lakesweep.model.where.comparisons import FLOATS, TEXTS
from lakesweep.model.where.conditions import (
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    IsUnknown,
    Known,
    Matches,
    all_of,
    any_of,
    negated,
)
from lakesweep.model.where.literals import NULL
from lakesweep.model.where.operands import Columns, bare, check_parts, column_of, literal_beside, unknown
from lakesweep.model.where.patterns import BadPatternError, Pattern, Text, parse_pattern
from lakesweep.model.where.syntax import bad_where

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

_OPERATORS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "<=>"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
MAX_DEPTH = 200
"""How deep conditions may nest; a chain of AND or OR counts once."""


def condition_of(node: "Expression", columns: Columns, depth: int = MAX_DEPTH) -> Condition:
    """Return what a tree means.

    Raises:
        UsageError: With code `bad_where`: it means something else than a known condition.
    """
    from sqlglot import expressions as exp

    if depth == 0:
        raise bad_where(f"expected conditions nested at most {MAX_DEPTH} deep, found more")
    deeper = depth - 1
    match node:
        case exp.Paren():
            return condition_of(node.this, columns, deeper)
        case exp.And() | exp.Or():
            parts = [condition_of(part, columns, deeper) for part in _chain(node)]
            return all_of(parts) if isinstance(node, exp.And) else any_of(parts)
        case exp.Not():
            return negated(condition_of(node.this, columns, deeper))
        case exp.Boolean():
            return Constant(bool(node.this))
        case exp.Null():
            return Constant(None)
        case exp.Column():
            return _itself(columns.named(node))
        case exp.NullSafeNEQ():
            return negated(_comparison("<=>", node.this, node.expression, columns))
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.NullSafeEQ():
            return _comparison(_OPERATORS[type(node).__name__], node.this, node.expression, columns)
        case exp.Between():
            check_parts(node, "this", "low", "high")
            bounds = (">=", node.args["low"]), ("<=", node.args["high"])
            return all_of([_comparison(operator, node.this, bound, columns) for operator, bound in bounds])
        case exp.In():
            check_parts(node, "this", "expressions")
            return _list(node, columns)
        case exp.Is():
            return _is(node, columns, deeper)
        case exp.Like():
            return _like(node, "\\", columns)
        case exp.Escape() if isinstance(node.this, exp.Like):
            return _like(node.this, _escape(node), columns)
        case exp.IsNan() | exp.StartsWith() | exp.EndsWith() | exp.Contains():
            return _function(node, columns)
    raise unknown(node)


def _chain(node: "Expression") -> list["Expression"]:
    """Return the parts of a chain of AND or of OR, whose tree is as deep as the chain is long."""
    parts: list[Expression] = []
    kind = type(node)
    while type(node) is kind:
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _comparison(operator: str, left: "Expression", right: "Expression", columns: Columns) -> Condition:
    from sqlglot import expressions as exp

    left, right = bare(left), bare(right)
    if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
        left, right, operator = right, left, _TURNED.get(operator, operator)
    column = column_of(left, columns)
    return columns.beside(column).compared(operator, literal_beside(right, column.name))


def _list(node: "Expression", columns: Columns) -> Condition:
    column = column_of(node.this, columns)
    given = [literal_beside(each, column.name) for each in node.expressions]
    if not given:
        raise bad_where(f"column {column.name} stands beside an empty list; expected IN with at least one literal")
    return columns.beside(column).one_of(given)


def _is(node: "Expression", columns: Columns, depth: int) -> Condition:
    from sqlglot import expressions as exp

    check_parts(node, "this", "expression")
    subject = bare(node.this)
    match node.expression:
        case exp.Null() if isinstance(subject, exp.Column):
            return IsNull(columns.named(subject).name)
        case exp.Null():
            return IsUnknown(condition_of(subject, columns, depth))
        case exp.Boolean():
            part = condition_of(subject, columns, depth)
            wanted = part if node.expression.this else negated(part)
            return all_of((negated(IsUnknown(part)), wanted))
    raise bad_where("IS stands before another word than NULL, TRUE, FALSE or DISTINCT FROM")


def _itself(column: DataField) -> Condition:
    if column.type.root != "BOOLEAN":
        raise bad_where(f"column {column.name} is {column.type.root} and stands alone; expected a comparison")
    return Compare(column.name, "=", True)


def _like(node: "Expression", escape: str, columns: Columns) -> Condition:
    check_parts(node, "this", "expression", "negate")
    column = _text_column(node.this, columns)
    given = literal_beside(node.expression, column.name)
    if given is NULL:
        return Constant(None)
    if given.kind != "text":
        raise columns.beside(column).refused(given, "expected a pattern in quotes")
    try:
        pattern = parse_pattern(str(given.value), escape)
    except BadPatternError:
        raise bad_where(
            f"the pattern beside column {column.name} has an escape character before another one than %, _ or itself"
        ) from None
    found = _matching(column.name, pattern)
    return negated(found) if node.args.get("negate") else found


def _escape(node: "Expression") -> str:
    from sqlglot import expressions as exp

    check_parts(node, "this", "expression")
    match node.expression:
        case exp.Literal() if node.expression.is_string and len(node.expression.this) == 1:
            escape: str = node.expression.this
            return escape
    raise bad_where("ESCAPE stands before something else than one character in quotes")


def _matching(column: str, pattern: Pattern) -> Condition:
    if pattern.is_any:
        return Known(column, True)
    if pattern.whole is not None:
        return Compare(column, "=", pattern.whole)
    return Matches(column, pattern)


def _function(node: "Expression", columns: Columns) -> Condition:
    from sqlglot import expressions as exp

    if isinstance(node, exp.IsNan):
        check_parts(node, "this")
        column = column_of(node.this, columns)
        if column.type.root not in FLOATS:
            raise bad_where(f"column {column.name} is {column.type.root}; isnan is for FLOAT and DOUBLE")
        # Spark's isnan of null is false, not null.
        return all_of((negated(IsNull(column.name)), IsNan(column.name)))
    check_parts(node, "this", "expression")
    column = _text_column(node.this, columns)
    given = literal_beside(node.expression, column.name)
    if given is NULL:
        return Constant(None)
    if given.kind != "text":
        raise columns.beside(column).refused(given, "expected a text in quotes")
    text = (Text(str(given.value)),) if given.value else ()
    match node:
        case exp.StartsWith():
            return _matching(column.name, Pattern((*text, "%")))
        case exp.EndsWith():
            return _matching(column.name, Pattern(("%", *text)))
    return _matching(column.name, Pattern(("%", *text, "%")))


def _text_column(node: "Expression", columns: Columns) -> DataField:
    column = column_of(node, columns)
    if column.type.root not in TEXTS:
        raise bad_where(f"column {column.name} is {column.type.root}; patterns are for texts")
    return column
