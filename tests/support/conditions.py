"""Columns for conditions on rows: one of each type."""

from lakesweep.format.values.data_type import DataField, parse_data_type

TYPES = {
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "bi": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dec": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 0)",
    "s": "STRING",
    "c": "CHAR(3)",
    "by": "BYTES",
    "bo": "BOOLEAN",
    "dt": "DATE",
    "tm": "TIME(3)",
    "ts": "TIMESTAMP(6)",
    "nano": "TIMESTAMP(9)",
    "ltz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "k": "INT NOT NULL",
}
"""Name -> type, as schema documents write it."""
_NESTED = {"arr": {"type": "ARRAY", "element": "INT"}, "r": {"type": "ROW", "fields": []}, "dup": "INT", "DUP": "INT"}

FIELDS = tuple(
    DataField(number, name, parse_data_type(value, "test"))
    for number, (name, value) in enumerate((TYPES | _NESTED).items())
)
