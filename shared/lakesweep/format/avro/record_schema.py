"""Avro schemas of records as Paimon writes them, for records that Lakesweep makes itself.

Source: Paimon `AvroSchemaConverter`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_NAMESPACE = "org.apache.paimon.avro.generated"
Field = Mapping[str, Any]
TEXTS = {"type": "array", "items": "string"}
NUMBERS = {"type": "array", "items": ["null", "long"]}


def field(name: str, type_: Any) -> Field:
    """Return a field that has a value."""
    return {"name": name, "type": type_}


def nullable(name: str, type_: Any) -> Field:
    """Return a field that may be null."""
    return {"name": name, "type": ["null", type_], "default": None}


def inner(name: str, *fields: Field) -> Field:
    """Return the type of a record inside another one."""
    return {"type": "record", "name": name, "fields": fields}


def statistics(name: str) -> Field:
    """Return the type of minima, maxima and counts of nulls. Source: `SimpleStats`."""
    return inner(name, field("_MIN_VALUES", "bytes"), field("_MAX_VALUES", "bytes"), nullable("_NULL_COUNTS", NUMBERS))


def text_of(fields: Sequence[Field]) -> bytes:
    """Return the schema of a file with such records."""
    schema = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}
    return json.dumps(schema, separators=(",", ":")).encode()
