"""What tags are made of: the folders of one branch, listed anew, and its tags, read."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.tag import parse_tag
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.context import Table
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

NO_SNAPSHOT = "no_such_snapshot"
NO_TAG = "no_such_tag"


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a branch, read."""

    whole: tuple[Root, ...]
    """Ascending by snapshot id, then by name."""
    unreadable: tuple[tuple[RootRef, str], ...] = ()
    """Those that do not parse, and what is wrong with them."""


def list_own(table: Table, *folders: str) -> BranchListing:
    """Return what lies in folders of the branch, each listed anew; the others are empty.

    Raises:
        StorageError: A listing failed.
        RefusedError: A symbolic link stands where roots live.
    """
    store, branch = table.store, table.ref.branch
    entries = [entry for folder in folders for entry in store.list(f"{branch_dir(branch)}{folder}/")]
    return sort_listing(store.location, entries).branches.get(branch) or BranchListing(branch)


def read_tags(store: Store, refs: Sequence[RootRef]) -> Tags:
    """Read tags. One that vanished meanwhile is none any more; one that does not parse is told apart.

    Raises:
        StorageError: A read failed.
    """
    whole: list[Root] = []
    unreadable: list[tuple[RootRef, str]] = []
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, ObjectNotFoundError):
            continue
        if isinstance(body, StorageError):
            if body.code != "too_large":
                raise body
            unreadable.append((ref, str(body)))
            continue
        try:
            whole.append(Root(ref, parse_tag(body.data, ref.path).snapshot, body.data))
        except (FormatError, RefusedError) as error:
            unreadable.append((ref, str(error)))
    return Tags(tuple(sorted(whole, key=lambda root: (root.snapshot.id, root.ref.name))), tuple(unreadable))
