"""What tells a table from another one that was made anew at its place.

A schema is never written twice under one name, and holds the time at which it was made. So the first one of a branch
has the same ETag for as long as the branch is the same. What an earlier run remembered of a table counts only while
that is so.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.model.roots import BranchListing, TableListing
from lakesweep.model.table_ref import MAIN


@dataclass(frozen=True, slots=True)
class Identity:
    """The first schema of a branch."""

    schema_id: int = 0
    number: int = 0
    """Of its ETag; 0: none is known, and nothing that was remembered counts."""

    def __bool__(self) -> bool:
        """Tell whether it is known."""
        return self.number > 0


def identity_of(own: BranchListing | None) -> Identity:
    """Return the identity of a branch as it was listed."""
    return first_of([] if own is None else [(int(each.name), each.etag) for each in own.schemas])


def table_identity(listing: TableListing) -> str:
    """Return the identity of a whole table as a text, empty where it is not known."""
    found = identity_of(listing.branches.get(MAIN))
    return f"schema-{found.schema_id}:{found.number}" if found else ""


def first_of(schemas: Sequence[tuple[int, str]]) -> Identity:
    """Return the identity of a branch by the ids and ETags of its schemas."""
    if not schemas:
        return Identity()
    schema_id, etag = min(schemas)
    return Identity(schema_id, number_of(etag))


def number_of(text: str | None) -> int:
    """Return a number above 0 that tells texts apart."""
    return int.from_bytes(hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).digest()[:7]) + 1
