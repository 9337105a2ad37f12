"""What all scans for orphan files have in common, whichever backend reads the manifests and lists the table.

The scan reads the clock first, and deletes only files that were written long before. Then it collects all roots and
everything that they name, until the roots stop changing. It lists everything below the table, before or after that, and
compares the two. Their order does not matter. A file written meanwhile is too young. A file that loses its last root
meanwhile was live when the scan saw its root, or else is an orphan. The plan lists the deletions. It is executed like
any other plan, with a recheck of new roots before each batch.

Source: Paimon `RemoveOrphanFilesProcedure`, `OrphanFilesClean`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StalePlanError, UsageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.damage import LOST_HISTORIES, empty_branches, lost_histories
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import layout_of
from lakesweep.model.plan import Action, Plan
from lakesweep.model.roots import BranchListing, Root, TableListing
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.model.scans import MAX_PARALLELISM, OrphanArguments
from lakesweep.model.steering import Steering
from lakesweep.operations.orphans.outside import Outside, refuse_owned
from lakesweep.operations.orphans.rules.orphans import TEMP, Totals, needs_confirmation, shown
from lakesweep.runs.damage import lost_snapshots, warnings_of
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.view import ChunkedPlan, TableView, inputs_of
from lakesweep.storage.location import parse_location
from lakesweep.table.documents import read_all_schemas, read_schema
from lakesweep.table.fence import FenceRules
from lakesweep.table.inventory.manifest import Inventory, place_of_inventory, read_inventory
from lakesweep.table.outside import OutsideRoot, outside_roots
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.missing import Missing
from lakesweep.table.stores import TableStores, declared_roots

OPERATION = "remove-orphan-files"
HISTORY_MISSING = "history_missing"


@dataclass(frozen=True, slots=True)
class Scanned:
    """The result of a scan."""

    found: Capture
    own: BranchListing
    schema: TableSchema
    now_ms: int
    """Read before the first root."""
    cutoff_ms: int
    totals: Totals
    outside: Sequence[Outside]
    missing: Missing
    data_files: int
    """Number of data and changelog files to delete."""
    data_bytes: int
    inventory: Inventory | None = None
    """The inventory that was read instead of a listing."""


def orphan_plan(
    table: Table,
    arguments: OrphanArguments,
    scanned: Scanned,
    actions: Sequence[Action] = (),
    chunked: ChunkedPlan | None = None,
) -> Plan:
    """Return the plan of a scan.

    Raises:
        RefusedError: A branch may have lost its snapshots, and the plan would delete files that they need.
    """
    found, totals = scanned.found, scanned.totals
    lost: dict[str, str] = {}
    if not arguments.may_lack_history:
        lost = lost_histories(found.listing) | lost_snapshots(table.store, found.listing)
    view = TableView(table, OPERATION, found.listing, scanned.own, scanned.schema, scanned.now_ms)
    inputs = inputs_of(scanned.own, arguments.to_json(), {"older_than": say_time(scanned.cutoff_ms)})
    plan = view.plan(
        actions,
        inputs,
        kept=dict(sorted(totals.kept.items())),
        kept_bytes=dict(sorted(totals.kept_bytes.items())),
        warnings=(
            *_warnings(found, totals),
            *warnings_of({LOST_HISTORIES: lost}),
            *_clock_warnings(table),
            *(each for _, each in scanned.outside if each),
            *scanned.missing.warnings(found.live.damaged.values()),
        ),
        needs_confirmation=needs_confirmation(scanned.data_files, scanned.data_bytes, totals),
        findings={
            **_findings(found, totals),
            **({LOST_HISTORIES: lost} if lost else {}),
            "external_roots": [facts for facts, _ in scanned.outside],
            "missing": scanned.missing.to_json(),
            **({"inventory": scanned.inventory.to_json()} if scanned.inventory else {}),
        },
        steering=Steering(incomplete_roots=tuple(sorted({*found.live.damaged, *found.live.incomplete}))),
        chunked=chunked,
    )
    _check_history(table, arguments, found.listing, plan, lost)
    # All files that these manifests name are live, so a recheck need not read the manifests again.
    table.memory.clear = plan.header.plan_id, frozenset(found.live.manifests)
    return plan


def _check_history(
    table: Table, arguments: OrphanArguments, listing: TableListing, plan: Plan, lost: Mapping[str, str]
) -> None:
    """Refuse to delete more than temporary files if a branch lost snapshots, or has a schema but no snapshot.

    A branch that lost its `snapshot/` folder looks like a branch that never had one. Every file of the lost snapshots
    then looks like an orphan.

    Raises:
        RefusedError: With code `history_missing`.
    """
    if arguments.may_lack_history:
        return
    others = {kind for kind, count in plan.delete_kinds.items() if count and kind != TEMP}
    # The next scan deletes what the quarantine keeps today. If a branch is surely lost, today is the time to say so.
    is_about_to = bool(lost) and plan.header.kept.get("quarantine", 0) > 0
    if not (others or is_about_to):
        return
    name, why = next(iter(lost.items()), (None, "no snapshot is there, and nothing shows whether there ever was one"))
    name = next((branch.name for branch in empty_branches(listing)), None) if name is None else name
    if name is None:
        return
    if listing.branches[name].snapshots:
        found, mend = f"branch {name} has lost snapshots:", "them; or, if the hint is wrong"
    else:
        found, mend = f"branch {name} has a schema, but", "the folder snapshot/; or, if the branch never had a snapshot"
    raise RefusedError(
        f"table {table.ref}: {found} {why}; expected snapshots, since this scan would "
        f"delete all files of lost ones as orphans. Restore {mend}, give no_history with a reason",
        code=HISTORY_MISSING,
    )


def own_branch(
    table: Table, listing: TableListing, known: tuple[BranchListing, TableSchema] | None = None
) -> tuple[BranchListing, TableSchema]:
    """Return the branch of the call, and its schema; `known` is what an earlier listing showed.

    Raises:
        MaintenanceError: This is no table, its type is not supported, or a schema vanished.
    """
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    # The schema is not read again if the document is the same.
    if known is not None and own.schemas and own.schemas[-1] == known[0].schemas[-1]:
        return own, known[1]
    try:
        return own, read_schema(table.store, own)
    except ObjectNotFoundError as error:
        raise StalePlanError(f"table {table.ref}: a schema vanished while the plan was made: {error}") from error


def check_table(table: Table, listing: TableListing) -> None:
    """Refuse a folder that is no table, by its first listing; see `own_branch`."""
    own_branch(table, listing)


def cutoff_of(table: Table, arguments: OrphanArguments, now_ms: int) -> int:
    """Return the cutoff: only files written before it may be deleted.

    Raises:
        UsageError: The parallelism is out of range.
        RefusedError: The time is too recent, or in the future.
    """
    if not 1 <= arguments.parallelism <= MAX_PARALLELISM:
        raise UsageError(
            f"parallelism: expected a number from 1 to {MAX_PARALLELISM}, found {arguments.parallelism}",
            code="bad_argument",
        )
    age_ms = ORPHAN_AGE_MS if arguments.age_ms is None else arguments.age_ms
    cutoff_ms = now_ms - age_ms if arguments.older_than_ms is None else arguments.older_than_ms
    if cutoff_ms > now_ms:
        raise RefusedError(
            f"table {table.ref}: older_than is {say_time(cutoff_ms)}, {cutoff_ms - now_ms} ms in the future; expected "
            "a time that has passed",
            code="cutoff_in_future",
        )
    if cutoff_ms > now_ms - ORPHAN_AGE_MS and not (arguments.no_writers or "").strip():
        raise RefusedError(
            f"table {table.ref}: older_than is {say_time(cutoff_ms)}, less than 24 h ago; expected an older time, "
            "since a writer may still commit newer files, or no_writers with the reason why there is no writer",
            code="cutoff_too_young",
        )
    return cutoff_ms


def places_of(
    table: Table, listing: TableListing, arguments: OrphanArguments
) -> tuple[FileClasses, tuple[OutsideRoot, ...]]:
    """Return the classes of the table's objects, and the external roots to list.

    Raises:
        RefusedError: An option that determines them does not parse.
        StalePlanError: A schema vanished.
        UsageError: A root given as owned is invalid.
    """
    schemas = schemas_of(table, listing)
    try:
        declared = declared_roots(table.ref.location, schemas)
        roots = tuple(outside_roots(table.ref.location, declared, arguments.owned_external))
        classes = FileClasses(layout_of(schema for _, schema in schemas))
    except FormatError as error:
        raise RefusedError(f"table {table.ref}: {error}", code="bad_option") from error
    owned = [root.location for root in roots if root.is_owned]
    if owned:
        refuse_owned(table, schemas, owned)
    return classes, roots


def schemas_of(table: Table, listing: TableListing) -> tuple[tuple[str, TableSchema], ...]:
    """Return every schema of every branch.

    Raises:
        StalePlanError: A schema vanished.
    """
    try:
        return tuple(read_all_schemas(table.store, listing))
    except ObjectNotFoundError as error:  # its branch was deleted
        raise StalePlanError(f"table {table.ref}: a schema vanished while the plan was made: {error}") from error


def inventory_of(table: Table, arguments: OrphanArguments) -> Inventory | None:
    """Return the checked inventory to read instead of a listing of the table, `None` if the call names none.

    Raises:
        UsageError: The argument is no location of an inventory, or the table is not on S3.
        RefusedError: The inventory is of another bucket, or in a format that Lakesweep does not read.
        FormatError: The inventory is damaged.
    """
    if arguments.inventory is None:
        return None
    place = parse_location(table.ref.location)
    if place.scheme == "file":
        raise UsageError(
            f"table {table.ref}: an inventory lists a bucket; expected a table there", code="bad_inventory"
        )
    root, key = place_of_inventory(arguments.inventory)
    return read_inventory(table.open_store(root), key, place.bucket)


def prefix_in(inventory: Inventory, table: Table) -> str:
    """Return the prefix of the table's keys in its bucket."""
    prefix = inventory.prefix(table.ref.location)
    if prefix is None:
        raise RefusedError(
            f"table {table.ref}: expected an inventory of its bucket, found {inventory.location} of {inventory.bucket}",
            code="inventory_of_another_bucket",
        )
    return prefix


def retained(found: Capture) -> list[Root]:
    """Return the captured roots that still exist."""
    return [found.roots[ref.path] for ref in found.listing.roots() if ref.path in found.roots]


def stores_of(table: Table, found: Capture) -> TableStores:
    """Return the stores that resolve paths outside the table."""
    store = table.store
    rules = FenceRules(declared_roots(store.location, read_all_schemas(store, found.listing)))
    return TableStores(store, rules, table.open_store)


def _clock_warnings(table: Table) -> tuple[str, ...]:
    if not getattr(table.store, "clock_is_doubtful", False):
        return ()
    return (
        f"table {table.ref}: ages are by this machine's clock, since nothing could be written there to learn the time "
        "of its file system; compare both clocks before you execute this plan",
    )


def _warnings(found: Capture, totals: Totals) -> tuple[str, ...]:
    damaged = [f"{path}: {problem}" for path, problem in sorted(found.live.damaged.items())]
    what = "roots are incomplete, so only temporary files may be deleted; the first is"
    warnings = [f"{len(damaged)} {what} {damaged[0]}"] if damaged else []
    for why, what in (("foreign", "unknown names"), ("nested_table", "another table below this one")):
        if totals.kept[why]:
            warnings.append(f"{totals.kept[why]} objects are kept: {what}, such as {totals.shown[why][0]}")
    return tuple(warnings)


def _findings(found: Capture, totals: Totals) -> Mapping[str, object]:
    return {
        "listed": {"objects": totals.objects, "bytes": totals.bytes},
        "roots": len(found.live.captured),
        "manifests": len(found.live.manifests),
        "damaged_roots": dict(sorted(found.live.damaged.items())),
        "incomplete_roots": dict(sorted(found.live.incomplete.items())),
        "kept": shown(totals),
    }
