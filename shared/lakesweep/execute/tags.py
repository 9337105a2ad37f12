"""Write tags without the lease.

A tag blocks no other work and deletes nothing, so the run that makes a tag need not be alone. It must be sure of one
thing: no expiry deletes the files of the tag's snapshot. Expiry deletes a snapshot's document first, then looks for
tags, and only then deletes the first file. The run that makes the tag writes the tag first, and then looks for the
document that the tag was copied from:

- The document still exists unchanged. So an expiry that is about to delete it has yet to look for tags, and finds the
  tag.
- The document is gone or different. So an expiry may have looked before the tag existed, and files may be gone. The run
  withdraws the tag. (If an expiry found the tag in between, it kept files in vain; they are orphans then.)

The same holds for a tag as the source, since a deletion of tags deletes documents first as well. If the snapshot is not
the newest, the run also reads the intent in the lease. It withdraws the tag if another run is about to delete the
snapshot, or died while doing so. The tag would be readable, but no run is bound to keep files for it.

Paimon's own expiry deletes files before documents, so Lakesweep cannot promise anything about a snapshot that Paimon
may be expiring. Paimon never expires the newest snapshot, and lists tags when it begins. So a tag is safe from Paimon
if its snapshot is still the newest after the tag was written.

Without the lease, others may work at the same time. So a run that stood still does not repeat a request: the document
may be somebody else's by then.

A run that dies between writing and looking leaves a tag whose source existed right before the tag was written.
"""

from collections.abc import Callable, Sequence

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import read_lease
from lakesweep.errors import (
    LeaseLostError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StalePlanError,
    StorageError,
)
from lakesweep.execute.attempt import Executed
from lakesweep.format.tag import parse_tag
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Plan, PlanHeader, Put, to_bytes
from lakesweep.model.roots import branch_dir
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.storage.clock import Stopwatch
from lakesweep.storage.guard import GuardedStore, TimeLimit
from lakesweep.storage.store import DeleteRequest, Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

PHASE = "tags"
TAG = "tag"
VANISHED = "snapshot_vanished"
GOING = "snapshot_is_going"
STOOD_STILL = "stood_still"
"""Code of a request that took longer than all its attempts may take, so it was not sent again."""
_WITHDRAWN = "the tag is withdrawn"


class WithdrawnError(RefusedError):
    """A tag was written and withdrawn again, so the run has changed nothing."""


def writes_tags(plan: Plan) -> bool:
    """Tell whether a plan writes tags and their success files, and does nothing else."""
    return bool(plan.actions) and all(isinstance(action, Put) and action.phase == PHASE for action in plan.actions)


def write_tags(
    store: Store, area: ControlArea, plan: Plan, *, just_planned: bool, check_time: Callable[[str], None]
) -> tuple[Executed, tuple[Put, ...]]:
    """Carry out a plan that writes tags.

    Args:
        store: Of the table, as it is now.
        area: Of the table.
        plan: A plan for which `writes_tags` is true.
        just_planned: The same call made the plan.
        check_time: Called before each tag; raises when the caller's time is over.

    Returns:
        How the plan ended, and the documents that exist because of it. The status is `done`, `partial` (some tags could
            not be written) or `nothing_to_do` (all names were taken, and that is allowed). Warnings name tags that
            existed already.

    Raises:
        RefusedError: No tag was written: `tag_exists`, `snapshot_is_going`, `snapshot_vanished`.
        StalePlanError: A tag that was to be replaced has changed.
        StorageError: A request failed. The message says whether a tag was written.
    """
    puts = [action for action in plan.actions if isinstance(action, Put)]
    return _Writing(store, area, plan.header, just_planned).run(puts, check_time)


def recheck_tags(store: Store, area: ControlArea, plan: Plan) -> None:
    """Recheck a stored plan that writes tags: its sources, and that no other document has its names. Change nothing.

    Raises:
        RefusedError: A source is gone or changed, a run is about to delete it, or a name is taken.
        StorageError: A request failed.
    """
    _Writing(store, area, plan.header, just_planned=False).recheck(
        [action for action in plan.actions if isinstance(action, Put) and action.kind == TAG]
    )


class _Writing:
    def __init__(self, store: Store, area: ControlArea, header: PlanHeader, just_planned: bool) -> None:
        self._store = store
        self._area = area
        self._header = header
        self._just_planned = just_planned
        self._warnings: list[str] = []

    def run(self, puts: Sequence[Put], check_time: Callable[[str], None]) -> tuple[Executed, tuple[Put, ...]]:
        refusal: MaintenanceError | None = None
        made: list[Put] = []
        for put in puts:
            if put.kind == TAG:
                try:
                    check_time(f"plan {self._header.plan_id} of table {self._header.table}")
                    if self._tag(put):
                        made.append(put)
                except MaintenanceError as error:
                    if not made and not isinstance(error, RefusedError):
                        raise
                    # If a later period's tag were made, the next pass would continue after it, and this tag would never
                    # be made.
                    refusal = error
                    break
        if refusal is not None and not made:
            raise refusal
        names = frozenset(map(_name_of, made))
        made += [put for put in puts if put.kind != TAG and _name_of(put) in names and self._success_file(put)]
        warnings = tuple(self._warnings)
        if refusal is not None:
            return Executed("partial", Outcome(), str(refusal), refusal.code, warnings), tuple(made)
        return Executed("done" if made else "nothing_to_do", Outcome(), warnings=warnings), tuple(made)

    def recheck(self, puts: Sequence[Put]) -> None:
        """See `recheck_tags`."""
        for put in puts:
            snapshot_id = parse_tag(_bytes(put), put.path).snapshot.id
            source, found = self._source(put, snapshot_id), self._former(put)
            is_same = found == _bytes(put)
            if put.etag is None and found is not None and not is_same:
                if self._may_exist:
                    continue
                raise self._taken(put)
            self._check(put, snapshot_id, source, after=False)
            if put.etag is not None and not is_same and self._etag(put.path) != put.etag:
                raise self._changed(put)

    @property
    def _soon(self) -> Store:
        """Return the table's store. It sends no attempt of the next request after `DELETE_MARGIN_MS`."""
        what = f"table {self._header.table}: a request of plan {self._header.plan_id} took longer than it may"
        return GuardedStore(self._store, TimeLimit(Stopwatch(), DELETE_MARGIN_MS, what, STOOD_STILL))

    def _tag(self, put: Put) -> bool:
        """Write one tag; tell whether it exists now because of this plan."""
        snapshot_id = parse_tag(_bytes(put), put.path).snapshot.id
        source = self._source(put, snapshot_id)
        former: bytes | None = None
        if put.etag is not None or not self._just_planned:
            # The tag to be replaced is a root until it is overwritten, so a failure must be found before. The condition
            # of the write makes sure that the tag is unchanged since planning. A stored plan may be old.
            former = self._former(put)
            if put.etag is not None or former is None:
                self._check(put, snapshot_id, source, after=False)
        try:
            etag = self._soon.put(put.path, _bytes(put), if_absent=put.if_absent, if_match=put.etag)
        except PreconditionFailedError as error:
            return self._found(put, snapshot_id, source, error)
        except (StorageError, LeaseLostError) as error:
            etag = self._etag_if_written(put, error)
        try:
            self._check(put, snapshot_id, source)
        except MaintenanceError as error:  # its files may be deleted
            how = self._withdraw(put, etag, None if put.etag is None else former)
            kind = WithdrawnError if how == _WITHDRAWN and isinstance(error, RefusedError) else type(error)
            raise kind(f"{error}; {how}", code=error.code) from error
        return True

    def _etag_if_written(self, put: Put, error: StorageError | LeaseLostError) -> str:
        """Return the ETag of a tag whose write failed, if the tag exists all the same; else raise the error."""
        try:
            there = self._store.read(put.path, max_bytes=MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            raise error from None
        except StorageError:
            raise type(error)(
                f"{error}; it is not known whether tag {_name_of(put)!r} exists now, so run this again", code=error.code
            ) from error
        if there.data != _bytes(put):
            raise error
        return there.etag

    def _found(self, put: Put, snapshot_id: int, source: tuple[str, str], error: PreconditionFailedError) -> bool:
        """Report the tag that already exists: the same tag, or a different one.

        As a rule, an earlier run of a stored plan has written the same tag; this run must not withdraw it. A write that
        was repeated because its answer was lost is not such a case: the store recognises its own write.
        """
        name = _name_of(put)
        try:
            there = self._store.read(put.path, max_bytes=MAX_DOCUMENT_BYTES).data
        except ObjectNotFoundError:
            there = None
        if there == _bytes(put) and not self._just_planned:
            self._check(put, snapshot_id, source)
            self._warnings.append(f"tag {name!r} was written before")
            return True
        if put.etag is not None:
            raise self._changed(put) from error
        if self._may_exist:
            self._warnings.append(f"tag {name!r} is there already, and stays as it is")
            return False
        raise self._taken(put) from error

    @property
    def _may_exist(self) -> bool:
        """Tell whether the plan accepts a different tag of the same name."""
        return self._header.operation != "create-tag" or bool(self._header.arguments.get("ignore_if_exists"))

    def _changed(self, put: Put) -> StalePlanError:
        return StalePlanError(
            f"table {self._header.table}: tag {_name_of(put)!r} has changed since the plan was made; expected it "
            "unchanged"
        )

    def _taken(self, put: Put) -> RefusedError:
        return RefusedError(
            f"table {self._header.table}: tag {_name_of(put)!r} is there already; expected another name",
            code="tag_exists",
        )

    def _source(self, put: Put, snapshot_id: int) -> tuple[str, str]:
        """Return path and ETag of the document that a tag copies; it lies in the same branch."""
        seen = self._header.roots_seen
        prefix = branch_dir(self._header.branch)
        path = f"{prefix}snapshot/snapshot-{snapshot_id}"
        tags = [path for path in seen if path.startswith(f"{prefix}tag/")]
        if path not in seen and len(tags) == 1:
            (path,) = tags
        if path in seen and put.path.startswith(f"{prefix}tag/"):
            return path, seen[path]
        raise RefusedError(
            f"plan {self._header.plan_id} writes {put.path} of snapshot {snapshot_id}, but the plan does not name that "
            "snapshot; expected a snapshot of the plan's branch among the plan's roots",
            code="forbidden_action",
        )

    def _check(self, put: Put, snapshot_id: int, source: tuple[str, str], *, after: bool = True) -> None:
        """Make sure that the source exists, and that no run is about to delete it.

        Args:
            put: The action that writes the tag.
            snapshot_id: Of the tag.
            source: Path and ETag of the document that the tag copies.
            after: The tag is already written.

        Raises:
            RefusedError: The source is gone or changed, or a run is about to delete it.
            StorageError: A request failed, so the answer is not known.
        """
        path, etag = source
        name = _name_of(put)
        was_newest = self._header.snapshots.get("latest") == snapshot_id and "/tag/" not in f"/{path}"
        found, is_newest = self._listed(path) if was_newest else (self._etag(path), False)
        if found != etag and path != put.path:
            what = "is gone" if found is None else "is another document than before"
            raise RefusedError(
                f"table {self._header.table}: {path} {what}; expected it unchanged while tag {name!r} was made of it",
                code=VANISHED,
            )
        if is_newest:
            return  # no expiry deletes the newest snapshot
        if was_newest and after and not self._header.policy.get("write_only"):
            self._warnings.append(cannot_promise(self._header.table, name, f"snapshot {snapshot_id}"))
        intent = read_lease(self._area).intent
        if intent is not None and touches(intent, self._header.branch, snapshot_id):
            run_id = intent.runs[-1] if intent.runs else "(unknown)"
            raise RefusedError(
                f"table {self._header.table}: plan {intent.plan_id}, begun by run {run_id}, deletes snapshot "
                f"{snapshot_id}; expected tag {name!r} to be made of a snapshot that is kept",
                code=GOING,
            )

    def _etag(self, path: str) -> str | None:
        try:
            return self._store.read(path, max_bytes=MAX_DOCUMENT_BYTES).etag
        except ObjectNotFoundError:
            return None

    def _listed(self, path: str) -> tuple[str | None, bool]:
        """Return the ETag of a snapshot's document, and whether it is still the newest snapshot."""
        branch = self._header.branch
        listing = sort_listing(self._store.location, self._store.list(f"{branch_dir(branch)}snapshot/"))
        snapshots = listing.branches[branch].snapshots if branch in listing.branches else ()
        etags = {ref.path: ref.etag for ref in snapshots}
        return etags.get(path), bool(snapshots) and snapshots[-1].path == path

    def _former(self, put: Put) -> bytes | None:
        try:
            return self._store.read(put.path, max_bytes=MAX_DOCUMENT_BYTES).data
        except ObjectNotFoundError:
            return None

    def _withdraw(self, put: Put, etag: str, former: bytes | None) -> str:
        """Withdraw a tag that this run has written, or restore the former content of a tag that it replaced.

        Return a sentence that says so, or that says why the tag still exists.
        """
        name = _name_of(put)
        try:
            if former is not None:
                self._soon.put(put.path, former, if_match=etag)
                # While the tag was overwritten, no other run knew of the files that only this tag needs.
                return (
                    f"tag {name!r} is what it was before; check that it is readable, since others that deleted "
                    "snapshots or tags meanwhile may have deleted files of it"
                )
            result = self._soon.delete([DeleteRequest(put.path, etag)])[0]
        except MaintenanceError as error:
            return _stands(name, str(error))
        if result.ok:
            return _WITHDRAWN
        if result.code == "precondition_failed":
            return f"somebody else has since written tag {name!r}, and it is kept"
        return _stands(name, result.code)

    def _success_file(self, put: Put) -> bool:
        """Write the success file of a tag; tell whether it was written. The tag is valid without it."""
        try:
            self._soon.put(put.path, _bytes(put), if_absent=put.if_absent, if_match=put.etag)
        except PreconditionFailedError:
            return False  # somebody else has just written it
        except (StorageError, LeaseLostError) as error:
            self._warnings.append(f"tag {_name_of(put)!r} was written, but {put.path} could not be written: {error}")
            return False
        return True


def cannot_promise(table: str, name: str, source: str) -> str:
    """Return the sentence that says that Paimon may be expiring the source of a tag."""
    return (
        f"table {table}: its writers expire snapshots themselves (it is not write-only) and delete files before "
        f"documents. If one of them is expiring {source} at this moment, files of tag {name!r} may be missing"
    )


def touches(intent: Intent, branch: str, snapshot_id: int) -> bool:
    """Tell whether a run is about to delete files of a branch's snapshot."""
    if intent.branch != branch:
        return False
    return (intent.end_id is not None and intent.end_id > snapshot_id) or snapshot_id in intent.snapshot_ids


def _stands(name: str, why: str) -> str:
    return f"tag {name!r} could not be withdrawn ({why}), so it exists and some of its files may be missing: delete it"


def _bytes(put: Put) -> bytes:
    return to_bytes(put.body)


def _name_of(put: Put) -> str:
    """Return the name of the tag that a document belongs to."""
    name = put.path.rpartition("/")[2]
    return name.removeprefix("tag-") if put.kind == TAG else name.removesuffix("_SUCCESS")
