"""The engine that counts a table's objects by the reason that keeps each: `explain` and `overview` share it.

Each object counts once, under the reason that keeps it. Snapshots that are due keep nothing. Files that only they need
count as expired, or as due if the next expiry ends at its limit before the last of these snapshots. Any other file
counts for the newest snapshot if that needs it. Else it counts for the one kind of root that needs it, or as shared if
several kinds do.

Memory grows by about 250 bytes with each name that roots refer to, and with the folders that hold orphans.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.model.paths.layout import nested_folder
from lakesweep.model.roots import MAIN, Root, base_name
from lakesweep.operations.inspect.judging import Judging
from lakesweep.operations.lifetimes.lifetimes import Lifetimes
from lakesweep.operations.orphans.rules.orphans import SAMPLE
from lakesweep.storage.store import Page, StoredObject
from lakesweep.table.reach.held import Mention
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.missing import Missing, find_missing
from lakesweep.table.reach.named_entries import index_names, names_of

REASONS = (
    "missing",
    "current",
    "expired",
    "due",
    "snapshots",
    "consumer",
    "tags",
    "branches",
    "changelogs",
    "shared",
    "deleted_entries",
    "too_young",
    "orphan",
    "damaged_root",
    "live_owner",
    "foreign",
    "reported",
    "nested_table",
    "link",
    "pack",
    "document",
)
"""In the order of the output."""
_SHOWN = frozenset({"foreign", "reported", "link", "nested_table", "orphan"})

_CURRENT, _EXPIRED, _DUE, _SNAPSHOTS, _CONSUMER, _TAGS, _BRANCHES, _CHANGELOGS = (1 << bit for bit in range(8))
_ALONE = {
    _SNAPSHOTS: "snapshots",
    _CONSUMER: "consumer",
    _TAGS: "tags",
    _BRANCHES: "branches",
    _CHANGELOGS: "changelogs",
}


@dataclass(frozen=True, slots=True)
class Share:
    """The objects that exist for one reason."""

    reason: str
    count: int
    bytes: int
    first: tuple[str, ...] = ()
    """A few of the objects, for reasons that may need a person's action."""


def _note_nothing(mention: Mention) -> None:
    """Note nothing."""


def kinds_by_name(
    judging: Judging, lifetimes: Lifetimes, holders: Holders, also: Callable[[Mention], None] = _note_nothing
) -> Mapping[bytes, int]:
    """Return hash of a name -> the kinds of roots that need it, 0 if roots only name it.

    Args:
        judging: The facts about the table.
        lifetimes: How long its roots are kept.
        holders: Which roots need which files.
        also: Called with each entry of each manifest, so that a caller need not read manifests again.

    Raises:
        RefusedError: A schema or consumer cannot be read.
        StorageError: A read failed.
    """
    kinds_of = _Kinds(judging, lifetimes, holders)
    found: dict[bytes, int] = dict.fromkeys(judging.found.live.names, 0)

    def note(name: str, kinds: int) -> None:
        key = name_hash(name)
        found[key] = found.get(key, 0) | kinds

    for named in holders.named():
        if named.needed_by:
            note(named.name, kinds_of(named.needed_by))
    for index in holders.indexes():
        for name in index_names(index.entry) if index.needed_by else ():
            note(name, kinds_of(index.needed_by))
    for mention in holders.mentions():
        also(mention)
        if mention.needed_by:
            kinds = kinds_of(mention.needed_by)
            for name in names_of(mention.entry):
                note(name, kinds)
    return found


class _Kinds:
    """Maps a set of roots to the kinds of roots in it."""

    def __init__(self, judging: Judging, lifetimes: Lifetimes, holders: Holders) -> None:
        main = judging.found.listing.branches[MAIN]
        self._newest = main.snapshots[-1].path if main.snapshots else None
        self._snapshots = lifetimes.of_snapshots(MAIN)
        self._sets: Counter[int] = Counter()
        for number, root in enumerate(holders.roots):
            self._sets[self._kind_of(root)] |= 1 << number
        self._known: dict[int, int] = {}

    def _kind_of(self, root: Root) -> int:
        ref = root.ref
        if ref.path == self._newest:
            return _CURRENT
        if ref.branch != MAIN:
            return _BRANCHES
        if ref.kind == "tag":
            return _TAGS
        if ref.kind == "changelog":
            return _CHANGELOGS
        until = self._snapshots.get(ref.id)
        if until is None:
            return _SNAPSHOTS
        if until.is_due:
            return _DUE if until.is_later else _EXPIRED
        return _CONSUMER if until.is_held else _SNAPSHOTS

    def __call__(self, roots: int) -> int:
        """Return the kinds of roots in a set."""
        if roots not in self._known:
            self._known[roots] = sum(kind for kind, members in self._sets.items() if roots & members)
        return self._known[roots]


def reason_of(kinds: int) -> str:
    """Return the one reason under which a file counts, given the kinds of roots that need it."""
    if kinds & _CURRENT:
        return "current"
    staying = kinds & ~(_EXPIRED | _DUE)
    if not staying:
        return "due" if kinds & _DUE else "expired" if kinds else "deleted_entries"
    return _ALONE.get(staying, "shared")


class Counting:
    """Objects and bytes by reason, as listings show them."""

    def __init__(self, judging: Judging, kinds: Mapping[bytes, int]) -> None:
        self._judging = judging
        self._kinds = kinds
        self._sorting = judging.sorting()
        self.count: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}
        self._orphans: dict[str, tuple[int, int]] = {}
        """Folder -> count and bytes of its orphans. A later page may show that the folder is another table's."""
        self._nested: set[str] = set()
        self.oldest_young_ms: int | None = None
        """When the oldest object was written that is too young to be an orphan."""

    def count_all(self, pages: Iterable[Page]) -> None:
        """Count everything below the table, which is in `pages`."""
        done = 0
        for page in pages:
            for each in page:
                self._add(each)
            done += len(page)
            self._judging.table.progress("objects listed", done, None)
        nested = tuple(f"{folder}/" for folder in self._nested)
        for folder, (count, size_bytes) in self._orphans.items() if nested else ():
            if folder.startswith(nested):
                for counter, amount in ((self.count, count), (self.bytes, size_bytes)):
                    counter["orphan"] -= amount
                    counter["nested_table"] += amount
        if nested:
            self._first["orphan"] = [key for key in self._first.get("orphan", ()) if not key.startswith(nested)]

    def _add(self, each: StoredObject) -> None:
        if (folder := nested_folder(each.key)) is not None:
            self._nested.add(folder)
        reason = self._reason(each)
        self.count[reason] += 1
        self.bytes[reason] += each.size_bytes
        if reason in _SHOWN and len(first := self._first.setdefault(reason, [])) < SAMPLE:
            first.append(each.key)
        if reason == "too_young":
            self.oldest_young_ms = min(each.modified_ms, self.oldest_young_ms or each.modified_ms)
        if reason == "orphan":
            parent = each.key[: each.key.rfind("/") + 1]
            count, size_bytes = self._orphans.get(parent, (0, 0))
            self._orphans[parent] = count + 1, size_bytes + each.size_bytes

    def _reason(self, each: StoredObject) -> str:
        if each.is_link:
            return "link"
        found = self._judging.classes.classify(each.key)
        if found.kind == "pack":
            return "pack"
        why = self._sorting.why_kept(each.key, each.modified_ms, found)
        if why == "live":
            return reason_of(self._kinds[name_hash(base_name(each.key))])
        return "orphan" if why is None else why

    def shares(self) -> Iterator[Share]:
        """Yield what was counted, in the order of `REASONS`."""
        for reason in REASONS:
            if self.count[reason]:
                yield Share(reason, self.count[reason], self.bytes[reason], tuple(self._first.get(reason, ())))

    def missing(self) -> Missing:
        """Return what readers need and no listing showed, once everything is counted.

        Raises:
            StorageError: Metadata could not be read.
            RefusedError: The roots cannot be listed any more.
        """
        found = self._judging.found
        unseen = frozenset(name for name in found.live.unseen() if self._kinds[name])  # nobody needs the others
        return find_missing(self._judging.table.store, found, lambda: self._judging.stores, unseen=unseen)
