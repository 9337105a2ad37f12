"""What `explain` goes by: a table's roots with all that they name, and the rules of an orphan scan.

The same parts as `remove_orphan_files` uses, so that the two agree about every object. Nothing is waited for: a root
that is not whole may be going, and is told as it is found.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.file_class import FileClasses
from lakesweep.model.layout import layout_of
from lakesweep.model.roots import Root, TableListing
from lakesweep.operations.context import Table
from lakesweep.operations.lifetimes import Lifetimes
from lakesweep.operations.remove_orphan_files import DEFAULT_AGE_MS
from lakesweep.plan.orphans import Rules, Sorting
from lakesweep.table.capture import Capture
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.holders import Holders
from lakesweep.table.live_set import Decode, LiveSet
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.stores import TableStores, declared_roots

NO_ROOTS = "no_roots"


@dataclass(frozen=True, slots=True)
class Judging:
    """A table at one moment."""

    table: Table
    now_ms: int
    cutoff_ms: int
    found: Capture
    roots: tuple[Root, ...]
    """Those that are there."""
    classes: FileClasses
    stores: TableStores
    rules: Rules

    def sorting(self) -> Sorting:
        """Return what sorts objects as an orphan scan does."""
        return Sorting(self.rules, self.found.live.has, self.found.live.saw)

    def holders(self) -> Holders:
        """Return which roots hold what. Reads no list again."""
        return Holders(self.found.reader, self.roots)

    def lifetimes(self) -> Lifetimes:
        """Return how long each root stays."""
        return Lifetimes(self.table, self.found.listing, self.found.roots, self.now_ms)

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each root that is not whole."""
        for path, problem in sorted(self.found.live.damaged.items()):
            yield f"{path} is not whole, so only temporary files may go: {problem}"
        for path, problem in sorted(self.found.live.hollow.items()):
            yield f"{path} is not whole, as is to be expected of it: {problem}"


def judge(table: Table, older_than_ms: int | None, decode: Decode = MetadataReader.scan_manifests) -> Judging:
    """Collect a table's roots, and what they name.

    Args:
        table: Any branch of it.
        older_than_ms: Only what was written before could go; else a day ago.
        decode: Reads manifests.

    Raises:
        RefusedError: Not a table, or a root that cannot be understood.
        StalePlanError: The roots do not stand still.
        StorageError: A request failed.
    """
    store = table.store
    now_ms = store.now_ms()
    cutoff_ms = now_ms - DEFAULT_AGE_MS if older_than_ms is None else older_than_ms
    reader = MetadataReader(store, again=True)
    found = Capture(store, reader, table.sleep, LiveSet(), {}, TableListing({}), lambda listing: None, decode)
    try:
        found.until_stable()
    except RefusedError as error:
        if error.code != NO_ROOTS:
            raise
    schemas = tuple(read_all_schemas(store, found.listing))
    if not schemas:
        raise RefusedError(
            f"{store.location}: expected a Paimon table directory, found no schema/schema-<n> there", code="not_a_table"
        )
    try:
        classes = FileClasses(layout_of(schema for _, schema in schemas))
    except FormatError as error:
        raise RefusedError(f"table {table.ref}: {error}", code="bad_option") from error
    there = found.listing.etags()
    return Judging(
        table=table,
        now_ms=now_ms,
        cutoff_ms=cutoff_ms,
        found=found,
        roots=tuple(root for path, root in found.roots.items() if there.get(path) == root.ref.etag),
        classes=classes,
        stores=TableStores(store, FenceRules(declared_roots(store.location, schemas)), table.open_store),
        rules=Rules(cutoff_ms, bool(found.live.damaged)),
    )
