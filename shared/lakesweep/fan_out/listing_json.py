"""The roots of a table as JSON: what one step of a scan hands to the next."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lakesweep.model.layout import Layout
from lakesweep.model.roots import BranchListing, DocumentRef, RootRef, TableListing

_ROOTS = ("snapshots", "changelogs", "tags")
_DOCUMENTS = ("consumers", "schemas")


def listing_to_json(listing: TableListing) -> dict[str, Any]:
    """Return a listing as JSON."""
    return {"branches": [asdict(branch) for branch in listing.branches.values()], "links": list(listing.links)}


def listing_of(document: Mapping[str, Any]) -> TableListing:
    """Return what `listing_to_json` took; whatever is wrong with it raises `KeyError` or `TypeError`."""
    branches = {row["name"]: _branch(row) for row in document["branches"]}
    return TableListing(branches, tuple(document["links"]))


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Return a layout as JSON; equal ones give equal JSON."""
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in asdict(layout).items()}


def layout_of_json(document: Mapping[str, Any]) -> Layout:
    """Return what `layout_to_json` took; whatever is wrong with it raises `KeyError` or `TypeError`."""
    return Layout(
        data_prefixes=frozenset(document["data_prefixes"]),
        changelog_prefixes=frozenset(document["changelog_prefixes"]),
        partition_keys=frozenset(tuple(keys) for keys in document["partition_keys"]),
        path_directories=frozenset(document["path_directories"]),
        index_beside_data=bool(document["index_beside_data"]),
    )


def _branch(row: Mapping[str, Any]) -> BranchListing:
    snapshots, changelogs, tags = (tuple(RootRef(**each) for each in row[name]) for name in _ROOTS)
    consumers, schemas = (tuple(DocumentRef(**each) for each in row[name]) for name in _DOCUMENTS)
    hints = {path: DocumentRef(**each) for path, each in row["hints"].items()}
    return BranchListing(row["name"], snapshots, changelogs, tags, consumers, schemas, hints)
