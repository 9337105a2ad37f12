"""Find every root of every branch by listing.

Hints never decide what exists: a stale, missing, garbage or too high `LATEST` changes nothing here. The documents of a
branch lie below `branch/branch-<name>/`; all its other files lie in the table's common folders.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lakesweep.errors import RefusedError
from lakesweep.format.names import changelog_id_of, schema_id_of, snapshot_id_of
from lakesweep.model.roots import MAIN, BranchListing, DocumentRef, RootKind, RootRef, TableListing, split_branch
from lakesweep.storage.store import Store, StoredObject

ROOT_FOLDERS = ("snapshot", "changelog", "tag", "consumer", "branch")
"""Folders that each recheck lists again."""
ALL_FOLDERS = (*ROOT_FOLDERS, "schema")
_RARE_FOLDERS = ("changelog", "consumer", "branch")
"""Folders that most tables lack. One request tells which of them exist."""

_HINTS = frozenset({"EARLIEST", "LATEST"})
_SUCCESS_FILE = re.compile(r"tag-success-file/.*_SUCCESS", re.DOTALL)
"""The file that Java writes beside a tag. Any other file in this folder is a tag with a slash in its name."""


def discover(store: Store, folders: Iterable[str] = ALL_FOLDERS) -> TableListing:
    """List all roots, consumers, schemas and hints of all branches.

    Takes one LIST to find the existing folders, and one for each folder (and each 1 000 names).

    Raises:
        StorageError: A listing failed.
        RefusedError: There is a symbolic link among the roots, and it may hide other roots.
    """
    folders = tuple(folders)
    rare = [folder for folder in folders if folder in _RARE_FOLDERS]

    def objects_in(folder: str) -> list[StoredObject]:
        return list(store.list(f"{folder}/"))

    if not getattr(store, "reads_wait", True):  # Threads would cost more time than all the listings.
        there = [*(folder for folder in folders if folder not in rare), *sorted(store.folders_among(rare))]
        return sort_listing(store.location, (entry for folder in there for entry in objects_in(folder)))
    with ThreadPoolExecutor(max_workers=len(folders) + 1) as pool:
        among = pool.submit(store.folders_among, rare)
        pages = [pool.submit(objects_in, folder) for folder in folders if folder not in rare]
        pages += [pool.submit(objects_in, folder) for folder in among.result()]
        return sort_listing(store.location, (entry for page in pages for entry in page.result()))


def sort_listing(location: str, entries: Iterable[StoredObject]) -> TableListing:
    """Turn listed objects into roots by branch."""
    by_branch: dict[str, list[tuple[str, StoredObject]]] = defaultdict(list)
    for entry in entries:
        if entry.is_link:
            raise RefusedError(
                f"table {location}: {entry.key} is a symbolic link; expected plain files and folders there, "
                "since roots behind a link cannot be protected",
                code="symbolic_link",
            )
        found = split_branch(entry.key)
        if found and found[0] == MAIN:
            raise RefusedError(
                f"table {location}: {entry.key} lies in the folder of a branch called {MAIN}; expected the documents "
                f"of {MAIN} below the table itself, since no other branch may have this name",
                code="two_main_branches",
            )
        if found:
            by_branch[found[0]].append((found[1], entry))
        elif not entry.key.startswith("branch/"):
            by_branch[MAIN].append((entry.key, entry))
    by_branch.setdefault(MAIN, [])
    return TableListing(branches={name: _branch(name, found) for name, found in sorted(by_branch.items())})


def _branch(branch: str, found: Iterable[tuple[str, StoredObject]]) -> BranchListing:
    roots: dict[RootKind, list[RootRef]] = {"snapshot": [], "changelog": [], "tag": []}
    consumers: list[DocumentRef] = []
    schemas: list[tuple[int, DocumentRef]] = []
    hints: dict[str, DocumentRef] = {}
    for path, entry in found:
        folder, name = path.split("/", 1)
        if folder in ("snapshot", "changelog") and name in _HINTS:
            hints[path] = _document(name, entry)
        elif folder == "snapshot" and snapshot_id_of(name) is not None:
            roots["snapshot"].append(_root(branch, "snapshot", name.removeprefix("snapshot-"), entry))
        elif folder == "changelog" and changelog_id_of(name) is not None:
            roots["changelog"].append(_root(branch, "changelog", name.removeprefix("changelog-"), entry))
        elif folder == "tag" and name.startswith("tag-") and not _SUCCESS_FILE.fullmatch(name):
            roots["tag"].append(_root(branch, "tag", name.removeprefix("tag-"), entry))
        elif folder == "consumer" and name.startswith("consumer-"):
            consumers.append(_document(name.removeprefix("consumer-"), entry))
        elif folder == "schema" and (schema_id := schema_id_of(name)) is not None:
            schemas.append((schema_id, _document(str(schema_id), entry)))
    return BranchListing(
        name=branch,
        snapshots=tuple(sorted(roots["snapshot"], key=lambda ref: ref.id)),
        changelogs=tuple(sorted(roots["changelog"], key=lambda ref: ref.id)),
        tags=tuple(sorted(roots["tag"], key=lambda ref: ref.name)),
        consumers=tuple(consumers),
        schemas=tuple(document for _, document in sorted(schemas, key=lambda pair: pair[0])),
        hints=hints,
    )


def _root(branch: str, kind: RootKind, name: str, entry: StoredObject) -> RootRef:
    return RootRef(branch, kind, name, entry.key, entry.etag, entry.size_bytes, entry.modified_ms)


def _document(name: str, entry: StoredObject) -> DocumentRef:
    return DocumentRef(name, entry.key, entry.etag, entry.size_bytes, entry.modified_ms)
