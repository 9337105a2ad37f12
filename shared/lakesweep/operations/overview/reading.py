"""Read each document of a table once, all of them together, and notice roots that move meanwhile."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from lakesweep.errors import StalePlanError
from lakesweep.model.identity import table_identity
from lakesweep.model.roots import BranchListing, DocumentRef, Root, RootRef, TableListing
from lakesweep.runs.session import Table
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Body, Page, Store, StoredObject
from lakesweep.storage.wrappers.remembering import MetadataCache, RememberingStore
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

MAX_CACHED_BYTES = 32 << 20
_FOLDERS = ("branch/", "changelog/", "consumer/", "schema/", "snapshot/", "tag/")


def reading_once(table: Table, listing: TableListing) -> Table:
    """Return the table with a store that reads no document and no manifest of moderate size twice."""
    memory = MetadataCache(max_total_bytes=MAX_CACHED_BYTES)
    memory.load({}, table_identity(listing))
    etags = {ref.path: ref.etag for ref in _documents(listing)}
    for branch in listing.branches.values():
        for document, right in _hints(branch):
            # On S3, the ETag of such a short object tells its content, unless the bucket encrypts with its own keys.
            if document.etag == hashlib.md5(right, usedforsecurity=False).hexdigest():
                memory.learn(document.path, Body(right, document.etag))
    return replace(table, store=RememberingStore(table.store, memory, etags), memory=memory)


def _hints(branch: BranchListing) -> Iterator[tuple[DocumentRef, bytes]]:
    """Yield each hint with what it should say."""
    for path, document in branch.hints.items():
        refs = branch.snapshots if path.startswith("snapshot/") else branch.changelogs
        if refs:
            yield document, str(refs[-1 if path.endswith("LATEST") else 0].id).encode()


def _documents(listing: TableListing) -> Iterator[RootRef | DocumentRef]:
    for branch in listing.branches.values():
        yield from branch.roots()
        yield from (*branch.schemas, *branch.consumers, *branch.hints.values())


def read_documents(store: Store, listing: TableListing) -> None:
    """Read all documents together, so that the store of `reading_once` has them. Whoever needs one tells of errors."""
    paths = [ref.path for ref in _documents(listing)]
    with closing(read_many(store, paths, max_bytes=MAX_DOCUMENT_BYTES)) as bodies:
        for _ in bodies:
            pass


def refuse_vanished(location: str, listing: TableListing, roots: Mapping[str, Root]) -> None:
    """Make sure that every listed root could be read.

    Raises:
        StalePlanError: One vanished before that.
    """
    for ref in listing.roots():
        if ref.path not in roots:
            raise _moved(location, ref.path)


def _moved(location: str, path: str) -> StalePlanError:
    return StalePlanError(
        f"table {location}: {path} changed while the table was measured; expected the roots to stay as they were, try "
        "again",
        code="roots_keep_changing",
    )


@dataclass(slots=True)
class SecondListing:
    """The documents in the listing of the whole table, which was made after the first listing of documents."""

    entries: list[StoredObject] = field(default_factory=list)

    def noted(self, pages: Iterable[Page]) -> Iterator[Page]:
        """Yield the pages, and note their documents."""
        for page in pages:
            self.entries += (each for each in page if each.key.startswith(_FOLDERS))
            yield page

    def refuse_moved(self, location: str, before: TableListing) -> None:
        """Make sure that all roots are where they were. Newer snapshots may have come.

        A root that moves may be in neither of two folders while they are listed one after the other. Then no root would
        seem to need its files.

        Raises:
            StalePlanError: A root is gone, or another one appeared.
            RefusedError: There is a symbolic link among the roots.
        """
        after = sort_listing(location, self.entries)
        known, found = before.etags(), after.etags()
        newest = {name: max((ref.id for ref in own.snapshots), default=0) for name, own in before.branches.items()}
        gone = [path for path, etag in known.items() if found.get(path) != etag]
        new = [
            ref.path
            for ref in after.roots()
            if ref.path not in known and not (ref.kind == "snapshot" and ref.id > newest.get(ref.branch, 0))
        ]
        if changed := gone or new:
            raise _moved(location, changed[0])
