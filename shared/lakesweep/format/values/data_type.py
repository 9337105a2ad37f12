"""Column types, as schema documents write them.

Atomic types are texts (`DECIMAL(10, 2) NOT NULL`), nested ones objects. Source: Paimon `DataTypeJsonParser`.
"""

import re
from dataclasses import dataclass

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values import json_document

MAX_DEPTH = 32
MAX_LENGTH = (1 << 31) - 1

_SPELLINGS = {
    "INTEGER": "INT",
    "DOUBLE PRECISION": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITHOUT TIME ZONE": "TIME",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP_LTZ",
}
_PLAIN = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT", "BLOB"),
)
_WITH_LENGTH = frozenset(("CHAR", "VARCHAR", "BINARY", "VARBINARY"))
_UNBOUNDED = {"STRING": "VARCHAR", "BYTES": "VARBINARY"}
_DEFAULT_PRECISION = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
_SPATIAL = frozenset(("GEOMETRY", "GEOGRAPHY"))

_ATOMIC = re.compile(
    r"(?P<word>[A-Z_]+(?: PRECISION)?) ?(?:\((?P<numbers>[^()]{0,200})\))?"
    r" ?(?P<zone>WITHOUT TIME ZONE|WITH LOCAL TIME ZONE)?(?P<null> NULL| NOT NULL)?",
)
_VECTOR = re.compile(r"VECTOR ?< ?(?P<element>[^<>]+?) ?, ?(?P<length>[0-9]{1,10}) ?>(?P<null> NULL| NOT NULL)?")
_NUMBERS = re.compile(r" ?([0-9]{1,10}) ?(?:, ?([0-9]{1,10}) ?)?")


@dataclass(frozen=True, slots=True)
class DataType:
    """One type. `root` is its keyword: VARCHAR for `STRING`, TIMESTAMP_LTZ for `TIMESTAMP(3) WITH LOCAL TIME ZONE`."""

    root: str
    nullable: bool = True
    length: int | None = None
    """For CHAR, VARCHAR, BINARY, VARBINARY and VECTOR."""
    precision: int | None = None
    """For DECIMAL, TIME and the timestamps."""
    scale: int | None = None
    """For DECIMAL."""
    children: tuple["DataType", ...] = ()
    """The element of an ARRAY, MULTISET or VECTOR; key and value of a MAP."""
    fields: tuple["DataField", ...] = ()
    """For a ROW."""


@dataclass(frozen=True, slots=True)
class DataField:
    """A named column. Its id never changes; its name may change."""

    id: int
    name: str
    type: DataType


def type_name(type_: DataType) -> str:
    """Return the name of a type for people: `DECIMAL(10, 2)`, `ARRAY`."""
    numbers = [str(each) for each in (type_.length, type_.precision, type_.scale) if each is not None]
    if type_.root in _UNBOUNDED.values() and type_.length == MAX_LENGTH:
        return next(name for name, root in _UNBOUNDED.items() if root == type_.root)
    return f"{type_.root}({', '.join(numbers)})" if numbers else type_.root


def parse_data_type(value: object, path: str) -> DataType:
    """Read a type from its JSON value."""
    return _parse(value, path, MAX_DEPTH)


def parse_fields(values: list[object], path: str) -> tuple[DataField, ...]:
    """Read the columns of a schema."""
    return _fields(values, path, MAX_DEPTH)


def _parse(value: object, path: str, depth: int) -> DataType:
    if depth == 0:
        raise FormatError(f"{path}: expected a type nested at most {MAX_DEPTH} deep, found more")
    if isinstance(value, dict):
        return _nested(value, path, depth)
    return _atomic(json_document.check_str(value, path, "type"), path)


def _nested(value: dict[str, object], path: str, depth: int) -> DataType:
    root, nullable = _keyword(json_document.require_str(value, "type", path))
    match root:
        case "ARRAY" | "MULTISET":
            return DataType(root, nullable, children=(_parse(value.get("element"), path, depth - 1),))
        case "VECTOR":
            element = _parse(value.get("element"), path, depth - 1)
            length = json_document.require_int(value, "length", path)
            return DataType(root, nullable, length=length, children=(element,))
        case "MAP":
            key, item = (_parse(value.get(part), path, depth - 1) for part in ("key", "value"))
            return DataType(root, nullable, children=(key, item))
        case "ROW":
            fields = _fields(json_document.get_list(value, "fields", path), path, depth - 1)
            return DataType(root, nullable, fields=fields)
    raise _unknown(root, path)


def _fields(values: list[object], path: str, depth: int) -> tuple[DataField, ...]:
    return tuple(_field(value, path, depth) for value in values)


def _field(value: object, path: str, depth: int) -> DataField:
    if not isinstance(value, dict):
        raise json_document.wrong_type(path, "fields", "an object", value)
    return DataField(
        id=json_document.require_int(value, "id", path),
        name=json_document.require_str(value, "name", path),
        type=_parse(value.get("type"), path, depth),
    )


def _keyword(text: str) -> tuple[str, bool]:
    words = text.upper().split()
    if words[-2:] == ["NOT", "NULL"]:
        return " ".join(words[:-2]), False
    return " ".join(words), True


def _atomic(text: str, path: str) -> DataType:
    line = " ".join(text[:1000].upper().split())
    if vector := _VECTOR.fullmatch(line):
        element = _atomic(vector["element"], path)
        return DataType("VECTOR", vector["null"] != " NOT NULL", length=int(vector["length"]), children=(element,))
    match = _ATOMIC.fullmatch(line)
    if match is None:
        raise _unknown(text, path)
    words = f"{match['word']} {match['zone']}" if match["zone"] else match["word"]
    root = _SPELLINGS.get(words, words)
    numbers = match["numbers"]
    nullable = match["null"] != " NOT NULL"
    if root in _PLAIN and numbers is None:
        return DataType(root, nullable)
    if root in _UNBOUNDED and numbers is None:
        return DataType(_UNBOUNDED[root], nullable, length=MAX_LENGTH)
    if root in _SPATIAL:
        return DataType(root, nullable)
    first, second = _two_numbers(numbers, text, path)
    if root in _WITH_LENGTH and second is None:
        return DataType(root, nullable, length=1 if first is None else first)
    if root == "DECIMAL":
        return DataType(root, nullable, precision=10 if first is None else first, scale=second or 0)
    if root in _DEFAULT_PRECISION and second is None:
        return DataType(root, nullable, precision=_DEFAULT_PRECISION[root] if first is None else first)
    raise _unknown(text, path)


def _two_numbers(numbers: str | None, text: str, path: str) -> tuple[int | None, int | None]:
    if numbers is None:
        return None, None
    match = _NUMBERS.fullmatch(numbers)
    if match is None:
        raise _unknown(text, path)
    return int(match[1]), None if match[2] is None else int(match[2])


def _unknown(text: str, path: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{path}: expected a type that this version knows, found {json_document.describe(text)}",
        code="unsupported_type",
    )
