"""The sources of tags: new listings of one branch's folders, and its tags."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import ObjectNotFoundError
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.tags import TagDocument, read_tags

NO_SNAPSHOT = "no_such_snapshot"
NO_TAG = "no_such_tag"


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a branch, read."""

    whole: tuple[Root, ...]
    """Ascending by snapshot id, then by name."""
    unreadable: tuple[tuple[RootRef, str], ...] = ()
    """Tags that do not parse, each with its problem."""


def list_own(table: Table, *folders: str) -> BranchListing:
    """List the given folders of the branch; the listing of other folders stays empty.

    Raises:
        StorageError: A listing failed.
        RefusedError: A symbolic link takes the place of a folder of roots.
    """
    store, branch = table.store, table.ref.branch
    entries = [entry for folder in folders for entry in store.list(f"{branch_dir(branch)}{folder}/")]
    return sort_listing(store.location, entries).branches.get(branch) or BranchListing(branch)


def tags_by_snapshot(store: Store, refs: Sequence[RootRef]) -> Tags:
    """Read tags. Vanished tags are dropped; tags that do not parse are returned apart.

    Raises:
        StorageError: A read failed.
    """
    whole: list[Root] = []
    unreadable: list[tuple[RootRef, str]] = []
    for ref, found in read_tags(store, refs):
        if isinstance(found, TagDocument):
            whole.append(found.root)
        elif not isinstance(found, ObjectNotFoundError):
            unreadable.append((ref, str(found)))
    return Tags(tuple(sorted(whole, key=lambda root: (root.snapshot.id, root.ref.name))), tuple(unreadable))
