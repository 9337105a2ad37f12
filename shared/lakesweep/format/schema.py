"""Schemas: columns, keys and options of a table, one document for each change.

Each branch has its own. Source: Paimon `TableSchema`, `SchemaSerializer`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values import json_document
from lakesweep.format.values.data_type import DataField, DataType, parse_fields

LATEST_VERSION = 3

_FIELDS = frozenset(("version", "id", "fields", "partitionKeys", "primaryKeys", "options", "timeMillis", "comment"))

__all__ = ["DataField", "DataType", "TableSchema", "parse_schema"]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One state of a table's definition."""

    id: int
    version: int
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str] = field(hash=False)
    """The user's options, plus the defaults that old versions did not write. Cannot be changed."""
    time_ms: int
    comment: str | None

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition keys, in their order."""
        types = {column.name: column.type for column in self.fields}
        return tuple(types[key] for key in self.partition_keys)


def parse_schema(body: bytes, path: str) -> TableSchema:
    """Read a schema document.

    Raises:
        FormatError: It is not a complete schema document.
        UnsupportedFormatError: A later version wrote it, or a column has an unknown type.
    """
    document = json_document.parse_object(body, path)
    json_document.check_field_names(document, _FIELDS, path)
    version = json_document.get_int(document, "version", path)
    version = 1 if version is None else version
    if version > LATEST_VERSION:
        raise UnsupportedFormatError(
            f"{path}: expected a schema of version {LATEST_VERSION} or less, found version {version}",
            code="unsupported_version",
        )
    schema_id = json_document.require_int(document, "id", path)
    if schema_id < 0:
        raise json_document.wrong_type(path, "id", "a number that is not negative", schema_id)
    fields = parse_fields(json_document.get_list(document, "fields", path), path)
    names = {column.name for column in fields}
    if not fields or len(names) < len(fields):
        raise FormatError(f"{path}: expected columns of different names, found {len(fields)} with {len(names)} names")
    return TableSchema(
        id=schema_id,
        version=version,
        fields=fields,
        partition_keys=_keys(document, "partitionKeys", names, path),
        primary_keys=_keys(document, "primaryKeys", names, path),
        options=MappingProxyType(_options(document, version, path)),
        time_ms=json_document.get_int(document, "timeMillis", path) or 0,
        comment=json_document.get_str(document, "comment", path),
    )


def _keys(document: dict[str, object], key: str, names: set[str], path: str) -> tuple[str, ...]:
    keys = tuple(json_document.check_str(value, path, key) for value in json_document.get_list(document, key, path))
    for name in keys:
        if name not in names:
            raise json_document.wrong_type(path, key, "names of columns", name)
    if len(set(keys)) < len(keys):
        raise json_document.wrong_type(path, key, "each column once", list(keys))
    return keys


def _options(document: dict[str, object], version: int, path: str) -> dict[str, str]:
    options = {
        json_document.check_str(key, path, "options"): json_document.check_str(value, path, f"option {key}")
        for key, value in json_document.get_object(document, "options", path).items()
        if value is not None
    }
    # For these versions, a missing option has another meaning than the present default.
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    return options
