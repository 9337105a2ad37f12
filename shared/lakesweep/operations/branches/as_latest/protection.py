"""The tags that keep the files which come back.

The first one is made of the target, before its files are checked. So no expiry that begins later deletes one of them.
The second one is made of the new snapshot. If a file came back that had been deleted, both stay after the commit: see
`operations/branches/rules/lives.py`. They have no end, and no rule of Lakesweep deletes a tag of such a name.

A run that dies before its commit leaves the first tag. Its name says whose it is, and a later rollback of the branch
deletes it once that run cannot be at work any more.

Source: Paimon `RollbackToAsLatestProcedure`, which makes the first tag alone.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from lakesweep.errors import MaintenanceError, RefusedError, StalePlanError
from lakesweep.format.tag import parse_tag
from lakesweep.model.roots import BranchListing, Root
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.tags.create import CREATE, TagArguments, plan_create_tag
from lakesweep.operations.tags.delete import OPERATION as DELETE
from lakesweep.operations.tags.delete import plan_delete_tag
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.run import plan_and_execute, plan_and_write
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import tag_path
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots

_NAME = re.compile(rf"{ROLLBACK_PREFIX}[0-9]+-(?P<run>(?P<time>[0-9]{{8}}T[0-9]{{6}})Z-[0-9a-f]{{8}})")
"""Names that Lakesweep gives. Paimon's have another end, and are left alone."""


def tag_name(snapshot_id: int, run_id: str) -> str:
    """Return the name of the tag that a run makes of a snapshot."""
    return f"{ROLLBACK_PREFIX}{snapshot_id}-{run_id}"


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
    arguments = TagArguments(name, source, ignore_if_exists=True, is_permanent=True)
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


def left_behind(table: Table, own: BranchListing, now_ms: int) -> Iterator[str]:
    """Yield the tags of runs that are over and have committed nothing.

    Raises:
        RefusedError: A snapshot cannot be read.
        StorageError: A request failed.
    """
    for ref in own.tags:
        match = _NAME.fullmatch(ref.name)
        if match is None:
            continue
        begun_ms = int(datetime.strptime(match["time"], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()) * 1000
        if now_ms - begun_ms > ORPHAN_AGE_MS and _has_committed_nothing(table, own, match["run"], begun_ms):
            yield ref.name


def _has_committed_nothing(table: Table, own: BranchListing, run_id: str, begun_ms: int) -> bool:
    """Tell whether every snapshot since a run began is still there, and none is from that run."""
    for ref in reversed(own.snapshots):
        for root in read_roots(table.store, [ref]).roots:
            if root.snapshot.commit_user.startswith(f"lakesweep-{run_id}-"):
                return False
            if root.snapshot.time_ms < begun_ms - ORPHAN_AGE_MS:  # clocks of writers differ
                return True
    return False
