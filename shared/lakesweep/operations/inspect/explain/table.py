"""`explain TABLE`: why a table's bytes exist. This changes nothing.

Each object counts once, under the reason that keeps it. Snapshots that are due keep nothing. Files that only they need
count as expired, or as due if the next expiry ends at its limit before the last of these snapshots. Any other file
counts for the newest snapshot if that needs it. Else it counts for the one kind of root that needs it, or as shared if
several kinds do.

Memory grows by about 250 bytes with each name that roots refer to, and with the folders that hold orphans.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from lakesweep.errors import StorageError
from lakesweep.format.codec import to_json
from lakesweep.model.damage import LOST_HISTORIES, lost_histories
from lakesweep.model.paths.layout import nested_folder
from lakesweep.model.roots import MAIN, Root, base_name
from lakesweep.operations.inspect.judging import Judging, judge
from lakesweep.operations.lifetimes.lifetimes import Lifetimes
from lakesweep.operations.lifetimes.ruling import ShownRuling
from lakesweep.operations.orphans.rules.orphans import SAMPLE
from lakesweep.runs.damage import warnings_of
from lakesweep.runs.session import Table
from lakesweep.storage.listing import list_all
from lakesweep.storage.open import noncurrent_versions
from lakesweep.storage.store import StoredObject
from lakesweep.storage.versions import Noncurrent
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.missing import find_missing
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
PARALLELISM = 8
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


@dataclass(frozen=True, slots=True)
class TableShares:
    """Everything that `explain TABLE` says."""

    table: str
    objects: int
    bytes: int
    """The bytes of current object versions."""
    current_bytes: int
    """The bytes that the newest snapshot of main needs: data and metadata."""
    shares: tuple[Share, ...]
    noncurrent: Noncurrent | None
    """`None`: the store keeps no versions, or cannot list them."""
    policy: ShownRuling | None = None
    """What the fleet policy says about the table; `None`: none is stated."""
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    """A sentence for each branch that has lost its snapshots. The warnings repeat it."""

    @property
    def factor(self) -> float | None:
        """The bytes of the table, versions included, as a multiple of the bytes that its newest snapshot needs."""
        paid = self.bytes + (self.noncurrent.bytes if self.noncurrent is not None else 0)
        return round(paid / self.current_bytes, 2) if self.current_bytes else None

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "objects": self.objects,
            "bytes": self.bytes,
            "current_bytes": self.current_bytes,
            "factor": self.factor,
            "reasons": [{**asdict(share), "first": list(share.first)} for share in self.shares],
            "noncurrent": None if self.noncurrent is None else asdict(self.noncurrent),
            "policy": to_json(self.policy),
            "warnings": list(self.warnings),
            "damage": list(self.damage),
        }


def explain_table(table: Table, older_than_ms: int | None = None) -> TableShares:
    """Count a table's objects and bytes by the reason that keeps them.

    Args:
        table: Any branch of it; all are counted.
        older_than_ms: Objects written later are too young to be orphans; default: a day ago.

    Raises:
        RefusedError: This is no table, or roots cannot be read.
        StorageError: A request failed.
    """
    judging = judge(table, older_than_ms)
    lifetimes = judging.lifetimes()
    counting = _Counting(judging, _reasons_by_name(judging, lifetimes))
    counting.list()
    damage = warnings_of({LOST_HISTORIES: lost_histories(judging.found.listing)})
    warnings = [*damage, *judging.warnings(), *lifetimes.warnings]
    if judging.stores.external_roots:
        warnings.append(
            f"files below {', '.join(judging.stores.external_roots)} lie outside the table and are not counted"
        )
    missing = find_missing(table.store, judging.found, lambda: judging.stores)
    warnings += missing.warnings(judging.found.live.damaged.values())
    shares = tuple(counting.shares())
    if missing.files:
        first = tuple(file.path for file in missing.files[:SAMPLE])
        shares = (Share("missing", len(missing.files), 0, first), *shares)
    noncurrent = None
    try:
        noncurrent = noncurrent_versions(table.store)
    except StorageError as error:
        warnings.append(f"versions that are not current are not counted: {error}")
    return TableShares(
        table=table.ref.location,
        objects=sum(counting.count.values()),
        bytes=sum(counting.bytes.values()),
        current_bytes=counting.bytes["current"],
        shares=shares,
        noncurrent=noncurrent,
        policy=lifetimes.policy,
        warnings=tuple(warnings),
        damage=damage,
    )


def _reasons_by_name(judging: Judging, lifetimes: Lifetimes) -> Mapping[bytes, int]:
    """Return hash of a name -> the kinds of roots that need it, 0 if roots only name it."""
    holders = judging.holders()
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


class _Counting:
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

    def list(self) -> None:
        """Count everything below the table."""
        table = self._judging.table
        done = 0
        for page in list_all(table.store, "", parallel=PARALLELISM):
            for each in page:
                self._add(each)
            done += len(page)
            table.progress("objects listed", done, None)
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
