"""Avro schemas as trees: every name resolved, every type known, every size bounded.

`projection` generates code from the tree. A schema is refused if it refers to itself, or if its names unfold into a
huge tree. No metadata file of Paimon has such a schema, and in a small file it could cause endless work.

Source: the Avro 1.11 specification, "Schema Declaration".
"""

from dataclasses import dataclass

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values.json_document import describe

MAX_TYPES = 1000
"""Types after unfolding; a data manifest has about sixty."""
MAX_DEPTH = 24
MAX_COLLECTION_DEPTH = 8
"""Nested arrays and maps."""
MAX_BRANCHES = 60
"""Branches of a union; below 64 the branch number is one byte."""

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type. Its content depends on `kind`: a primitive, or one of record, array, map, union, enum, fixed."""

    kind: str
    fields: tuple[tuple[str, "AvroType"], ...] = ()
    """Fields of a record: name and type."""
    branches: tuple["AvroType", ...] = ()
    """Branches of a union; for an array or map, its only item type."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    """Size of a fixed type, in bytes."""

    @property
    def item(self) -> "AvroType":
        """The item type of an array or map."""
        return self.branches[0]

    @property
    def takes_bytes(self) -> bool:
        """Every value of this type takes at least one byte."""
        match self.kind:
            case "null":
                return False
            case "fixed":
                return self.size > 0
            case "record":
                return any(type_.takes_bytes for _, type_ in self.fields)
        return True


def parse_avro_schema(schema: object, path: str) -> AvroType:
    """Convert a writer's schema (parsed JSON) to a tree."""
    return _Unfolding(path).unfold(schema, "", 0, 0)


class _Unfolding:
    """The names so far, and how many more types they may unfold to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, tuple[dict[str, object], str]] = {}
        self._open: set[str] = set()
        self._left = MAX_TYPES

    def unfold(self, schema: object, namespace: str, depth: int, collections: int) -> AvroType:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH or collections > MAX_COLLECTION_DEPTH:
            raise self._unsupported("a schema of reasonable size and depth", "more")
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return AvroType(schema)
            return self._reference(schema, namespace, depth, collections)
        if isinstance(schema, list):
            if not 0 < len(schema) <= MAX_BRANCHES:
                raise self._damaged(f"a union of 1 to {MAX_BRANCHES} types", schema)
            branches = tuple(self.unfold(branch, namespace, depth + 1, collections) for branch in schema)
            return AvroType("union", branches=branches)
        if not isinstance(schema, dict):
            raise self._damaged("an Avro type", schema)
        kind = schema.get("type")
        match kind:
            case "record" | "enum" | "fixed" | "error":
                return self._named_type(schema, namespace, depth, collections)
            case "array" | "map":
                item = self.unfold(
                    schema.get("items" if kind == "array" else "values"), namespace, depth + 1, collections + 1
                )
                if kind == "array" and not item.takes_bytes:
                    raise self._unsupported("array items that take space", "items of no bytes")
                return AvroType(kind, branches=(item,))
        # Such as {"type": "long", "logicalType": "timestamp-millis"}, and any other wrapped type.
        return self.unfold(kind, namespace, depth + 1, collections)

    def _named_type(self, schema: dict[str, object], namespace: str, depth: int, collections: int) -> AvroType:
        name, namespace = self._full_name(schema, namespace)
        self._named[name] = (schema, namespace)
        match schema["type"]:
            case "enum":
                symbols = schema.get("symbols")
                if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                    raise self._damaged("symbols of an enum", symbols)
                return AvroType("enum", symbols=tuple(symbols))
            case "fixed":
                size = schema.get("size")
                if type(size) is not int or not 0 <= size < 1 << 31:
                    raise self._damaged("the size of a fixed type", size)
                return AvroType("fixed", size=size)
        if name in self._open:
            raise self._unsupported("a schema that ends", f"the type {describe(name)} inside itself")
        self._open.add(name)
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise self._damaged("fields of a record", fields)
        record = AvroType("record", fields=tuple(self._field(f, namespace, depth, collections) for f in fields))
        if len({field for field, _ in record.fields}) < len(fields):
            raise self._damaged("fields of different names in a record", fields)
        self._open.remove(name)
        return record

    def _field(self, field: object, namespace: str, depth: int, collections: int) -> tuple[str, AvroType]:
        if not isinstance(field, dict) or not isinstance(name := field.get("name"), str):
            raise self._damaged("a field with a name", field)
        return name, self.unfold(field.get("type"), namespace, depth + 1, collections)

    def _reference(self, name: str, namespace: str, depth: int, collections: int) -> AvroType:
        for full_name in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full_name in self._named:
                schema, enclosing = self._named[full_name]
                return self._named_type(
                    schema | {"name": full_name, "namespace": enclosing}, enclosing, depth, collections
                )
        raise self._damaged("an Avro type", name)

    def _full_name(self, schema: dict[str, object], namespace: str) -> tuple[str, str]:
        name, own = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise self._damaged("a name and namespace of a type", name)
        if "." in name:
            return name, name.rpartition(".")[0]
        return (f"{own}.{name}" if own else name), own

    def _damaged(self, expected: str, found: object) -> FormatError:
        return FormatError(f"{self._path}: expected {expected}, found {describe(found)}")

    def _unsupported(self, expected: str, found: str) -> UnsupportedFormatError:
        return UnsupportedFormatError(f"{self._path}: expected {expected}, found {found}", code="unsupported_schema")
