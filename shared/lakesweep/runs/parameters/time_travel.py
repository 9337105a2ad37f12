"""Find a version of a branch: the snapshot or tag that a reader, a rollback or the maker of a tag means.

The rules are Paimon's. A version is a snapshot's id, a tag's name, a time, a watermark or a text. A text means the tag
of that name, else `watermark-<n>`, else a snapshot's id. So a tag named 3 hides snapshot 3.

Times and watermarks are found by binary search. It reads few documents, and assumes that both grow with the ids. Each
purpose searches in its own direction:

- A reader gets the last snapshot at or before a time, and the first snapshot at or above a watermark.
- A rollback gets the last snapshot at or before a time, or at or below a watermark.
- The maker of a tag gets the first snapshot at or after a time, or at or above a watermark. If that snapshot has
  expired, the maker gets the first tag that holds such a snapshot.

In the search, a snapshot without a watermark stands at the nearest earlier one with a watermark, and is never the
answer itself. If ids are missing, Paimon fails; Lakesweep uses the nearest lower id.

An expired snapshot survives in its tags. A rollback and the maker of a tag find it there by the snapshot's id, as in
Paimon. A reader finds it there only if the caller allows it, since Paimon requires readers to name the tag.

Source: Paimon `TimeTravelUtil#tryTravelToSnapshot`, `SnapshotManager#earlierOrEqualTimeMills`,
`#laterOrEqualWatermark`, `#earlierOrEqualWatermark`, `AbstractFileStoreTable#findSnapshot`, `#rollbackTo`,
`CreateTagFromTimestampProcedure`, `CreateTagFromWatermarkProcedure`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import RefusedError, UsageError, some_of
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import NO_SNAPSHOT, NO_TAG, Tags, list_own, tags_by_snapshot
from lakesweep.table.documents import read_roots

NO_VERSION = "no_such_version"
Purpose = Literal["read", "rollback", "tag"]
"""The use of the version. Paimon searches times and watermarks in a different direction for each."""

_Side = Literal["last", "later", "first"]
"""`last`: the last at or below the value. `later`: an equal one, else the first above. `first`: the first at or
above."""
_SIDES_OF_WATERMARK: Mapping[Purpose, _Side] = {"read": "later", "rollback": "last", "tag": "first"}
_WATERMARK = "watermark-"
_NAMED = 5
"""This many existing tags are named if a tag is not found."""
_CHUNK = 64
"""This many documents are read at a time, in the search for the first snapshot with a watermark."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a branch: at most one of these fields; none means the latest snapshot."""

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_ms: int | None = None
    """In epoch milliseconds."""
    watermark: int | None = None
    version: str | None = None
    """A text as in `VERSION AS OF`: a tag, `watermark-<n>` or a snapshot id."""

    def given(self) -> tuple[str, ...]:
        """Return the names of the fields that are set."""
        named = {
            "snapshot": self.snapshot_id,
            "tag": self.tag,
            "version": self.version,
            "timestamp": self.timestamp_ms,
            "watermark": self.watermark,
        }
        return tuple(name for name, value in named.items() if value is not None)


def resolve(
    table: Table,
    own: BranchListing,
    version: Version,
    *,
    purpose: Purpose = "read",
    falls_back_to_tags: bool = False,
) -> Root | None:
    """Return the snapshot or tag that `version` means, `None` for the latest snapshot of an empty branch.

    Args:
        table: One branch of a table.
        own: Its listing. For a new tag, the tags are only listed here, and only if they matter.
        version: The version.
        purpose: The use of the version.
        falls_back_to_tags: If the snapshots have expired, accept a tag that still holds the version. Paimon does not do
            that for readers.

    Raises:
        UsageError: More than one version was asked for.
        RefusedError: The version does not exist, or cannot be read.
        StorageError: A request failed.
    """
    given = version.given()
    if len(given) > 1:
        raise UsageError(
            f"expected at most one of snapshot, tag, timestamp, watermark and version, found {' and '.join(given)}"
        )
    return _Finder(table, own, purpose, falls_back_to_tags).find(version)


class _Finder:
    def __init__(self, table: Table, own: BranchListing, purpose: Purpose, falls_back: bool) -> None:
        self._table = table
        self._own = own
        self._purpose = purpose
        self._falls_back = falls_back
        self._roots: dict[str, Root] = {}

    def find(self, version: Version) -> Root | None:
        if version.version is not None:
            version = self._said_by(version.version)
        if version.tag is not None:
            return self._of_tag(version.tag)
        if version.snapshot_id is not None:
            return self._of_id(version.snapshot_id)
        if version.timestamp_ms is not None:
            return self._of_time(version.timestamp_ms)
        if version.watermark is not None:
            return self._of_watermark(version.watermark)
        return self._read(self._own.snapshots[-1]) if self._own.snapshots else None

    def _said_by(self, text: str) -> Version:
        """Return the version that a text means."""
        if any(ref.name == text for ref in self._tag_refs()):
            return Version(tag=text)
        if text.startswith(_WATERMARK) and (watermark := _long_of(text.removeprefix(_WATERMARK))) is not None:
            return Version(watermark=watermark)
        if text.isdecimal() and (snapshot_id := _long_of(text)) is not None:
            return Version(snapshot_id=snapshot_id)
        raise self._refusal(
            f"version {text!r} is not valid; expected a tag, {_WATERMARK}<n> or the id of a snapshot", NO_TAG
        )

    def _of_tag(self, name: str) -> Root:
        for ref in self._tag_refs():
            if ref.name == name:
                return self._read(ref)
        raise self._refusal(f"no tag {name!r}; {self._tag_names()}", NO_TAG)

    def _of_id(self, snapshot_id: int) -> Root:
        for ref in self._own.snapshots:
            if ref.id == snapshot_id:
                return self._read(ref)
        looks_at_tags = self._purpose != "read" or self._falls_back
        if looks_at_tags:
            for root in self._tags().whole:
                if root.snapshot.id == snapshot_id:
                    return root
        tags = ", and no tag of it, either" if looks_at_tags else ""
        raise self._refusal(f"no snapshot {snapshot_id}{tags}; {self._range()}", NO_SNAPSHOT)

    def _of_time(self, timestamp_ms: int) -> Root:
        is_first = self._purpose == "tag"
        found = self._search(lambda snapshot: snapshot.time_ms, timestamp_ms, "first" if is_first else "last")
        if is_first:
            found = self._or_first_tag(found, lambda snapshot: snapshot.time_ms, timestamp_ms)
        elif found is None and self._falls_back:
            tags = [root for root in self._whole_tags() if root.snapshot.time_ms <= timestamp_ms]
            found = max(tags, key=lambda root: (root.snapshot.time_ms, root.snapshot.id), default=None)
        if found is None:
            when = f"{say_time(timestamp_ms)} or {'later' if is_first else 'before'}"
            raise self._refusal(f"no snapshot was committed at {when}; {self._range()}", NO_SNAPSHOT)
        return found

    def _of_watermark(self, watermark: int) -> Root:
        side = _SIDES_OF_WATERMARK[self._purpose]
        found = self._search(lambda snapshot: snapshot.watermark, watermark, side)
        if self._purpose == "tag" or (self._falls_back and side == "later"):
            found = self._or_first_tag(found, lambda snapshot: snapshot.watermark, watermark)
        if found is None:
            other = "lower" if side == "last" else "higher"
            raise self._refusal(f"no snapshot has watermark {watermark} or a {other} one; {self._range()}", NO_SNAPSHOT)
        return found

    def _search(self, value_of: Callable[[Snapshot], int | None], wanted: int, side: _Side) -> Root | None:
        """Search the ids by halving; `None` if no snapshot reaches the value, or none is at or below it."""
        first = self._first_with(value_of)
        if first is None:
            return None
        value = value_of(first.snapshot)
        if value is not None and (value > wanted if side == "last" else value >= wanted):
            return None if side == "last" else first
        low, high, found = first.snapshot.id, self._own.snapshots[-1].id, None
        while low <= high:
            middle = low + (high - low) // 2
            root = self._last_with(value_of, low, middle)
            value = None if root is None else value_of(root.snapshot)
            if root is None or value is None:
                low = middle + 1
            elif value == wanted and side != "first":
                return root  # if several have this value, Paimon also takes the first one that its search meets
            elif value >= wanted:
                high = root.snapshot.id - 1
                found = found if side == "last" else root
            else:
                low = middle + 1
                found = root if side == "last" else found
        return found

    def _last_with(self, value_of: Callable[[Snapshot], int | None], low: int, high: int) -> Root | None:
        """Return the last snapshot in a range of ids that has a value."""
        refs = self._own.snapshots
        start = bisect_left(refs, low, key=lambda ref: ref.id)
        end = bisect_right(refs, high, key=lambda ref: ref.id)
        for ref in reversed(refs[start:end]):
            root = self._read(ref)
            if value_of(root.snapshot) is not None:
                return root
        return None

    def _first_with(self, value_of: Callable[[Snapshot], int | None]) -> Root | None:
        """Return the first snapshot that has a value."""
        refs, start = self._own.snapshots, 0
        while start < len(refs):
            end = min(len(refs), start + (_CHUNK if start else 1))
            for root in self._read_all(refs[start:end]):
                if value_of(root.snapshot) is not None:
                    return root
            start = end
        return None

    def _or_first_tag(self, found: Root | None, value_of: Callable[[Snapshot], int | None], wanted: int) -> Root | None:
        """Return the first tag that reaches a value if its value is below the found snapshot's, else that snapshot."""
        tags = self._tags().whole if self._purpose == "tag" else self._whole_tags()
        for root in tags:
            value = value_of(root.snapshot)
            if value is not None and value >= wanted:
                return root if found is None or value < (value_of(found.snapshot) or 0) else found
        return found

    def _whole_tags(self) -> tuple[Root, ...]:
        """Return all tags. Refuses if a tag does not parse, since it could be the version that the caller means."""
        tags = self._tags()
        for ref, problem in tags.unreadable:
            raise RefusedError(
                f"table {self._table.ref}: {problem}; expected to read tag {ref.name!r}, since it may be the version "
                "that was asked for",
                code="unreadable_root",
            )
        return tags.whole

    def _tags(self) -> Tags:
        return tags_by_snapshot(self._table.store, self._tag_refs())

    def _tag_refs(self) -> Sequence[RootRef]:
        return list_own(self._table, "tag").tags if self._purpose == "tag" else self._own.tags

    def _read(self, ref: RootRef) -> Root:
        if ref.path not in self._roots:
            self._read_all([ref])
        return self._roots[ref.path]

    def _read_all(self, refs: Sequence[RootRef]) -> tuple[Root, ...]:
        documents = read_roots(self._table.store, refs)
        for ref in documents.vanished:
            raise RefusedError(
                f"table {self._table.ref}: {ref.path} vanished while it was read; try again",
                code=NO_SNAPSHOT if self._purpose == "tag" else "vanished",
            )
        self._roots |= {root.ref.path: root for root in documents.roots}
        return documents.roots

    def _range(self) -> str:
        refs = self._own.snapshots
        return f"expected one of snapshots {refs[0].id} to {refs[-1].id}" if refs else "expected one, found none"

    def _tag_names(self) -> str:
        names = [repr(ref.name) for ref in self._tag_refs()]
        if not names:
            return "expected one, found none"
        return f"expected one of the existing tags ({some_of(names, _NAMED)})"

    def _refusal(self, what: str, code: str) -> RefusedError:
        """Return the error; the operations that make tags have codes of their own."""
        lists = "" if self._purpose == "tag" else " (`lakesweep show` lists what there is)"
        return RefusedError(
            f"table {self._table.ref}: {what}{lists}", code=code if self._purpose == "tag" else NO_VERSION
        )


def _long_of(text: str) -> int | None:
    """Read a 64-bit number as Java does."""
    if not re.fullmatch(r"[+-]?\d+", text):
        return None
    try:
        number = int(text)
    except ValueError:  # more digits than Python allows
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
