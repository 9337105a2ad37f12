"""The tags that keep the files which come back.

The first one is made of the target, before its files are checked. So no expiry that begins later deletes one of them.
The second one is made of the new snapshot. If a file came back that had been deleted, both stay after the commit: see
`operations/branches/rules/lives.py`. They have no end, and no rule of Lakesweep deletes a tag of such a name.

A run that dies before its commit leaves the first tag. Its name says whose it is, and a later rollback of the branch
deletes it once that run cannot be at work any more. A run that dies after its commit leaves the first tag, too, and the
next rollback makes the second one. Until then Paimon's expiry may delete a file that came back and left again, although
the first tag, or another one from before, has it.

Source: Paimon `RollbackToAsLatestProcedure`, which makes the first tag alone.
"""

from collections.abc import Iterator

from lakesweep.errors import MaintenanceError, RefusedError, StalePlanError
from lakesweep.format.tag import parse_tag
from lakesweep.model.roots import BranchListing, Root
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.tags.create import CREATE, TagArguments, plan_create_tag
from lakesweep.operations.tags.delete import OPERATION as DELETE
from lakesweep.operations.tags.delete import plan_delete_tag
from lakesweep.operations.tags.rules.rollback import run_of, single_tags, tag_name
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.run import plan_and_execute, plan_and_write
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import tag_path
from lakesweep.runs.view import TableView
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots


def hold(table: Table, target: Root, run_id: str) -> tuple[str, tuple[str, ...]]:
    """Make a tag of a version, and return its name and warnings.

    Raises:
        RefusedError: The version is gone, or is about to expire.
        StorageError: A request failed. The message says whether the tag exists.
    """
    name = tag_name(target.snapshot.id, run_id)
    is_tag = target.ref.kind == "tag"
    source = Version(tag=target.ref.name) if is_tag else Version(snapshot_id=target.snapshot.id)
    # A run that comes again, as a message may, finds its own tag.
    arguments = TagArguments(name, source, ignore_if_exists=True)
    report = plan_and_write(table, CREATE, lambda own: plan_create_tag(own, arguments, looks_for_name=False))
    if report.refusal is not None:
        raise RefusedError(report.refusal.message, code=report.refusal.code)
    path = tag_path(table.ref.branch, name)
    held = parse_tag(table.store.read(path, MAX_DOCUMENT_BYTES).data, path).snapshot
    if (held.uuid, held.base_manifest_list) != (target.snapshot.uuid, target.snapshot.base_manifest_list):
        left = let_go(table, name)
        raise StalePlanError(
            f"table {table.ref}: {target.ref} is another version than before; run again{f'; {left}' if left else ''}"
        )
    return name, report.all_warnings()


def let_go(table: Table, name: str) -> str | None:
    """Delete a tag that is not needed, and return why it is still there, `None` if it is not."""
    left = f"tag {name} is left, and holds its files until it is deleted: lakesweep delete-tag TABLE {name}"
    if not table.may_delete:
        return left
    try:
        report = plan_and_execute(table, DELETE, lambda own: plan_delete_tag(own, (name,)))
    except MaintenanceError as error:
        return f"{left} ({error})"
    if report.refusal is not None:
        return f"{left} ({report.refusal.message})"
    return None


def make_it(name: str, snapshot_id: int) -> str:
    """Return in words what to do about a tag that does not exist and has to stay."""
    return (
        "make it, or Paimon's expiry may delete files that came back: lakesweep create-tag "
        f"TABLE {name} --snapshot {snapshot_id} --execute"
    )


def not_made(table: Table, own: BranchListing) -> Iterator[tuple[str, Root]]:
    """Yield the second tags that are needed and missing, as after the death of a run: the run, and what it committed.

    Raises:
        RefusedError: A snapshot or tag cannot be read.
        StorageError: A request failed.
    """
    single = single_tags(ref.name for ref in own.tags)
    if not single:
        return
    roots = read_roots(table.store, [*own.snapshots, *own.tags]).roots
    for run_id, tag in single.items():
        committed = [root for root in roots if run_of(root) == run_id and root.snapshot.id > tag.snapshot_id]
        if committed:
            last = max(committed, key=lambda root: (root.snapshot.id, root.ref.kind == "snapshot"))
            if _is_needed(own, roots, last.snapshot.id, str(tag)):
                yield run_id, last


def _is_needed(own: BranchListing, roots: tuple[Root, ...], snapshot_id: int, but: str) -> bool:
    """Tell whether something from before a snapshot is left, beside one tag."""
    return any(ref.id < snapshot_id for ref in (*own.snapshots, *own.changelogs)) or any(
        root.ref.kind == "tag" and root.snapshot.id < snapshot_id and root.ref.name != but for root in roots
    )


def make_up(table: Table, own: BranchListing) -> Iterator[str]:
    """Make the second tags that are missing; yield what was done.

    Raises:
        RefusedError: A snapshot or tag cannot be read.
        StorageError: A request failed.
    """
    for run_id, root in not_made(table, own):
        name, snapshot_id = tag_name(root.snapshot.id, run_id), root.snapshot.id
        try:
            _, warnings = hold(table, root, run_id)
        except (RefusedError, StalePlanError) as error:
            yield f"tag {name} could not be made ({error}); {make_it(name, snapshot_id)}"
        else:
            yield f"tag {name} is made: it was missing, although run {run_id} has committed snapshot {snapshot_id}"
            yield from warnings


def left_behind(view: TableView) -> Iterator[tuple[str, str | None]]:
    """Yield the single tags of runs that are over and that no version shows to have committed.

    Returns:
        The name of each, and `None` if its run has certainly committed nothing, else what to do.

    Raises:
        StorageError: A request failed.
    """
    single = single_tags(ref.name for ref in view.own.tags)
    made_ms = {ref.name: ref.modified_ms for ref in view.own.tags}  # a message may wait long for its run
    over = [tag for tag in single.values() if view.now_ms - max(tag.begun_ms, made_ms[str(tag)]) > ORPHAN_AGE_MS]
    if not over or not view.own.snapshots:
        return
    branches = view.listing.branches.values()
    try:
        roots = read_roots(view.table.store, [ref for each in branches for ref in (*each.snapshots, *each.tags)]).roots
    except RefusedError:  # nobody knows whose commits there are
        return
    runs = {run_of(root) for root in roots}
    oldest = next((root for root in roots if root.ref == view.own.snapshots[0]), None)
    if oldest is None:  # an expiry has just deleted it
        return
    for tag in over:
        if tag.run_id in runs:
            continue
        # The oldest snapshot is from before the run, and clocks of writers differ. So all its commits are still there.
        if oldest.snapshot.time_ms < tag.begun_ms - ORPHAN_AGE_MS:
            yield str(tag), None
        elif any(_is_before(root, oldest) and root.ref.name != str(tag) for root in roots):
            yield (
                str(tag),
                f"tag {tag} is the only one of its run, which may have committed a snapshot that has expired since; "
                "as long as older tags are to stay, it needs a second one of the oldest snapshot: lakesweep create-tag "
                f"TABLE {tag_name(oldest.ref.id, tag.run_id)} --snapshot {oldest.ref.id} --execute",
            )


def _is_before(root: Root, oldest: Root) -> bool:
    ref = root.ref
    return ref.kind == "tag" and ref.branch == oldest.ref.branch and root.snapshot.id < oldest.snapshot.id
