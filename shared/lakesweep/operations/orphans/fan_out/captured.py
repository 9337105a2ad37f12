"""The roots of a table, read once for all steps of a scan.

The first step reads roots and manifest lists and stores what it read. Later steps list the roots again and read only
new ones. They trust stored manifest lists and index manifests by name. They trust any other stored document only while
a listing shows the same ETag.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from lakesweep.control.cache import read_cache, write_cache
from lakesweep.model.roots import TableListing
from lakesweep.operations.orphans.fan_out.documents import Captured, ScanDocuments
from lakesweep.operations.orphans.scan import check_table
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store, StoredObject
from lakesweep.storage.wrappers.remembering import MetadataCache, RememberingStore
from lakesweep.table.documents import read_roots
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.live_set import Decode, LiveSet

MAX_BYTES = 96 << 20
"""Most bytes of roots and lists that are stored. Each step reads the rest again."""


class ListedStore(RememberingStore):
    """Caches the documents that its own listings show."""

    def __init__(self, store: Store, memory: MetadataCache, etags: dict[str, str] | None = None) -> None:
        """Wrap a store.

        Args:
            store: The table's store.
            memory: The metadata cache.
            etags: Path -> ETag of documents that an earlier listing showed.
        """
        self._listed = {} if etags is None else etags
        super().__init__(store, memory, self._listed)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        for each in self._store.list(prefix):
            self._listed[each.key] = each.etag
            yield each


@dataclass(slots=True)
class Remembered:
    """What the steps of one scan have read of a table."""

    table: Table
    """The table, with a store that reads through the cache."""
    memory: MetadataCache = field(default_factory=MetadataCache)

    @classmethod
    def load(cls, table: Table, documents: ScanDocuments, name: str | None) -> "Remembered":
        """Load what an earlier step stored.

        Args:
            table: The table.
            documents: The documents of the scan.
            name: Name of the stored cache; `None` at the beginning.
        """
        memory = MetadataCache(max_total_bytes=MAX_BYTES)
        memory.load({} if name is None else read_cache(documents.area, documents.name(name), max_total_bytes=MAX_BYTES))
        return cls(replace(table, store=ListedStore(table.store, memory)), memory)

    def keep(self, documents: ScanDocuments, name: str) -> None:
        """Store what was read, for later steps."""
        write_cache(documents.area, self.memory.objects, documents.name(name))


def new_capture(table: Table, live: LiveSet, decode: Decode) -> Capture:
    """Return a capture that has seen no root yet; see `lakesweep.table.reach.capture.capture`."""
    reader, admit = MetadataReader(table.store), partial(check_table, table)
    return Capture(table.store, reader, table.sleep, live, {}, TableListing({}), admit, decode)


def captured_of(found: Capture) -> Captured:
    """Return what later steps need to know of a capture."""
    live = found.live
    return Captured(found.listing, live.captured, live.damaged, live.incomplete, live.manifests, live.tagged)


def capture_of(table: Table, captured: Captured, memory: MetadataCache) -> Capture:
    """Return the capture that `captured_of` took, without its roots; `read_captured` adds them."""
    listing = captured.listing
    live = LiveSet(
        captured=captured.captured,
        damaged=captured.damaged,
        incomplete=captured.incomplete,
        manifests=captured.manifests,
        tagged=captured.tagged,
    )
    etags = listing.etags()
    for branch in listing.branches.values():
        hints = branch.hints.values()
        etags |= {document.path: document.etag for document in (*branch.schemas, *branch.consumers, *hints)}
    store = ListedStore(table.store, memory, etags)
    found = new_capture(replace(table, store=store), live, MetadataReader.scan_names)
    found.listing = listing
    return found


def read_captured(found: Capture) -> None:
    """Read the roots of a capture again, from the cache as far as possible.

    Raises:
        StorageError: A root is not in the cache and could not be read.
    """
    captured = found.live.captured
    documents = read_roots(found.store, [ref for ref in found.listing.roots() if captured.get(ref.path) == ref.etag])
    found.roots = {root.ref.path: replace(root, body=b"") for root in documents.roots}
