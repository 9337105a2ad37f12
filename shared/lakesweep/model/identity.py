"""The identity of a table: it differs for a new table at the location of a deleted one.

A schema is never written twice under one name, and contains the time of its creation. So the first schema of a branch
has the same ETag as long as the branch is the same. The metadata cache of a table is valid only that long.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.model.roots import MAIN, BranchListing, TableListing


@dataclass(frozen=True, slots=True)
class Identity:
    """The first schema of a branch."""

    schema_id: int = 0
    number: int = 0
    """Number of its ETag; 0: unknown, and the metadata cache is invalid."""

    def __bool__(self) -> bool:
        """Tell whether the identity is known."""
        return self.number > 0


def identity_of(own: BranchListing | None) -> Identity:
    """Return the identity of a listed branch."""
    return first_of([] if own is None else [(int(each.name), each.etag) for each in own.schemas])


def table_identity(listing: TableListing) -> str:
    """Return the identity of a whole table as a text, empty if it is unknown."""
    found = identity_of(listing.branches.get(MAIN))
    return f"schema-{found.schema_id}:{found.number}" if found else ""


def first_of(schemas: Sequence[tuple[int, str]]) -> Identity:
    """Return the identity of a branch from the ids and ETags of its schemas."""
    if not schemas:
        return Identity()
    schema_id, etag = min(schemas)
    return Identity(schema_id, number_of(etag))


def number_of(text: str | None) -> int:
    """Return a positive number that distinguishes texts."""
    return int.from_bytes(hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).digest()[:7]) + 1
