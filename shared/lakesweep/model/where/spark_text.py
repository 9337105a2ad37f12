"""Conditions as texts for Spark, which mean the same under every setting of a session.

What a person wrote depends on the session: its zone, ANSI mode, the type of `TIMESTAMP`, backslashes, quotes.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf

from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.partition_path import date_text
from lakesweep.model.where.comparisons import TIMES
from lakesweep.model.where.conditions import (
    And,
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    IsUnknown,
    Known,
    Matches,
    Not,
    OneOf,
)
from lakesweep.model.where.patterns import Pattern, Text
from lakesweep.model.where.where import Where

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPE = "/"


def to_spark_sql(where: Where) -> str:
    """Return a condition over columns of these names. It has values, so it is not for logs and reports."""
    types = where.types

    def text(condition: Condition) -> str:
        match condition:
            case Constant():
                return _truth(condition.value)
            case And():
                return f"({' AND '.join(map(text, condition.parts))})"
            case Not():
                return f"(NOT {text(condition.part)})"
            case IsUnknown():
                return f"({text(condition.part)} IS NULL)"
            case IsNull():
                return f"({_name(condition.column)} IS NULL)"
            case Known():
                # True or false for every value; null for null.
                name = _name(condition.column)
                return f"({name} IS NOT NULL OR NULL)" if condition.value else f"({name} IS NULL AND NULL)"
            case IsNan():
                return f"({_name(condition.column)} = double('NaN'))"
            case Compare():
                type_ = types[condition.column]
                return f"({_name(condition.column)} {condition.order} {_literal(condition.value, type_)})"
            case OneOf():
                type_ = types[condition.column]
                values = ", ".join(_literal(value, type_) for value in condition.values)
                return f"({_name(condition.column)} IN ({values}))"
            case Matches():
                return f"({_name(condition.column)} LIKE {_pattern(condition.pattern)} ESCAPE '{_ESCAPE}')"
        return f"({' OR '.join(map(text, condition.parts))})"

    return text(where.condition)


def _truth(value: bool | None) -> str:
    return "CAST(NULL AS BOOLEAN)" if value is None else str(value).upper()


def _name(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _literal(value: object, type_: DataType) -> str:
    match value:
        case bool():
            return _truth(value)
        case int() if type_.root == "DATE":
            return f"DATE '{date_text(value)}'"
        case int() if type_.root in TIMES:
            moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(" ", "microseconds")
            return f"TIMESTAMP_LTZ '{moment}Z'" if type_.root == "TIMESTAMP_LTZ" else f"TIMESTAMP_NTZ '{moment}'"
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}BD"
        case float() if value in (inf, -inf):
            return f"double('{'' if value > 0 else '-'}Infinity')"
        case float():
            return f"{value!r}D"
        case bytes():
            return f"X'{value.hex()}'"
    return _text(str(value))


def _text(value: str) -> str:
    """Return a text by its bytes, so that no setting about backslashes and quotes matters."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _pattern(pattern: Pattern) -> str:
    parts = []
    for part in pattern.parts:
        text = part.text if isinstance(part, Text) else part
        if isinstance(part, Text):
            for special in (_ESCAPE, "%", "_"):
                text = text.replace(special, _ESCAPE + special)
        parts.append(text)
    return _text("".join(parts))
