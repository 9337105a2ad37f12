"""Random types and values, in the forms of the engine's driver: types as schema documents write them."""

import random
import struct
from collections.abc import Sequence
from typing import Any

from lakesweep.format.values.data_type import DataType, parse_data_type

PLAIN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(0)", "TIME(3)", "STRING",
    "VARCHAR(5)", "CHAR(4)", "BYTES", "BINARY(3)", "VARBINARY(4)", "DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(20, 6)",
    "DECIMAL(38, 10)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)",
    "TIMESTAMP_LTZ(6)",
)  # fmt: skip
PARTITIONS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "STRING", "VARCHAR(5)",
    "DECIMAL(5, 2)", "DECIMAL(20, 6)", "TIMESTAMP(3)", "TIMESTAMP(6)",
)  # fmt: skip
_TEXTS = (
    "",
    " ",
    "a",
    "abc",
    "abcdefgh",
    "0",
    "-12",
    "2024-01-02",
    "true",
    "\u00e4\u00f6\u00fc",
    "\u4e2d\u6587\u5b57",
    "\U0001f600x\U0001f600y\U0001f600z",
)
_DAY_MS = 86_400_000


def nested(random_: random.Random, depth: int = 2) -> Any:
    """Return a type, maybe one with others inside."""
    kind = random_.choice(("plain", "plain", "row", "array", "map")) if depth else "plain"
    if kind == "row":
        count = random_.randint(1, 3)
        fields = [{"id": number, "name": f"r{number}", "type": nested(random_, depth - 1)} for number in range(count)]
        return {"type": "ROW", "fields": fields}
    if kind == "array":
        return {"type": "ARRAY", "element": nested(random_, depth - 1)}
    if kind == "map":
        key = random_.choice(("STRING", "INT", "BIGINT"))
        return {"type": "MAP", "key": f"{key} NOT NULL", "value": nested(random_, depth - 1)}
    return random_.choice(PLAIN)


def parsed(document: Any) -> DataType:
    return parse_data_type(document, "a test")


def value(random_: random.Random, type_: DataType, nulls: float = 0.2) -> Any:
    """Return a value as the driver takes and writes it."""
    if random_.random() < nulls:
        return None
    match type_.root:
        case "BOOLEAN":
            return random_.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[type_.root]
            small = random_.randint(-5, 100)
            return random_.choice((small, small, -(1 << bits - 1), (1 << bits - 1) - 1, random_.getrandbits(bits - 1)))
        case "FLOAT" | "DOUBLE":
            code, number = ("<f", "<i") if type_.root == "FLOAT" else ("<d", "<q")
            some = (0.0, -0.0, 1.5, -2.75, 3e9, -1e19, 1e-7, float("inf"), float("-inf"), 127.99, 1e30, 16777217.0)
            chosen = random_.choice((*some, random_.uniform(-1000, 1000)))
            return str(struct.unpack(number, struct.pack(code, chosen))[0])
        case "DATE":
            return random_.choice((0, -1, 19724, 2932896, -719162, random_.randint(0, 30000)))
        case "TIME":
            return random_.choice((0, _DAY_MS - 1, random_.randrange(_DAY_MS)) if type_.precision else (0, 3_661_000))
        case "CHAR" | "VARCHAR":
            text = random_.choice(_TEXTS)[: type_.length]
            return text.ljust(type_.length or 0) if type_.root == "CHAR" else text
        case "BINARY" | "VARBINARY":
            size = type_.length if type_.root == "BINARY" else random_.randint(0, min(type_.length or 0, 9))
            return random_.randbytes(size or 0).hex()
        case "DECIMAL":
            digits = random_.randint(1, type_.precision or 1)
            unscaled = random_.choice((0, 1, -1, 10**digits - 1, 1 - 10**digits, random_.randrange(10**digits)))
            return _decimal(unscaled, type_.scale or 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(random_, type_.precision or 0)
        case "ROW":
            return [value(random_, field.type) for field in type_.fields]
        case "ARRAY":
            return [value(random_, type_.children[0]) for _ in range(random_.randint(0, 3))]
        case "MAP":
            keys = {
                str(key): key for key in (value(random_, type_.children[0], 0) for _ in range(random_.randint(0, 3)))
            }
            return [[key, value(random_, type_.children[1])] for key in keys.values()]
    raise AssertionError(type_.root)


def rows(random_: random.Random, types: Sequence[DataType], count: int) -> list[list[Any]]:
    return [[value(random_, type_, 0.2 if type_.nullable else 0) for type_ in types] for _ in range(count)]


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _timestamp(random_: random.Random, precision: int) -> list[int]:
    # ORC and nanoseconds reach from 1677 to 2262.
    milliseconds = random_.choice((0, -1, 1_704_164_645_678, -2_208_988_800_001, random_.randrange(1 << 42)))
    nanos = random_.choice((0, 1, 123_456, 999_999, random_.randrange(1_000_000)))
    if precision <= 3:
        step = 10 ** (3 - precision)
        return [milliseconds // step * step, 0]
    step = 10 ** (9 - precision)
    return [milliseconds, nanos // step * step]
