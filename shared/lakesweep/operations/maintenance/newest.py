"""Compare a branch's newest snapshots with what was seen of them, so that replaced snapshots are noticed.

Three kinds of knowledge cost no request: what the last pass saw, what events announced, and the last commit of
Lakesweep in the lease. Only where another snapshot has the id of one that was seen, documents are read
(`model/commits/replaced.py`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from lakesweep.control.commit_record import CommitRecord
from lakesweep.control.state import BranchState
from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError, UnsupportedFormatError
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.commits.lost import Looked, LostCommit, doubt
from lakesweep.model.commits.replaced import Around, FoundSnapshot, Verdict, judge, judge_gone
from lakesweep.model.commits.seen import MOST_SEEN, Announced, SeenSnapshot
from lakesweep.model.identity import number_of
from lakesweep.model.roots import RootRef, branch_dir
from lakesweep.model.safety import GRAIN_MS
from lakesweep.runs.view import TableView
from lakesweep.storage.wrappers.remembering import RememberingStore
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, prepared_ms

_MOST_JUDGED = 20
"""So many are remembered as told. Their events may come again for some days."""


@dataclass(frozen=True, slots=True)
class Look:
    """A listing of a table, and what is known beside the state of the last pass."""

    view: TableView
    """One branch, as it was just listed."""
    listed_ms: int
    """The time right after the listing, by the caller's own clock."""
    announced: tuple[Announced, ...] = ()
    """What events announced."""
    record: CommitRecord | None = None
    """The last commit of Lakesweep to this branch."""

    def compare(self, known: BranchState | None, elsewhere: Iterable[SeenSnapshot] = ()) -> Looked:
        """Compare what was seen with the listing.

        Args:
            known: The state of the last pass, `None` if there is none of this branch.
            elsewhere: What was seen of other branches.

        Raises:
            StorageError: A document could not be read. Then the next pass looks again.
        """
        return _Comparing(self, known or _nothing(), tuple(elsewhere)).run()


def _nothing() -> BranchState:
    return BranchState(0, 0, 0, 0, 0, 0, 0, 0)


class _Comparing:
    """One comparison."""

    def __init__(self, look: Look, known: BranchState, elsewhere: tuple[SeenSnapshot, ...]) -> None:
        self._look = look
        self._view = look.view
        self._known = known
        self._elsewhere = {each.key: each.modified_ms for each in elsewhere}
        self._listed = {ref.id: ref for ref in look.view.own.snapshots}
        # A pass that ran at the same time may have seen more than this listing shows.
        self._later = tuple(each for each in known.newest if each.seen_ms > look.listed_ms)
        self._seen = tuple(each for each in known.newest if each not in self._later)
        self._open: set[int] = set()
        """Ids of snapshots that could not be judged."""

    def run(self) -> Looked:
        """Compare, and read where it is needed."""
        judged, lost, warnings = list(self._known.judged), list[LostCommit](), list[str]()
        for seen in self._suspects():
            ref = self._listed[seen.id]
            key = seen.key if seen.number else (ref.id, number_of(ref.etag))
            if key in judged:
                continue
            found = self._found(ref)
            if found is None or found.snapshot is None:
                # It changed once more, or is damaged, and may be restored. The next look decides.
                self._open.add(seen.id)
                continue
            verdict = self._judge(seen, ref, found)
            if verdict == "same":
                continue
            judged.append(key)
            if verdict == "replaced":
                lost.append(LostCommit(ref.path, seen, _as_seen(ref, self._look.listed_ms).reading(found.snapshot)))
            elif verdict == "unclear":
                warnings.append(doubt(ref.path, seen))
        for seen, now in self._expired():
            if seen.key in judged:
                continue
            judged.append(seen.key)
            path = f"{branch_dir(self._view.own.name)}snapshot/snapshot-{seen.id}"
            verdict = judge_gone(seen, now, self._around(()))
            if verdict == "replaced":
                lost.append(LostCommit(path, seen, now))
            elif verdict == "unclear":
                warnings.append(doubt(path, seen))
        return Looked(
            newest=self._newest(),
            judged=tuple(judged[-_MOST_JUDGED:]),
            lost=tuple(lost),
            warnings=(*(each.sentence() for each in lost), *warnings),
            has_news=len(judged) > len(self._known.judged),
        )

    def _suspects(self) -> Iterator[SeenSnapshot]:
        """Yield what was seen where the listing shows another snapshot, each once."""
        record = self._look.record
        if record is not None and record.state != "published":
            record = None
        told = frozenset() if record is None else frozenset(record.replaced)
        ours = () if record is None or not record.number else (record.seen,)
        of_ours = {each.number for each in ours}
        found: dict[tuple[int, int], SeenSnapshot] = {}
        for seen in (*self._seen, *ours, *(each.seen for each in self._look.announced), *self._overwritten()):
            ref = self._listed.get(seen.id)
            if ref is not None and seen.number != number_of(ref.etag) and seen.number not in told:
                is_ours = seen.is_ours or seen.number in of_ours
                found.setdefault(seen.key, replace(seen, is_ours=is_ours))
        yield from found.values()

    def _expired(self) -> Iterator[tuple[SeenSnapshot, SeenSnapshot]]:
        """Yield pairs of snapshots with one id that has expired by now, the older one first."""
        first_id = min(self._listed, default=0)
        seen = {each.key: each for each in (*(each.seen for each in self._look.announced), *self._seen)}
        gone = sorted(
            (each for each in seen.values() if each.id < first_id), key=lambda each: (each.id, each.modified_ms)
        )
        yield from ((one, other) for one, other in pairwise(gone) if one.id == other.id)

    def _overwritten(self) -> Iterator[SeenSnapshot]:
        """Yield snapshots that events announce, and that were written after a later one. Nothing tells what they were.

        A writer that stood still for long writes such a snapshot.
        """
        for each in self._look.announced:
            ref = self._listed.get(each.id)
            if ref is None or ref.etag != each.etag:
                continue
            before_ms = ref.modified_ms - GRAIN_MS
            snapshots = self._view.own.snapshots
            later = [other.modified_ms for other in snapshots if other.id > ref.id and other.modified_ms < before_ms]
            # The oldest ones have expired before, and somebody restores them.
            if later and any(other.id < ref.id and other.modified_ms <= min(later) for other in snapshots):
                yield SeenSnapshot(ref.id, 0, later[0])

    def _is_same(self, seen: SeenSnapshot) -> bool:
        ref = self._listed.get(seen.id)
        return ref is not None and number_of(ref.etag) == seen.number

    def _found(self, ref: RootRef) -> FoundSnapshot | None:
        """Read what is there, `None` if it is not what the listing shows any more."""
        try:
            body = self._view.table.store.read(ref.path, MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            return None
        if body.etag != ref.etag:
            return None
        digest = hashlib.md5(body.data, usedforsecurity=False)
        in_one_part = hashlib.md5(digest.digest(), usedforsecurity=False).hexdigest()
        snapshot = _parsed(parse_snapshot, body.data, ref.path)
        return FoundSnapshot(
            number=number_of(ref.etag),
            modified_ms=ref.modified_ms,
            size_bytes=ref.size_bytes,
            snapshot=snapshot,
            is_digest=digest.hexdigest() == ref.etag,
            prepared_ms=0 if snapshot is None else prepared_ms(self._view.table.store, snapshot),
            same=frozenset(map(number_of, (digest.hexdigest(), f"{in_one_part}-1"))),
        )

    def _judge(self, seen: SeenSnapshot, ref: RootRef, found: FoundSnapshot) -> Verdict:
        known = next((each for each in self._seen if each.id == seen.id and self._is_same(each)), None)
        if known is not None and known.modified_ms + GRAIN_MS < seen.modified_ms:
            return "rolled_back"  # somebody restored what was there before
        around = self._around([self._is_same(each) for each in self._seen if each.id > seen.id])
        verdict = judge(seen, found, around)
        if verdict not in ("replaced", "unclear"):
            return verdict
        around = replace(around, is_copy=self._is_copy(ref, found.snapshot), below=self._below(ref))
        return judge(seen, found, around)

    def _around(self, later: Sequence[bool]) -> Around:
        """Return what one listing tells; `later`: which later snapshots are the same."""
        own = self._view.own
        return Around(
            first_id=own.snapshots[0].id,
            first_schema_ms=own.schemas[0].modified_ms if own.schemas else 0,
            rewritten_ms=self._known.rewritten_ms,
            is_later_same=any(later),
            is_later_gone=not all(later),
        )

    def _is_copy(self, ref: RootRef, snapshot: Snapshot | None) -> bool:
        """Tell whether another branch, or a tag, had the snapshot before. A tag that was made of it is later."""
        own, listing = self._view.own, self._view.listing
        if self._elsewhere.get((ref.id, number_of(ref.etag)), ref.modified_ms) < ref.modified_ms:
            return True
        others = (each for branch in listing.branches.values() if branch.name != own.name for each in branch.snapshots)
        earlier = [each for each in (*others, *own.tags) if each.modified_ms < ref.modified_ms]
        same_id = [each for each in earlier if each.kind == "tag" or each.id == ref.id]
        if any(each.etag == ref.etag for each in same_id):
            return True
        return snapshot is not None and any(self._names(each, snapshot.delta_manifest_list) for each in same_id)

    def _names(self, ref: RootRef, delta_list: str) -> bool:
        """Tell whether a root has this manifest list, whose name no other commit has."""
        try:
            data = self._view.table.store.read(ref.path, MAX_DOCUMENT_BYTES).data
        except ObjectNotFoundError:
            return False
        parse: Callable[[bytes, str], Snapshot] = _parse_tag if ref.kind == "tag" else parse_snapshot
        found = _parsed(parse, data, ref.path)
        return found is not None and found.delta_manifest_list == delta_list

    def _below(self, ref: RootRef) -> Literal["object", "marker", ""]:
        try:
            return self._view.table.store.hidden([ref.path])[0].below
        except StorageError:
            return ""  # the versions may not be listed

    def _newest(self) -> tuple[SeenSnapshot, ...]:
        known = {each.key: each for each in self._seen}
        listed_ms = self._look.listed_ms
        newest = {
            ref.id: known.get((ref.id, number_of(ref.etag))) or self._read_before(ref, _as_seen(ref, listed_ms))
            for ref in self._view.own.snapshots[-MOST_SEEN:]
        }
        newest |= {each.id: each for each in self._seen if each.id in self._open}
        newest |= {each.id: each for each in self._later}
        return tuple(sorted(newest.values(), key=lambda each: each.id)[-MOST_SEEN:])

    def _read_before(self, ref: RootRef, seen: SeenSnapshot) -> SeenSnapshot:
        """Add what its document says, if this run or an earlier one has read it."""
        store = self._view.table.store
        body = store.known(ref.path) if isinstance(store, RememberingStore) else None
        return seen if body is None else seen.reading(_parsed(parse_snapshot, body.data, ref.path))


def _as_seen(ref: RootRef, seen_ms: int) -> SeenSnapshot:
    return SeenSnapshot(ref.id, number_of(ref.etag), ref.modified_ms, ref.size_bytes, seen_ms)


def _parse_tag(data: bytes, path: str) -> Snapshot:
    return parse_tag(data, path).snapshot


def _parsed(parse: Callable[[bytes, str], Snapshot], data: bytes, path: str) -> Snapshot | None:
    try:
        return parse(data, path)
    except (FormatError, UnsupportedFormatError):
        return None
