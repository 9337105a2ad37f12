"""What an operation knows about a table before it has chosen anything, and how that becomes a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep import __version__
from lakesweep.errors import FormatError, RefusedError, StalePlanError
from lakesweep.format.schema import TableSchema
from lakesweep.model.damage import is_damaged
from lakesweep.model.identity import table_identity
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.paths.permitted import check_actions, check_plan
from lakesweep.model.plan import (
    MOVE_FORMAT_VERSION,
    PLAN_FORMAT_VERSION,
    Action,
    Plan,
    PlanHeader,
    PlanPart,
    content_hash,
    joined_hash,
    moves_roots,
)
from lakesweep.model.roots import BranchListing, Freed, Root, RootRef, TableListing
from lakesweep.model.safety import PLAN_LIFETIME_MS
from lakesweep.model.steering import Steering
from lakesweep.runs.allowance import fence_rules
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.metadata_cache import listed, remembering
from lakesweep.runs.session import Table
from lakesweep.table.documents import Documents, read_all_schemas, read_roots, read_schema
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

_NONE = Steering()


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What every plan of an operation records about itself, as JSON values."""

    arguments: Mapping[str, object]
    """What the caller asked for."""
    policy: Mapping[str, object]
    """The rules in force."""
    snapshots: Mapping[str, object]
    """`earliest`, `latest` and `expired`; and `due_later`, if it is not 0."""


def inputs_of(
    own: BranchListing,
    arguments: Mapping[str, object],
    policy: Mapping[str, object] | None = None,
    expired: Iterable[int] = (),
    due_later: int = 0,
) -> PlanInputs:
    """Return what a plan records about itself.

    Args:
        own: The branch of the plan.
        arguments: What the caller asked for.
        policy: The rules in force.
        expired: The ids of the snapshots or changelogs to delete, ascending.
        due_later: The number of those that are due as well, beyond the limit of one run.
    """
    snapshots = own.snapshots
    return PlanInputs(
        arguments=arguments,
        policy=policy or {},
        snapshots={
            "earliest": snapshots[0].id if snapshots else None,
            "latest": snapshots[-1].id if snapshots else None,
            "expired": list(expired),
            **({"due_later": due_later} if due_later else {}),
        },
    )


def source_alone(branch: str, source: Root | None) -> BranchListing:
    """Return the listing of a branch that contains only the given snapshot or tag, or nothing for `None`."""
    own = BranchListing(branch)
    if source is None:
        return own
    return replace(own, tags=(source.ref,)) if source.ref.kind == "tag" else replace(own, snapshots=(source.ref,))


@dataclass(frozen=True, slots=True)
class ChunkedPlan:
    """Actions that other processes checked and stored, part by part, before the plan has a header."""

    plan_id: str
    parts: tuple[PlanPart, ...]
    """In the order of their phases."""
    by_kind: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableView:
    """One branch of a table at one moment."""

    table: Table
    operation: str
    listing: TableListing
    own: BranchListing
    schema: TableSchema
    now_ms: int
    is_own_listing: bool = True
    """The listing was made for this view, right before `now_ms`."""
    identity: str = ""
    """Of the table, as a view of all its roots found it; see `model/identity.py`."""
    vanished: set[str] = field(default_factory=set, compare=False)
    """Paths of roots that were listed and then could not be read because they were gone. The plan does not know what
    they need. So if such a root comes back, even unchanged, the execution treats it as a new root."""

    def plan(
        self,
        actions: Sequence[Action],
        inputs: PlanInputs,
        *,
        end_id: int | None = None,
        kept: Mapping[str, int] | None = None,
        kept_bytes: Mapping[str, int] | None = None,
        warnings: Sequence[str] = (),
        needs_confirmation: bool = False,
        waits_for_consumers: bool = True,
        settled: bool = False,
        next_pass: Mapping[str, int] | None = None,
        findings: Mapping[str, object] | None = None,
        steering: Steering = _NONE,
        chunked: ChunkedPlan | None = None,
    ) -> Plan:
        """Return the plan of `actions`, or of the actions stored `apart`; without actions there is nothing to do.

        Raises:
            RefusedError: No plan may hold one of the actions, since no run could finish it.
        """
        findings = dict(findings or {})
        steering = replace(steering, is_damaged=is_damaged(findings))
        parts = chunked.parts if chunked else ()
        header = PlanHeader(
            plan_id=chunked.plan_id if chunked else new_id(self.now_ms),
            operation=self.operation,
            table=self.table.ref.location,
            branch=self.table.ref.branch,
            created_ms=self.now_ms,
            expires_ms=self.now_ms + PLAN_LIFETIME_MS,
            code_version=__version__,
            arguments=dict(inputs.arguments),
            policy=dict(inputs.policy),
            roots_seen=self._roots_seen(),
            end_id=end_id,
            snapshots=dict(inputs.snapshots),
            kept=dict(kept or {}),
            kept_bytes=dict(kept_bytes or {}),
            warnings=tuple(warnings),
            needs_confirmation=needs_confirmation,
            waits_for_consumers=waits_for_consumers,
            settled=settled and self.is_own_listing,
            next_pass=dict(next_pass or {}),
            findings=findings,
            identity=self.identity or table_identity(self.listing),
            steering=steering,
            content_hash=joined_hash((part.hash for part in parts), steering)
            if chunked
            else content_hash(actions, steering),
            action_count=sum(part.count for part in parts) if chunked else len(actions),
            parts=parts,
            by_kind=dict(sorted(chunked.by_kind.items())) if chunked else {},
            format_version=MOVE_FORMAT_VERSION if moves_roots(actions) else PLAN_FORMAT_VERSION,
        )
        check_plan(header)
        check_actions(header, actions)
        return Plan(header, tuple(actions))

    def seeing(self, own: BranchListing) -> "TableView":
        """Return a view that depends on this branch, or a part of it, alone: all other roots may change."""
        identity = self.identity or table_identity(self.listing)
        return replace(self, listing=TableListing({own.name: own}), own=own, identity=identity)

    def _roots_seen(self) -> dict[str, str]:
        etags = {**self.listing.etags(), **self._latest()}
        return {path: etag for path, etag in etags.items() if path not in self.vanished}

    def _latest(self) -> dict[str, str]:
        """Return path -> ETag of the branch's LATEST, so that a run can tell whether it was written since."""
        document = self.own.hints.get("snapshot/LATEST")
        return {} if document is None else {document.path: document.etag}

    def paths(self) -> TablePaths:
        """Return where the branch's files lie.

        Raises:
            RefusedError: A table option that determines the paths does not parse.
        """
        try:
            return TablePaths(self.schema)
        except FormatError as error:
            raise RefusedError(f"table {self.table.ref}: {error}", code="bad_option") from error

    def own_documents(self, refs: Sequence[RootRef]) -> tuple[Root, ...]:
        """Read documents of this branch; all of them must still exist.

        Raises:
            StalePlanError: A document vanished since it was listed.
        """
        documents = read_roots(self.table.store, refs)
        if documents.vanished:
            raise StalePlanError(
                f"table {self.table.store.location}: {documents.vanished[0].path} vanished while the plan was made"
            )
        return documents.roots

    def other_documents(self, known: Iterable[str]) -> Documents:
        """Read every root of every branch, except those with known paths."""
        known = frozenset(known)
        documents = read_roots(self.table.store, [ref for ref in self.listing.roots() if ref.path not in known])
        self.vanished.update(ref.path for ref in documents.vanished)
        return documents

    def stores(self, freed: Sequence[Freed]) -> TableStores:
        """Return the store of the table, and the stores of its external roots if any file is external."""
        store = self.table.store
        if not any(is_external(file.path) for file in freed):
            return TableStores(store)
        rules = fence_rules(self.table, read_all_schemas(store, self.listing))
        return TableStores(store, rules, self.table.open_store)


def begin(table: Table, operation: str, listing: TableListing | None = None) -> TableView:
    """List a table's roots and read the branch's schema.

    Args:
        table: One branch of a table.
        operation: The name of the operation.
        listing: The table as it was just listed, if it was.

    Raises:
        RefusedError: This is no table, the branch does not exist, or the table has no snapshots of its own.
        StorageError: A request failed.
    """
    is_own_listing = listing is None
    if listing is None:
        listing, now_ms, table = listed(table)
    else:
        now_ms, table = table.store.now_ms(), remembering(table, listing)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    schema = read_schema(table.store, own)
    return TableView(table, operation, listing, own, schema, now_ms, is_own_listing)
