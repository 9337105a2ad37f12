"""The facts and rules by which `explain` decides: a table's roots with all that they name, and an orphan scan's rules.

`explain` and `remove-orphan-files` share these parts, so they agree about every object. `explain` does not wait for
roots to settle. An incomplete root may just be expiring; it is reported as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import layout_of
from lakesweep.model.roots import Root, TableListing
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.lifetimes.lifetimes import Lifetimes
from lakesweep.operations.orphans.rules.orphans import Rules, Sorting
from lakesweep.runs.fleet import Ruling
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import Decode, LiveSet
from lakesweep.table.stores import TableStores, declared_roots

NO_ROOTS = "no_roots"


@dataclass(frozen=True, slots=True)
class Judging:
    """The facts about a table at one moment."""

    table: Table
    now_ms: int
    cutoff_ms: int
    found: Capture
    roots: tuple[Root, ...]
    """The roots that still exist."""
    classes: FileClasses
    stores: TableStores
    rules: Rules

    def sorting(self) -> Sorting:
        """Return the rules that sort objects as an orphan scan does."""
        return Sorting(self.rules, self.found.live.has, self.found.live.saw)

    def holders(self) -> Holders:
        """Return which roots need and name which files. Reads no list a second time."""
        return Holders(self.found.reader, self.roots)

    def lifetimes(self) -> Lifetimes:
        """Return how long each root is kept. Reads the fleet policy."""
        return Lifetimes(self.table, self.found.listing, self.found.roots, self.now_ms)

    def lifetimes_by(self, ruling: Ruling | None) -> Lifetimes:
        """Return how long each root is kept by a policy that was read. The listing shows the consumers, too."""
        found = self.found
        return Lifetimes(
            self.table, found.listing, found.roots, self.now_ms, ruling=lambda _: ruling, has_consumers=True
        )

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each incomplete root."""
        for path, problem in sorted(self.found.live.damaged.items()):
            yield f"{path} is incomplete, so only temporary files may be deleted: {problem}"
        for path, problem in sorted(self.found.live.incomplete.items()):
            yield f"{path} is incomplete, as expected for such a root: {problem}"


def judge(table: Table, older_than_ms: int | None, decode: Decode = MetadataReader.scan_manifests) -> Judging:
    """Collect a table's roots and everything that they name.

    Args:
        table: Any branch of it.
        older_than_ms: Only objects written before this time could be deleted; default: a day ago.
        decode: Reads manifests.

    Raises:
        RefusedError: This is no table, or a root cannot be understood.
        StalePlanError: The roots keep changing.
        StorageError: A request failed.
    """
    now_ms = table.store.now_ms()
    found = _capture(table, TableListing({}), decode)
    try:
        found.until_stable()
    except RefusedError as error:
        if error.code != NO_ROOTS:
            raise
    return _judging(table, found, now_ms, older_than_ms)


def judge_listed(
    table: Table, listing: TableListing, now_ms: int, decode: Decode = MetadataReader.scan_manifests
) -> Judging:
    """Collect what the listed roots of a table name. The caller makes sure that they have not moved meanwhile.

    Args:
        table: Any branch of it.
        listing: All its roots.
        now_ms: When they were listed.
        decode: Reads manifests.

    Raises:
        RefusedError: This is no table, or a root cannot be understood.
        StorageError: A request failed.
    """
    found = _capture(table, listing, decode)
    found.take(listing.roots())
    return _judging(table, found, now_ms, None)


def _capture(table: Table, listing: TableListing, decode: Decode) -> Capture:
    reader = MetadataReader(table.store, again=True, keeps_entries=True)
    return Capture(table.store, reader, table.sleep, LiveSet(), {}, listing, lambda listing: None, decode)


def _judging(table: Table, found: Capture, now_ms: int, older_than_ms: int | None) -> Judging:
    store = table.store
    cutoff_ms = now_ms - ORPHAN_AGE_MS if older_than_ms is None else older_than_ms
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
