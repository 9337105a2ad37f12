"""Remove what no root of any branch refers to: orphan files.

The time is read first, and only what was written long before it may go. Then all roots are collected, until they stand
still, with everything that they refer to. All that lies below the table is listed meanwhile, and held against that.
Which of the two comes first does not matter: what is written meanwhile is too young, and what loses its last root
meanwhile was live when it was looked at, or is an orphan. A plan says what goes; it is carried out like any other, with
a look at new roots before each batch.

Source: Paimon `RemoveOrphanFilesProcedure`, `OrphanFilesClean`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

from lakesweep.control.quarantine import Quarantine, read_quarantine, write_quarantine
from lakesweep.errors import (
    FormatError,
    MaintenanceError,
    ObjectNotFoundError,
    RefusedError,
    StalePlanError,
    UsageError,
)
from lakesweep.format.schema import TableSchema
from lakesweep.model.file_class import FileClass, FileClasses
from lakesweep.model.layout import layout_of
from lakesweep.model.plan import Plan
from lakesweep.model.roots import BranchListing, TableListing
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft, Frame
from lakesweep.operations.run import require_area
from lakesweep.operations.times import say_time
from lakesweep.plan.orphans import Orphan, Rules, Sorting, deletions, needs_confirmation, shown
from lakesweep.storage.listing import list_all
from lakesweep.storage.store import Page, StoredObject
from lakesweep.table.capture import Capture, capture
from lakesweep.table.documents import read_all_schemas, read_schema
from lakesweep.table.missing import find_missing
from lakesweep.table.outside import OutsideRoot, classify_outside, outside_roots
from lakesweep.table.stores import TableStores, declared_roots

OPERATION = "remove_orphan_files"
DEFAULT_AGE_MS = 24 * 3_600_000
"""The engine's default age, and the least without a reason."""
PARALLELISM = 8
MAX_PARALLELISM = 64
AHEAD_PAGES = 64
"""So many pages of the listing may wait, some 25 MB, until it is known what the roots refer to."""
Outside = tuple[dict[str, object], str]
"""What is told of an external root, and a warning or nothing."""
_SCHEMA_FILE = "/schema/schema-"
_NESTED = re.compile(rf"(?P<folder>.+){_SCHEMA_FILE}[0-9]+", re.DOTALL)
_TABLE = re.compile(r"(?:.+/)?schema/schema-[0-9]+", re.DOTALL)
"""Shows outside that a table lies there."""


@dataclass(frozen=True, slots=True)
class OrphanArguments:
    """What a caller says."""

    older_than_ms: int | None = None
    """Only what was written before; else a day ago."""
    no_writers: str | None = None
    """Why what is younger than a day may go: a reason in words, which the plan keeps."""
    quarantine_ms: int | None = None
    """An orphan goes only if a scan so long ago saw it already."""
    parallelism: int = PARALLELISM
    """Listings at once."""
    owned_external: tuple[str, ...] = ()
    """External roots that hold files of this table alone; elsewhere nothing goes."""

    def to_json(self) -> dict[str, object]:
        """Return what the plan keeps of it."""
        return {
            "older_than_ms": self.older_than_ms,
            "no_writers": self.no_writers,
            "quarantine_ms": self.quarantine_ms,
            "owned_external": list(self.owned_external),
        }


def plan_remove_orphan_files(table: Table, arguments: OrphanArguments) -> Plan:
    """Plan the removal of a table's orphan files.

    Args:
        table: All branches of it.
        arguments: Of the call.

    Raises:
        UsageError: An argument that means nothing.
        RefusedError: A cutoff that is too young, no roots, not a table, or a root that cannot be understood.
        StorageError: A request failed; nothing can be concluded.
    """
    now_ms = table.store.now_ms()  # before the first root is looked at: everything rests on it
    cutoff_ms = _cutoff_ms(table, arguments, now_ms)
    earlier = None
    if arguments.quarantine_ms is not None:
        earlier = read_quarantine(require_area(table))
    pages = list_all(table.store, "", parallel=arguments.parallelism, window_pages=AHEAD_PAGES)
    first: list[Page] = []

    def admit(listing: TableListing) -> None:
        # A table of another type has no roots either; that it is of another type says more.
        _own(table, listing)
        if getattr(table.store, "reads_wait", True) and any(listing.roots()):
            first.extend(islice(pages, 1))  # further ones come while the roots are read, which takes CPU time

    with closing(pages):
        found = capture(table.store, table.sleep, admit)
        own, schema = _own(table, found.listing)
        live = found.live
        sorting = Sorting(Rules(cutoff_ms, bool(live.damaged), _known(earlier, arguments, now_ms)), live.has, live.saw)
        outside = _list(table, found, sorting, arguments, chain(first, pages))
    orphans = sorting.quarantine()
    if earlier is not None:
        write_quarantine(require_area(table), earlier, [_identity(orphan) for orphan in orphans], now_ms)
    missing = find_missing(table.store, found, lambda: _stores(table, found))
    draft = Draft(table, OPERATION, found.listing, own, schema, now_ms)
    snapshots = own.snapshots
    frame = Frame(
        arguments=arguments.to_json(),
        policy={"older_than": say_time(cutoff_ms)},
        snapshots={
            "earliest": snapshots[0].id if snapshots else None,
            "latest": snapshots[-1].id if snapshots else None,
            "expired": [],
        },
    )
    plan = draft.plan(
        deletions(sorting.orphans, say_time),
        frame,
        kept=dict(sorted(sorting.kept.items())),
        kept_bytes=dict(sorted(sorting.kept_bytes.items())),
        warnings=(
            *_warnings(found, sorting),
            *(each for _, each in outside if each),
            *missing.warnings(live.damaged.values()),
        ),
        needs_confirmation=needs_confirmation(sorting),
        findings={
            **_findings(found, sorting),
            "external_roots": [facts for facts, _ in outside],
            "missing": missing.to_json(),
        },
    )
    # All that these manifests name is live, so a look need not read them again.
    table.memory.clear = plan.header.plan_id, frozenset(live.manifests)
    return plan


def _own(table: Table, listing: TableListing) -> tuple[BranchListing, TableSchema]:
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    try:
        return own, read_schema(table.store, own)
    except ObjectNotFoundError as error:
        raise StalePlanError(f"table {table.ref}: a schema vanished while the plan was made: {error}") from error


def _cutoff_ms(table: Table, arguments: OrphanArguments, now_ms: int) -> int:
    if not 1 <= arguments.parallelism <= MAX_PARALLELISM:
        raise UsageError(
            f"parallelism: expected a number from 1 to {MAX_PARALLELISM}, found {arguments.parallelism}",
            code="bad_argument",
        )
    cutoff_ms = now_ms - DEFAULT_AGE_MS if arguments.older_than_ms is None else arguments.older_than_ms
    if cutoff_ms > now_ms:
        raise RefusedError(
            f"table {table.ref}: older_than is {say_time(cutoff_ms)}, {cutoff_ms - now_ms} ms in the future; expected "
            "a time that has passed",
            code="cutoff_in_future",
        )
    if cutoff_ms > now_ms - DEFAULT_AGE_MS and not (arguments.no_writers or "").strip():
        raise RefusedError(
            f"table {table.ref}: older_than is {say_time(cutoff_ms)}, less than 24 h ago; expected an older time, "
            "since a writer may still commit what it wrote by then, or no_writers with the reason why there is none",
            code="cutoff_too_young",
        )
    return cutoff_ms


def _known(
    earlier: Quarantine | None, arguments: OrphanArguments, now_ms: int
) -> Callable[[str, str, int], bool] | None:
    if earlier is None or arguments.quarantine_ms is None:
        return None
    before_ms = now_ms - arguments.quarantine_ms
    return lambda key, etag, modified_ms: earlier.is_known(key, etag, modified_ms, before_ms)


def _identity(orphan: Orphan) -> tuple[str, str, int]:
    return orphan.key, orphan.etag, orphan.modified_ms


def _list(
    table: Table, found: Capture, sorting: Sorting, arguments: OrphanArguments, pages: Iterable[Page]
) -> list[Outside]:
    """Sort everything that lies below the table, which is in `pages`, and below its external roots."""
    try:
        schemas = tuple(read_all_schemas(table.store, found.listing))
    except ObjectNotFoundError as error:  # its branch was dropped
        raise StalePlanError(f"table {table.ref}: a schema vanished while the plan was made: {error}") from error
    try:
        classes = FileClasses(layout_of(schema for _, schema in schemas))
        roots = tuple(
            outside_roots(table.ref.location, declared_roots(table.ref.location, schemas), arguments.owned_external)
        )
    except FormatError as error:
        raise RefusedError(f"table {table.ref}: {error}", code="bad_option") from error
    nested: set[str] = set()
    for page in pages:
        for each in page:
            # The expression alone takes a microsecond.
            match = _NESTED.fullmatch(each.key) if _SCHEMA_FILE in each.key else None
            if match and not each.key.startswith("branch/"):
                nested.add(match["folder"])
            _sort(sorting, each, each.key, classes.classify(each.key))
        table.progress(sorting.objects, sorting.objects)
    sorting.spare(nested)
    return [_list_outside(table, root, sorting, classes, arguments.parallelism) for root in roots]


def _list_outside(table: Table, root: OutsideRoot, sorting: Sorting, classes: FileClasses, parallelism: int) -> Outside:
    """Sort what lies below an external root. What is not this table's alone is only counted.

    Raises:
        RefusedError: It is said to be this table's alone, and holds another.
    """
    apart = sorting if root.is_owned else Sorting(sorting.rules, sorting.is_live, sorting.saw)
    others = others_bytes = 0
    try:
        for page in list_all(table.open_store(root.location), "", parallel=parallelism):
            for each in page:
                if root.is_owned and _TABLE.fullmatch(each.key):
                    raise _holds_a_table(table, root, each.key)
                _sort(apart, each, f"{root.location}/{each.key}", classify_outside(classes, each.key))
            if not root.is_owned:  # all files of other tables are among them, which are not ours to remember
                others += len(apart.orphans)
                others_bytes += sum(orphan.size_bytes for orphan in apart.orphans)
                apart.orphans.clear()
            table.progress(sorting.objects + apart.objects, sorting.objects + apart.objects)
    except MaintenanceError as error:
        if root.is_owned:
            raise
        facts: dict[str, object] = {"location": root.location, "owned": False, "problem": str(error)}
        return facts, f"external root {root.location} could not be listed: {error}"
    if root.is_owned:
        return {"location": root.location, "owned": True}, ""
    facts = {
        "location": root.location,
        "owned": False,
        "live": apart.kept["live"],
        "not_referred_to": others,
        "not_referred_to_bytes": others_bytes,
        "other": apart.objects - apart.kept["live"] - others,
    }
    told = f"{others} objects below {root.location} stay: this table refers to none of them, another may; "
    return facts, (told + "--owned-external says that the root is this table's alone") if others else ""


def _holds_a_table(table: Table, root: OutsideRoot, key: str) -> RefusedError:
    return RefusedError(
        f"table {table.ref}: {root.location}/{key} is a schema of another table; expected that an owned root holds "
        "files of this table alone",
        code="owned_root_holds_tables",
    )


def _stores(table: Table, found: Capture) -> TableStores:
    store = table.store
    return TableStores(store, declared_roots(store.location, read_all_schemas(store, found.listing)), table.open_store)


def _sort(sorting: Sorting, stored: StoredObject, path: str, found: FileClass) -> None:
    if stored.is_link:
        sorting.keep(path, stored.size_bytes, "link")
    else:
        sorting.add(path, stored.size_bytes, stored.etag, stored.modified_ms, found)


def _warnings(found: Capture, sorting: Sorting) -> tuple[str, ...]:
    damaged = [f"{path}: {problem}" for path, problem in sorted(found.live.damaged.items())]
    warnings = []
    if damaged:
        warnings.append(
            f"{len(damaged)} roots are not whole, so only temporary files may go; the first is {damaged[0]}"
        )
    for why, what in (("foreign", "unknown names"), ("nested_table", "another table below this one")):
        if sorting.kept[why]:
            warnings.append(f"{sorting.kept[why]} objects stay: {what}, such as {sorting.shown[why][0]}")
    return tuple(warnings)


def _findings(found: Capture, sorting: Sorting) -> Mapping[str, object]:
    return {
        "listed": {"objects": sorting.objects, "bytes": sorting.bytes},
        "roots": len(found.live.captured),
        "manifests": len(found.live.manifests),
        "damaged_roots": dict(sorted(found.live.damaged.items())),
        "hollow_roots": dict(sorted(found.live.hollow.items())),
        "kept": shown(sorting),
    }
