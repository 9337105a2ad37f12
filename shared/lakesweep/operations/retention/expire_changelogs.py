"""`expire-changelogs`: delete long-lived changelogs past their retention, and the files that only they need."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakesweep.errors import RefusedError
from lakesweep.model.document_actions import delete_root
from lakesweep.model.plan import Action, Delete, Plan, Put
from lakesweep.model.policy import INT_MAX, ChangelogRetention
from lakesweep.model.roots import RootRef, branch_dir
from lakesweep.operations.retention.release import plan_release
from lakesweep.operations.retention.rules.changelog_range import changelog_bounds, select_changelogs
from lakesweep.runs.damage import lost_findings, warnings_of
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    changelog_retention,
    check_stated,
    has_decoupled_changelog,
    time_retained,
)
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import read_consumers
from lakesweep.table.reach.freed import find_freed_changelogs

OPERATION = "expire-changelogs"
STAYS = "changelog_retention"
"""Why changelogs are kept: neither the rules nor the call expire them."""


@dataclass(frozen=True, slots=True)
class ExpireChangelogsArguments:
    """The arguments of a call.

    As in Paimon, a manual call keeps everything that its arguments do not mention. It ignores the table's options. The
    pass after a commit follows the table's options instead (`by_options`).
    """

    limits: ExpireArguments = field(default_factory=ExpireArguments)
    delete_all: bool = False
    """Delete every changelog, provided that all are older than the oldest snapshot."""
    by_options: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return stated(**self.limits.to_json(), delete_all=self.delete_all)


def plan_expire_changelogs(table: Table, arguments: ExpireChangelogsArguments, view: TableView | None = None) -> Plan:
    """Plan the expiry of one branch's long-lived changelogs. A plan without actions means: nothing to do.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        view: The table as it was just listed, if it was.

    Raises:
        RefusedError: This is no table, the rules contradict each other, or a root cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.

    Source: Paimon `ExpireChangelogImpl`.
    """
    view = begin(table, OPERATION) if view is None else replace(view, operation=OPERATION)
    policy = _policy(view, arguments)
    snapshots, changelogs = view.own.snapshots, view.own.changelogs
    nothing = inputs_of(view.own, arguments.to_json(), policy.to_json())
    if not snapshots or not changelogs:
        lost = lost_findings(view)
        return view.plan((), nothing, warnings=warnings_of(lost), findings=lost)
    if arguments.delete_all:
        if changelogs[-1].id >= snapshots[0].id:
            raise RefusedError(
                f"table {table.ref}: changelog {changelogs[-1].id} is not older than the oldest snapshot "
                f"{snapshots[0].id}; expected all changelogs to be older before all are deleted",
                code="changelogs_not_separate",
            )
        return _plan(view, arguments, policy, changelogs, end=None)
    ids = [ref.id for ref in changelogs]
    consumer_next = min(read_consumers(table.store, view.own.consumers).values(), default=None)
    limits = changelog_bounds(ids, snapshots[-1].id, policy, consumer_next)
    asked = [ref for ref in changelogs if limits.age_from_id <= ref.id <= limits.hard_end_id]
    times = {}
    if policy.time_retained_ms is not None:
        times = {root.ref.id: root.snapshot.time_ms for root in view.own_documents(asked)}
    chosen = select_changelogs(ids, snapshots[-1].id, times, policy, consumer_next, view.now_ms)
    if chosen is None:
        return view.plan((), nothing)
    going = [ref for ref in changelogs if ref.id in frozenset(chosen.expired)]
    due_later = 0
    if len(going) < len(ids) and limits.hard_end_id == ids[0] + policy.limit:
        if policy.time_retained_ms is not None:  # the plan reads these documents anyway
            times = {root.ref.id: root.snapshot.time_ms for root in view.own_documents(changelogs)}
        unlimited = replace(policy, limit=INT_MAX)
        every = select_changelogs(ids, snapshots[-1].id, times, unlimited, consumer_next, view.now_ms)
        due_later = len(every.expired) - len(going) if every is not None else 0
    return _plan(view, arguments, policy, going, end=chosen.end_id, due_later=due_later)


def _policy(view: TableView, arguments: ExpireChangelogsArguments) -> ChangelogRetention:
    limits = arguments.limits
    options = {**view.schema.options, **limits.options}
    if limits.unattended:
        check_stated(options, limits)
    has_decoupled_changelog(options)  # refuses values that do not parse, even if this call does not need them
    if arguments.by_options:
        return changelog_retention(options)
    retention = ChangelogRetention(
        retain_min=1 if limits.retain_min is None else limits.retain_min,
        retain_max=INT_MAX if limits.retain_max is None else limits.retain_max,
        time_retained_ms=None
        if limits.older_than_ms is None
        else time_retained(limits.older_than_ms, view.now_ms, view.table.clock_ms()),
        limit=INT_MAX if limits.max_deletes is None else limits.max_deletes,
    )
    retention.check()
    return retention


def _plan(
    view: TableView,
    arguments: ExpireChangelogsArguments,
    policy: ChangelogRetention,
    going: Sequence[RootRef],
    end: int | None,
    due_later: int = 0,
) -> Plan:
    """Plan the deletion of `going`; `end` is the first changelog that the plan keeps, `None` if it keeps none."""
    expiring = view.own_documents(going)
    release = plan_release(
        view,
        expiring,
        view.other_documents(ref.path for ref in going),
        lambda reader, removed, _: find_freed_changelogs(reader, view.paths(), removed),
        {**view.schema.options, **arguments.limits.options},
        frees_changelogs=True,
        before="changelogs expire",
    )
    staying = len(view.own.changelogs) - len(going)
    documents = [
        delete_root("documents", root, f"changelog {root.ref.id} is past the retention of changelogs")
        for root in expiring
    ]
    return view.plan(
        (*documents, *_hints(view, end), *release.actions),
        inputs_of(view.own, arguments.to_json(), policy.to_json(), [ref.id for ref in going], due_later),
        end_id=end,
        kept={**({STAYS: staying} if staying else {}), **release.kept.count},
        kept_bytes=release.kept.size_bytes,
        warnings=release.warnings,
        findings=release.damage,
    )


def _hints(view: TableView, end: int | None) -> tuple[Action, ...]:
    folder = f"{branch_dir(view.own.name)}changelog/"
    if end is not None:
        return (Put("hints", "hint", f"{folder}EARLIEST", str(end), f"changelog {end} is the first that is kept"),)
    return tuple(
        Delete("hints", "hint", hint.path, hint.size_bytes, "no changelog is kept")
        for path, hint in sorted(view.own.hints.items())
        if path.startswith("changelog/")
    )
