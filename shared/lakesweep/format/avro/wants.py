"""The fields that a caller wants of each record."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "natural", "bytes", "string", "strings", "record", "records", "raw", "any"]

ACCEPTED: dict[str, frozenset[str]] = {
    "int": frozenset(("int", "long")),
    "natural": frozenset(("int", "long")),
    "bytes": frozenset(("bytes",)),
    "string": frozenset(("string",)),
    "strings": frozenset(("array",)),
    "record": frozenset(("record",)),
    "records": frozenset(("array",)),
}


@dataclass(frozen=True, slots=True)
class Want:
    """A field to decode, by name.

    `natural` is a number whose value is not needed: it may not be negative, and becomes None.
    `strings` and `records` are arrays and become tuples; `record` and `records` become tuples of `fields`. `any`
    accepts every type, with records as dicts. A required field may be neither missing nor null.

    `raw` is no field: it stands among the fields of the whole record and becomes the bytes of that record, with the
    branch number if the record is a union. Its name means nothing.
    """

    name: str
    kind: Kind = "any"
    required: bool = False
    fields: tuple["Want", ...] = ()

    @property
    def by_name(self) -> dict[str, "Want"]:
        """The fields that a record can have."""
        return {field.name: field for field in self.fields if field.kind != "raw"}
