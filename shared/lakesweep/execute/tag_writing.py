"""Write tags, without the lease.

A tag holds nothing back and takes nothing away, so its maker need not be alone. It has to be sure of one thing only:
that no expiry takes the files of the snapshot which the tag is of. Expiry removes a snapshot's document first, then
looks for tags, and only then takes the first file. Its maker writes the tag first, and then looks for the document that
the tag was copied from:

- It is still there, as it was. So an expiry that is about to remove it has its look still to come, and finds the tag.
- It is gone, or another one. So a look may have been before the tag was there, and files may be gone: the tag is
  withdrawn. (A look that found it in between has kept files for nothing, which are orphans then.)

With a tag as the source it is the same, since deletion of tags takes documents first as well. For what is not the
newest snapshot the intent in the lease is read, too, and a tag of what a run is about to take, or died over, is
withdrawn although it would read: nobody has to keep files for it.

The engine's own expiry takes files before documents, so of what that may be taking nothing can be promised. It never
takes the newest snapshot, and lists tags when it begins. So a tag of the snapshot that is the newest after the tag was
written is safe from it, too.

Nothing keeps others away meanwhile, so no request is sent again by a maker that stood still: what it was to write or
withdraw may be somebody else's by then.

A maker that dies between writing and looking leaves a tag whose source was there right before it was written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import DELETE_MARGIN_MS, read_lease
from lakesweep.errors import (
    LeaseLostError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StalePlanError,
    StorageError,
)
from lakesweep.execute.spine import Executed
from lakesweep.format.tag import parse_tag
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Plan, PlanHeader, Put, to_bytes
from lakesweep.model.table_ref import branch_dir
from lakesweep.storage.elapsed import Stopwatch
from lakesweep.storage.guard import GuardedStore, TimeLimit
from lakesweep.storage.store import DeleteRequest, Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

PHASE = "tags"
TAG = "tag"
VANISHED = "snapshot_vanished"
GOING = "snapshot_is_going"
STOOD_STILL = "stood_still"
"""Code of a request that took longer than all its attempts can, so that it was not sent again."""


def writes_tags(plan: Plan) -> bool:
    """Tell whether a plan writes tags, with what belongs to them, and does nothing else."""
    return bool(plan.actions) and all(isinstance(action, Put) and action.phase == PHASE for action in plan.actions)


@dataclass(frozen=True, slots=True)
class _Written:
    """A tag that this run has written."""

    put: Put
    etag: str
    former: bytes | None
    """What was there before, of a tag that was replaced."""


def write_tags(
    store: Store, area: ControlArea, plan: Plan, *, just_planned: bool, check_time: Callable[[str], None]
) -> tuple[Executed, tuple[Put, ...]]:
    """Carry out a plan that writes tags.

    Args:
        store: Of the table, as it is now.
        area: Of the table.
        plan: For which `writes_tags`.
        just_planned: The same call made it.
        check_time: Called before each tag; raises when the caller's time is over.

    Returns:
        How it ended, and what stands by it now: `done`; `partial`, where some tags were written and some could not be;
        or `nothing_to_do`, where all names were taken, and may be. Warnings name what was there already.

    Raises:
        RefusedError: No tag was written: `tag_exists`, `snapshot_is_going`, `snapshot_vanished`.
        StalePlanError: A tag that was to be replaced is another one by now.
        StorageError: A request failed. Whether a tag was written, its sentence says.
    """
    puts = [action for action in plan.actions if isinstance(action, Put)]
    return _Writing(store, area, plan.header, just_planned).run(puts, check_time)


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
                    # A later period's tag would be where the next pass goes on, and this one would never be made.
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

    @property
    def _soon(self) -> Store:
        """Return the table's store, which sends no attempt of the next request that is later than any should be."""
        what = f"table {self._header.table}: a request of plan {self._header.plan_id} took longer than it may"
        return GuardedStore(self._store, TimeLimit(Stopwatch(), DELETE_MARGIN_MS, what, STOOD_STILL))

    def _tag(self, put: Put) -> bool:
        """Write one tag; tell whether it stands now by this run."""
        snapshot_id = parse_tag(_bytes(put), put.path).snapshot.id
        source = self._source(put, snapshot_id)
        former: bytes | None = None
        if put.etag is not None:
            # What stands there is a root until it is written over: better to find out before that nothing will come
            # of it. That the tag is the one that was meant, the condition of the write says.
            former = self._former(put)
            self._check(put, snapshot_id, source, after=False)
        try:
            etag = self._soon.put(put.path, _bytes(put), if_absent=put.if_absent, if_match=put.etag)
        except PreconditionFailedError as error:
            return self._found(put, snapshot_id, source, error)
        except (StorageError, LeaseLostError) as error:
            etag = self._etag_if_written(put, error)
        written = _Written(put, etag, former)
        try:
            self._check(put, snapshot_id, source)
        except MaintenanceError as error:  # its files go, or it cannot be said that they stay
            raise type(error)(f"{error}; {self._withdraw(written)}", code=error.code) from error
        return True

    def _etag_if_written(self, put: Put, error: StorageError | LeaseLostError) -> str:
        """Return the ETag of a tag whose write failed, where it is there all the same; else raise the error."""
        try:
            there = self._store.read(put.path, max_bytes=MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            raise error from None
        except StorageError:
            raise type(error)(
                f"{error}; whether tag {_name_of(put)!r} is there now is not known, so run this again", code=error.code
            ) from error
        if there.data != _bytes(put):
            raise error
        return there.etag

    def _found(self, put: Put, snapshot_id: int, source: tuple[str, str], error: PreconditionFailedError) -> bool:
        """Say what is there instead: the same, or another tag.

        The same is what an earlier run of a stored plan has written, as a rule; it is not this run's to withdraw. A
        write that was repeated because its answer was lost is no such case: the store knows its own.
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
            raise StalePlanError(
                f"table {self._header.table}: tag {name!r} is another one than when the plan was made; expected it "
                "unchanged"
            ) from error
        if self._header.operation != "create_tag" or self._header.arguments.get("ignore_if_exists"):
            self._warnings.append(f"tag {name!r} is there already, and stays as it is")
            return False
        raise RefusedError(
            f"table {self._header.table}: tag {name!r} is there already; expected another name", code="tag_exists"
        ) from error

    def _source(self, put: Put, snapshot_id: int) -> tuple[str, str]:
        """Return path and ETag of what a tag is a copy of, which is of the same branch."""
        seen = self._header.roots_seen
        prefix = branch_dir(self._header.branch)
        path = f"{prefix}snapshot/snapshot-{snapshot_id}"
        tags = [path for path in seen if path.startswith(f"{prefix}tag/")]
        if path not in seen and len(tags) == 1:
            (path,) = tags
        if path in seen and put.path.startswith(f"{prefix}tag/"):
            return path, seen[path]
        raise RefusedError(
            f"plan {self._header.plan_id} writes {put.path} of snapshot {snapshot_id}, which it has not seen; expected "
            "the snapshot of the plan's branch among the roots that it has",
            code="forbidden_action",
        )

    def _check(self, put: Put, snapshot_id: int, source: tuple[str, str], *, after: bool = True) -> None:
        """Make sure that the source is there, and that nobody is about to take it.

        Args:
            put: What writes the tag.
            snapshot_id: Of the tag.
            source: Path and ETag of what it is a copy of.
            after: It is written.

        Raises:
            RefusedError: Either is not so.
            StorageError: It cannot be said.
        """
        path, etag = source
        name = _name_of(put)
        was_newest = self._header.snapshots.get("latest") == snapshot_id and "/tag/" not in f"/{path}"
        found, is_newest = self._listed(path) if was_newest else (self._etag(path), False)
        if found != etag and path != put.path:
            what = "is gone" if found is None else "is another document than before"
            raise RefusedError(
                f"table {self._header.table}: {path} {what}; expected it to stay while tag {name!r} was made of it",
                code=VANISHED,
            )
        if is_newest:
            return  # nobody takes that
        if was_newest and after and not self._header.policy.get("write_only"):
            self._warnings.append(cannot_promise(self._header.table, name, f"snapshot {snapshot_id}"))
        intent = read_lease(self._area).intent
        if intent is not None and touches(intent, self._header.branch, snapshot_id):
            run_id = intent.runs[-1] if intent.runs else "(unknown)"
            raise RefusedError(
                f"table {self._header.table}: plan {intent.plan_id}, which run {run_id} began, takes snapshot "
                f"{snapshot_id}; expected one that stays for tag {name!r}",
                code=GOING,
            )

    def _etag(self, path: str) -> str | None:
        try:
            return self._store.read(path, max_bytes=MAX_DOCUMENT_BYTES).etag
        except ObjectNotFoundError:
            return None

    def _listed(self, path: str) -> tuple[str | None, bool]:
        """Return the ETag of a snapshot's document, and whether it is the newest one still."""
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

    def _withdraw(self, written: _Written) -> str:
        """Take the tag back, and say so, or say why it stands."""
        path = written.put.path
        name = _name_of(written.put)
        try:
            if written.former is not None:
                self._soon.put(path, written.former, if_match=written.etag)
                # While it was written over nobody counted what it alone holds.
                return (
                    f"tag {name!r} is what it was before; make sure that it reads, since whoever removed snapshots or "
                    "tags meanwhile may have taken files of it"
                )
            result = self._soon.delete([DeleteRequest(path, written.etag)])[0]
        except MaintenanceError as error:
            return _stands(name, str(error))
        if result.ok:
            return "the tag is withdrawn"
        if result.code == "precondition_failed":
            return f"tag {name!r} was written by somebody else since, and stays"
        return _stands(name, result.code)

    def _success_file(self, put: Put) -> bool:
        """Write what says that a tag is there, and tell whether it was. Without it the tag is the same."""
        try:
            self._soon.put(put.path, _bytes(put), if_absent=put.if_absent, if_match=put.etag)
        except PreconditionFailedError:
            return False  # somebody else has just written it
        except (StorageError, LeaseLostError) as error:
            self._warnings.append(f"tag {_name_of(put)!r} is made, and {put.path} could not be written: {error}")
            return False
        return True


def cannot_promise(table: str, name: str, source: str) -> str:
    """Return the sentence that says that the engine may be taking what a tag is made of."""
    return (
        f"table {table}: its writers expire snapshots themselves (it is not write-only) and delete files before "
        f"documents, so it cannot be promised that tag {name!r} of {source} reads completely if one of them is "
        "removing that at this moment"
    )


def touches(intent: Intent, branch: str, snapshot_id: int) -> bool:
    """Tell whether what a run is about to remove holds files of a branch's snapshot."""
    if intent.branch != branch:
        return False
    return (intent.end_id is not None and intent.end_id > snapshot_id) or snapshot_id in intent.snapshot_ids


def _stands(name: str, why: str) -> str:
    return f"tag {name!r} could not be withdrawn ({why}), so it stands and may not read completely: delete it"


def _bytes(put: Put) -> bytes:
    return to_bytes(put.body)


def _name_of(put: Put) -> str:
    """Return the name of the tag that a document belongs to."""
    name = put.path.rpartition("/")[2]
    return name.removeprefix("tag-") if put.kind == TAG else name.removesuffix("_SUCCESS")
