"""`check`: is a table healthy? This changes nothing.

It reads the documents and lists of every root, and looks for their manifests. It also looks for the data files that the
newest snapshot of each branch needs, or with `all_roots` those of every root. Both lists folders of the table.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.plans import plan_ids
from lakesweep.control.reports import PUT_OFF, plan_end
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, UsageError
from lakesweep.model.damage import lost_histories
from lakesweep.model.roots import BranchListing, Root, TableListing
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.operations.inspect.check.files import file_findings
from lakesweep.operations.inspect.check.retention import retention_findings
from lakesweep.operations.inspect.check.roots import readable_roots, schema_findings
from lakesweep.operations.inspect.health import Finding, TableHealth, command, expire_down_to, listed, restore
from lakesweep.operations.lifetimes.ruling import shown_ruling
from lakesweep.operations.repair.hints import WHY, Harm, Hint, wrong_hints
from lakesweep.runs.fleet import Ruling, may_delete, ruling_of
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint, read_schema


def check_table(table: Table, *, all_roots: bool = False) -> TableHealth:
    """Look for everything that can be wrong with a table.

    Args:
        table: All branches of it.
        all_roots: Look for the data files of every root, not only of the newest snapshots.

    Raises:
        RefusedError: This is not a table.
        StorageError: A request failed; nothing can be concluded.
    """
    listing = discover(table.store)
    main = listing.branches.get("main") or BranchListing("main")
    location, skipped = table.ref.location, list[str]()
    findings: list[Finding] = []
    try:
        if main.schemas or not any(listing.roots()):
            read_schema(table.store, main)
    except RefusedError as error:
        if error.code != "unreadable_schema":
            raise
        findings.append(Finding("roots", str(error), command("explain", location, executes=False)))
    findings += [*history_findings(table, listing), *_rootless(table.store, listing)]
    findings += [*schema_findings(table, listing), *file_findings(table, listing, all_roots=all_roots, skipped=skipped)]
    ruling: Ruling | None = None
    try:
        ruling = ruling_of(table)
        is_maintained = may_delete(ruling)
    except UsageError as error:
        is_maintained = False
        findings.append(Finding("policy", str(error), "mend the fleet policy document (docs/operations.md)"))
    policy = shown_ruling(ruling)
    if not is_maintained:
        why = "no pass runs with an invalid fleet policy" if policy is None else policy.excuse
        skipped.append(f"{why}, so no snapshot counts as overdue")
    for name, branch in listing.branches.items():
        if not branch.schemas:
            continue
        findings += [found for _, found in hint_findings(table.store, branch, location)]
        findings += hole_findings(branch, location)
        try:
            of_branch = replace(table, ref=replace(table.ref, branch=name))
            findings += retention_findings(of_branch, listing, ruling, is_maintained=is_maintained)
        except (RefusedError, FormatError) as error:
            findings.append(Finding("roots", str(error), command("explain", location, executes=False)))
    if table.area is None:
        skipped.append("no control location is known (--control), so plans and the lease were not looked at")
    else:
        findings += control_findings(table, table.area)
    return TableHealth(location, all_roots, tuple(dict.fromkeys(findings)), tuple(skipped), policy)


def history_findings(table: Table, listing: TableListing) -> Iterator[Finding]:
    """Find branches that have lost their snapshots. Reads their tags."""
    location = table.ref.location
    for name, why in lost_histories(listing).items():
        says, otherwise = f"branch {name} has lost its history: {why}", None
        tag = _newest_tag(table.store, listing.branches[name])
        if tag is not None:
            says += f"; a rollback to tag {tag.ref.name} loses every version after snapshot {tag.snapshot.id}"
            otherwise = command("rollback", location, "--tag", tag.ref.name, branch=name)
        folder = "snapshot/" if name == "main" else f"branch/branch-{name}/snapshot/"
        yield Finding("history", says, restore(folder, otherwise))


def _rootless(store: Store, listing: TableListing) -> Iterator[Finding]:
    """Find a table that has manifests but no root: it lost its roots, and no document is left that shows it."""
    if any(listing.roots()) or lost_histories(listing):
        return
    first = next(iter(store.list("manifest/")), None)
    # A first commit writes its manifests before its snapshot, so a second listing must confirm that no root exists.
    if first is None or any(discover(store).roots()):
        return
    yield Finding(
        "history",
        f"no snapshot, tag or changelog exists, but {first.key} does: the table has lost its history, or its first "
        "commit has not ended",
        restore("snapshot/"),
        (first.key,),
    )


def _newest_tag(store: Store, branch: BranchListing) -> Root | None:
    """Return the tag of the highest snapshot, among those that can be read."""
    return max(readable_roots(store, branch.tags), key=lambda root: root.snapshot.id, default=None)


def hint_findings(store: Store, branch: BranchListing, location: str) -> Iterator[tuple[Harm, Finding]]:
    """Find hints with a wrong value. With most of them, readers only need an additional listing."""
    hints = [Hint(path, read_hint(store, each.path), each.etag) for path, each in sorted(branch.hints.items())]
    ids = {
        "snapshot": [ref.id for ref in branch.snapshots],
        "changelog": [ref.id for ref in branch.changelogs],
    }
    for each in wrong_hints(hints, ids):
        path, value = branch.hints[each.hint.path].path, each.hint.value
        kind = each.hint.path.partition("/")[0]
        if each.is_ahead and _exists(store, named := f"{path.removesuffix('LATEST')}{kind}-{value}"):
            continue  # a commit came after the listing
        says = f"{path} says {'no id' if value is None else value}; expected {each.right}"
        mend = command("repair-hints", location, branch=branch.name, executes=not each.is_ahead)
        if each.is_ahead:
            # Paimon never leaves such a hint. It is the only trace of lost commits, and writing it again deletes it.
            says += f", the newest {kind}: either {kind} {value} is lost, or the hint is wrong"
            mend = restore(named, mend)
        if each.harm != "slow":
            says += f"; {WHY[each.harm]}"
        yield each.harm, Finding("hints", says, mend, (path,))


def _exists(store: Store, path: str) -> bool:
    try:
        store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return True


def hole_findings(branch: BranchListing, location: str) -> Iterator[Finding]:
    """Find holes in the ids of the snapshots of a branch."""
    ids = [ref.id for ref in branch.snapshots]
    holes = [before for before, after in pairwise(ids) if after != before + 1]
    if holes:
        below = [ref for ref in branch.snapshots if ref.id <= holes[-1]]
        yield Finding(
            "ids",
            f"branch {branch.name}: the ids of its snapshots have a hole after {listed(holes)}; readers that start "
            "below it fail; an unfinished expiry leaves such a hole",
            expire_down_to(location, len(ids) - len(below), branch.name),
            tuple(ref.path for ref in below[:10]),
        )


NEWEST = 20
"""`check` looks at this many plans, the newest."""


def control_findings(table: Table, area: ControlArea) -> Iterator[Finding]:
    """Find plans that a run began and no run finished, and a lease that its run did not give back.

    Raises:
        StorageError: A request failed.
    """
    location, now_ms = table.ref.location, table.store.now_ms()
    try:
        lease = read_lease(area)
    except FormatError as error:
        yield Finding("lease", str(error), command("runs", location, executes=False))
        return
    yield from lease_findings(location, lease, now_ms)
    intent = lease.intent
    for plan_id in islice(sorted(plan_ids(area), reverse=True), NEWEST):
        if intent is not None and intent.plan_id == plan_id:
            continue
        try:
            end = plan_end(area, plan_id)
        except FormatError as error:
            yield Finding("plans", str(error), command("plans", location, executes=False))
            continue
        if end is not None and end.status in ("partial", PUT_OFF):
            yield Finding(
                "plans",
                f"plan {plan_id} is not completely executed: run {end.run_id} ended {end.status.replace('_', ' ')}",
                command("execute", location, plan_id, executes=False),
            )


def lease_findings(location: str, lease: LeaseDocument, now_ms: int) -> Iterator[Finding]:
    """Find a plan that a dead run has begun, and a lease that a run did not give back."""
    if now_ms < lease.expires_ms + DELETE_MARGIN_MS:
        return
    if lease.intent is not None:
        intent = lease.intent
        run_id = intent.runs[-1] if intent.runs else lease.run_id
        yield Finding(
            "plans",
            f"run {run_id} began plan {intent.plan_id} and did not finish it; no other plan begins before",
            command("execute", location, intent.plan_id, executes=False),
        )
    elif lease.expires_ms:
        yield Finding(
            "lease",
            f"run {lease.run_id} did not give back the lease, which expired {say_time(lease.expires_ms)}; the next run "
            "takes it",
            command("maintain", location),
        )
