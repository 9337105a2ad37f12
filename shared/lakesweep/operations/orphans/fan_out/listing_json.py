"""The roots of a table as JSON: one step of a scan hands them to the next."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lakesweep.model.roots import BranchListing, DocumentRef, RootRef, TableListing

_ROOTS = ("snapshots", "changelogs", "tags")
_DOCUMENTS = ("consumers", "schemas")


def listing_to_json(listing: TableListing) -> dict[str, Any]:
    """Return a listing as JSON."""
    return {"branches": [asdict(branch) for branch in listing.branches.values()], "links": list(listing.links)}


def listing_of(document: Mapping[str, Any]) -> TableListing:
    """Return the listing that `listing_to_json` wrote; a wrong document raises `KeyError` or `TypeError`."""
    branches = {row["name"]: _branch(row) for row in document["branches"]}
    return TableListing(branches, tuple(document["links"]))


def _branch(row: Mapping[str, Any]) -> BranchListing:
    snapshots, changelogs, tags = (tuple(RootRef(**each) for each in row[name]) for name in _ROOTS)
    consumers, schemas = (tuple(DocumentRef(**each) for each in row[name]) for name in _DOCUMENTS)
    hints = {path: DocumentRef(**each) for path, each in row["hints"].items()}
    return BranchListing(row["name"], snapshots, changelogs, tags, consumers, schemas, hints)
