"""Take a run back that moved a branch: a rollback, a fast-forward, a new branch or one that was deleted.

The plan of such a run has the content of every document that it took or wrote over, so no bucket has to keep versions.
What takes it back is a plan of the same kind (`plan/inversion.py`), stored and carried out like it: under the lease,
with looks in between, and finished by the next run where one dies.

It is refused unless the branch is as the run left it, but for what time does: old snapshots may have expired, and tags
may have come. Somebody's commit would lose what it stands on. And it is refused where a file of what comes back is not
there any more: the orphan scan takes such files when they are old enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.execute.batches import id_of
from lakesweep.execute.ground import moved_branch
from lakesweep.execute.schema_needs import schema_id
from lakesweep.execute.standing import LOOSE_KINDS
from lakesweep.format.changelog import parse_changelog
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Action, Delete, Plan, Put, to_bytes, to_text
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing, Root, RootKind, RootRef, TableListing
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.branch_names import EXISTS, list_branch
from lakesweep.operations.branch_use import check_unused
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft, Frame, begin
from lakesweep.operations.run import plan_and_execute, plan_only
from lakesweep.operations.target_files import describe_lost
from lakesweep.plan.inversion import Current, inverse
from lakesweep.storage.reads import read_many
from lakesweep.table.completeness import lost_files
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_schema
from lakesweep.table.outside_files import OutsideFiles

OPERATION = "undo"
_ROOT_KINDS: Mapping[str, RootKind] = {"snapshot": "snapshot", "changelog_document": "changelog", "tag": "tag"}
_COUNTED = 10_000
"""So many missing files are counted."""


def undo_move(table: Table, undone: Plan, run_id: str, *, execute: bool) -> RunReport:
    """Take a plan that moved a branch back, or say what that would change.

    Args:
        table: The branch that the plan was made for.
        undone: The plan, which was carried out to its end.
        run_id: Of the run that did it.
        execute: Do it.
    """
    run = plan_and_execute if execute else plan_only
    return run(table, OPERATION, lambda target: plan_undo_move(target, undone, run_id))


def plan_undo_move(table: Table, undone: Plan, run_id: str) -> Plan:
    """Plan the way back; without actions all is as it was before the run.

    Raises:
        RefusedError: The branch is not as the run left it, or something would come back without a file that it needs.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    return _Undoing(begin(table, OPERATION), table, undone, run_id).plan()


@dataclass(frozen=True, slots=True)
class _Place:
    """What the undone plan did at one path."""

    kind: str
    before: str | None
    after: str | None


class _Undoing:
    def __init__(self, draft: Draft, table: Table, undone: Plan, run_id: str) -> None:
        self._draft = draft
        self._table = table
        self._undone = undone
        self._run_id = run_id
        self._name = moved_branch(undone.actions)
        self._own = draft.listing.branches.get(self._name) or BranchListing(self._name)
        self._places = _places(undone.actions)
        kinds = {place.kind for place in self._places.values()}
        self._deciding = kinds - LOOSE_KINDS or kinds - {"hint"}
        """Kinds of documents that tell whether there is anything to take back."""

    def plan(self) -> Plan:
        own = self._own.snapshots
        frame = Frame(
            arguments={"run_id": self._run_id},
            policy={},
            snapshots={"earliest": own[0].id if own else None, "latest": own[-1].id if own else None, "expired": []},
        )
        current = _read(self._table, self._places)
        actions = tuple(self._to_take_back(current))
        if not any(action.kind in self._deciding for action in actions):
            return self._draft.plan((), frame)
        self._check_ground()
        way_back = inverse(actions, current, f"run {self._run_id} is undone")
        coming = self._check_complete(way_back)
        draft = self._draft
        if self._name != draft.own.name:  # all other branches may come and go
            draft = replace(draft, listing=TableListing({self._name: self._own}), own=self._own)
        header = self._undone.header
        return draft.plan(
            way_back,
            frame,
            warnings=tuple(self._warnings(way_back)),
            findings={
                "undone": {"run_id": self._run_id, "plan_id": header.plan_id, "operation": header.operation},
                "whole": _whole(coming),
            },
        )

    def _to_take_back(self, current: Mapping[str, Current]) -> Iterator[Action]:
        """Yield the actions that are still in force.

        Raises:
            RefusedError: A document is neither as the run left it nor as it was before.
        """
        back = set()
        for path, place in self._places.items():
            now = current[path].body if path in current else None
            if place.kind in LOOSE_KINDS:
                if place.kind != "hint" and now is not None and place.after is None:
                    back.add(path)  # somebody has written another one
            elif now == place.before:
                back.add(path)
            elif now != place.after:
                raise self._changed(path, place, is_there=now is not None)
        for action in self._undone.actions:
            if action.path not in back:
                yield action

    def _changed(self, path: str, place: _Place, *, is_there: bool) -> RefusedError:
        if not is_there:
            return self._refusal("later_run", f"{path}, which it wrote, is gone now; expected it")
        if place.kind == "tag":
            return self._refusal("tag_exists", f"{path} is another tag now; expected {_was(place)}")
        became = "was written since" if place.after is None else "is another document now"
        return self._refusal("id_reused", f"{path} {became}; expected {_was(place)}")

    def _check_ground(self) -> None:
        """Make sure that nothing stands on what the run made, and that what it left is there."""
        if self._name != self._draft.own.name:
            self._check_folder()
            return
        seen = self._undone.header.roots_seen
        folder = f"{branch_dir(self._name)}snapshot/snapshot-"
        kept = [path for path in seen if path.startswith(folder) and path not in self._places]
        last = max(kept, key=id_of, default=None)
        for ref in self._own.snapshots:
            if ref.path not in self._places and (last is None or ref.id > id_of(last)):
                raise self._refusal("committed_since", f"{ref.path} was committed since; expected no commit")
        if last is None:
            return
        found = next((ref for ref in self._own.snapshots if ref.path == last), None)
        if found is None:
            code = "rolled_back" if all(ref.id < id_of(last) for ref in self._own.snapshots) else "later_run"
            raise self._refusal(code, f"{last}, the newest that it left, is gone now; expected it")
        written = [id_of(path) for path, place in self._places.items() if place.kind == "snapshot" and place.after]
        if max(written, default=-1) < found.id and not self._is_same(found):
            raise self._refusal("id_reused", f"{last}, the newest that it left, is another document now; expected it")

    def _is_same(self, ref: RootRef) -> bool:
        """Tell whether a snapshot is the one that the plan saw; its ETag changes where it went and was put back."""
        if self._undone.header.roots_seen[ref.path] == ref.etag:
            return True
        target = self._undone.header.findings.get("target")
        (root,) = self._draft.own_documents([ref])
        return isinstance(target, Mapping) and (target.get("snapshot"), target.get("time_ms")) == (
            ref.id,
            root.snapshot.time_ms,
        )

    @property
    def _is_new(self) -> bool:
        """Tell whether the run made the branch."""
        is_other = self._name != self._draft.own.name
        return is_other and all(place.before is None for place in self._places.values())

    def _check_folder(self) -> None:
        """Make sure that nothing is in a branch's folder but what the run made there."""
        found = list_branch(self._table, self._name)
        strange = [entry.key for entry in found.objects if entry.key not in self._places and entry.key[-1] != "/"]
        if strange or found.others:
            strange.sort(key=lambda path: "/snapshot-" not in path)  # a commit says more than its hint
            what = (strange or [branch_dir(name) for name in found.others])[0]
            raise self._refusal(
                "committed_since" if self._is_new else EXISTS,
                f"{what} was written since; expected nothing in the branch that the run did not write",
            )
        if self._is_new:
            check_unused(self._table, self._draft.listing, self._name)

    def _check_complete(self, way_back: Sequence[Action]) -> tuple[Root, ...]:
        """Return the roots that come back, all of which have what they need.

        Raises:
            RefusedError: One does not: `would_stay_absent`.
        """
        coming = tuple(self._coming(way_back))
        schemas, latest = self._schemas(way_back)
        folder = f"{branch_dir(self._name)}schema/schema-"
        wanted = {root.snapshot.schema_id for root in coming}
        lost = [f"{folder}{number}" for number in sorted(wanted - schemas)]
        if latest is not None and not lost:
            outside = OutsideFiles(self._table.store, self._table.open_store)
            lost += lost_files(self._table.store, latest, coming, _COUNTED, outside)
        if lost:
            raise self._refusal(
                "would_stay_absent", f"what comes back has lost {describe_lost(lost)}; expected all that it needs"
            )
        return coming

    def _coming(self, way_back: Sequence[Action]) -> Iterator[Root]:
        for action in way_back:
            if not isinstance(action, Put) or action.kind not in _ROOT_KINDS:
                continue
            kind, body = _ROOT_KINDS[action.kind], to_bytes(action.body)
            parse = parse_changelog if kind == "changelog" else parse_snapshot
            try:
                snapshot = parse_tag(body, action.path).snapshot if kind == "tag" else parse(body, action.path)
            except FormatError as error:
                raise self._refusal("would_stay_absent", f"{error}; expected what comes back to be whole") from error
            name = action.path.removeprefix(f"{branch_dir(self._name)}{kind}/{kind}-")
            yield Root(RootRef(self._name, kind, name, action.path, "", len(body)), snapshot, body)

    def _schemas(self, way_back: Sequence[Action]) -> tuple[frozenset[int], TableSchema | None]:
        """Return the schemas that the branch will have, and the latest of them; `None`: there will be none."""
        there = {schema_id(document.path) for document in self._own.schemas}
        bodies: dict[int, Put] = {}
        for action in way_back:
            if action.kind == "schema" and isinstance(action, Put):
                bodies[schema_id(action.path)] = action
            elif action.kind == "schema":
                there.discard(schema_id(action.path))
        there |= bodies.keys()
        if not there:
            return frozenset(), None
        put = bodies.get(max(there))
        if put is not None:
            try:
                return frozenset(there), parse_schema(to_bytes(put.body), put.path)
            except FormatError as error:
                raise self._refusal("would_stay_absent", f"{error}; expected what comes back to be whole") from error
        kept = tuple(each for each in self._own.schemas if schema_id(each.path) in there)
        return frozenset(there), read_schema(self._table.store, replace(self._own, schemas=kept))

    def _warnings(self, way_back: Sequence[Action]) -> Iterator[str]:
        if self._is_new:
            yield (
                f"stop what writes to branch {self._name} before it goes; a writer that commits later leaves a "
                "snapshot of a branch without schemas"
            )
        elif self._name == self._draft.own.name and any(action.kind == "snapshot" for action in way_back):
            yield (
                f"writers and streaming readers of branch {self._name} must be stopped before and started again after: "
                "its newest snapshot is another one then"
            )
        seen = self._undone.header.roots_seen
        late = [ref for ref in self._own.tags if ref.path not in seen and ref.path not in self._places]
        if late and any(isinstance(action, Delete) and action.kind == "snapshot" for action in way_back):
            yield f"tags that were made since stay, and keep their files: {', '.join(ref.name for ref in late)}"

    def _refusal(self, code: str, what: str) -> RefusedError:
        return RefusedError(
            f"table {self._table.ref.location}, branch {self._name}: run {self._run_id} cannot be undone: {what}",
            code=code,
        )


def _places(actions: Sequence[Action]) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for action in actions:
        after = None if isinstance(action, Delete) else action.body
        if action.path in found:
            found[action.path] = replace(found[action.path], after=after)
        else:
            found[action.path] = _Place(
                action.kind, action.body if isinstance(action, Delete) else action.former, after
            )
    return found


def _whole(coming: Sequence[Root]) -> list[str]:
    """Return the roots that must be whole at the end. Older snapshots may expire meanwhile."""
    snapshots = [root for root in coming if root.ref.kind == "snapshot"]
    newest = sorted(snapshots, key=lambda root: root.ref.id)[-1:]
    return [root.ref.path for root in (*newest, *(root for root in coming if root.ref.kind == "tag"))]


def _was(place: _Place) -> str:
    return "none there" if place.after is None else "the one that it wrote"


def _read(table: Table, paths: Mapping[str, _Place]) -> dict[str, Current]:
    found: dict[str, Current] = {}
    for path, body in read_many(table.store, tuple(paths), max_bytes=MAX_DOCUMENT_BYTES):
        if isinstance(body, ObjectNotFoundError):
            continue
        if isinstance(body, StorageError):
            raise body
        found[path] = Current(to_text(body.data), body.etag)
    return found
