"""Which objects of a table are orphans, and why the others stay.

An object is an orphan when no root of any branch refers to a file of its name, when it is older than the cutoff, and
when its name and folder say that an engine writes such files there. Anything else stays, counted by the reason.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.model.facts import DATA_KINDS, base_name
from lakesweep.model.file_class import FileClass
from lakesweep.model.plan import PHASES, Delete

SAMPLE = 20
"""So many keys are shown of each reason that somebody may have to act on."""
MANY_FILES = 1000
TEMP = "temp"
_SHOWN = frozenset({"foreign", "reported", "link", "nested_table"})
_PHASE_OF = {"extra": "data", "index_manifest": "manifest"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides, besides the roots."""

    cutoff_ms: int
    """Only what was written before may go; by the store's clock."""
    damaged: bool = False
    """Some root is not whole, so that nobody knows what it needs: only temporary files may go."""
    known_since: Callable[[str, str, int], bool] | None = None
    """Tells of key, ETag and time whether an earlier run saw the same object as an orphan, long enough ago. `None`:
    that is not asked."""

    def why_kept(self, modified_ms: int, found: FileClass) -> str | None:
        """Return why an object stays to which no root refers. Of `None`, its owner may still say otherwise."""
        if found.policy != "delete":
            return "foreign" if found.kind == "foreign" else "reported" if found.policy == "report" else "document"
        if modified_ms >= self.cutoff_ms:
            return "too_young"
        return "damaged_root" if self.damaged and found.kind != TEMP else None


class Orphan(NamedTuple):
    """An object that nobody refers to."""

    key: str
    kind: str
    size_bytes: int
    etag: str
    modified_ms: int
    owner: str | None


@dataclass(slots=True)
class Totals:
    """What was seen and what stays, counted. Those of several listings add up."""

    kept: Counter[str] = field(default_factory=Counter)
    """Reason -> objects."""
    kept_bytes: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[str]] = field(default_factory=dict)
    """Reason -> the first keys in ascending order, of reasons that somebody may have to act on."""
    objects: int = 0
    bytes: int = 0
    data_files: int = 0
    data_bytes: int = 0

    def count(self, size_bytes: int, kind: str) -> None:
        """Count an object that was seen."""
        self.objects += 1
        self.bytes += size_bytes
        if kind in DATA_KINDS:
            self.data_files += 1
            self.data_bytes += size_bytes

    def keep(self, key: str, size_bytes: int, why: str) -> None:
        """Count an object that stays."""
        self.kept[why] += 1
        self.kept_bytes[why] += size_bytes
        if why in _SHOWN:
            keys = self.shown.setdefault(why, [])
            if len(keys) < SAMPLE or key < keys[-1]:  # in whichever order they come, the same are shown
                insort(keys, key)
                del keys[SAMPLE:]

    def add(self, other: "Totals") -> None:
        """Add what was counted elsewhere."""
        self.kept.update(other.kept)
        self.kept_bytes.update(other.kept_bytes)
        for why, keys in other.shown.items():
            self.shown[why] = sorted([*self.shown.get(why, ()), *keys])[:SAMPLE]
        self.objects += other.objects
        self.bytes += other.bytes
        self.data_files += other.data_files
        self.data_bytes += other.data_bytes


@dataclass(slots=True)
class Sorting:
    """Objects of a table, sorted one after the other as listings show them."""

    rules: Rules
    is_live: Callable[[str], bool]
    """Tells whether some root refers to a file of this name."""
    saw: Callable[[str], bool]
    """The same of a file that is there."""
    orphans: list[Orphan] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    def add(self, key: str, size_bytes: int, etag: str, modified_ms: int, found: FileClass) -> None:
        """Sort one object.

        Args:
            key: Below the table.
            size_bytes: Of the object.
            etag: Of the object.
            modified_ms: When it was written, by the store's clock.
            found: What it is.
        """
        self.totals.count(size_bytes, found.kind)
        if (why := self.why_kept(key, modified_ms, found)) is not None:
            self.totals.keep(key, size_bytes, why)
        else:
            self.orphans.append(Orphan(key, found.kind, size_bytes, etag, modified_ms, found.owner))

    def why_kept(self, key: str, modified_ms: int, found: FileClass) -> str | None:
        """Return why an object that is there stays, `None` when it is an orphan."""
        # Whatever it looks like: a name that a root refers to stays, and counts as seen.
        if found.policy != "never" and self.saw(base_name(key)):
            return "live"
        if (why := self.rules.why_kept(modified_ms, found)) is not None:
            return why
        return "live_owner" if found.owner is not None and self.is_live(found.owner) else None

    def spare(self, folders: Iterable[str]) -> None:
        """Keep what lies in folders that turned out to belong to another table."""
        nested = tuple(f"{folder}/" for folder in folders)
        if nested:
            self._divide(lambda orphan: orphan.key.startswith(nested), "nested_table")

    def confirm(self, still: Container[str], is_outside: Callable[[str], bool]) -> None:
        """Keep what an old listing showed and what is gone by now, or was written again.

        Args:
            still: Keys below the table that are still the object that was listed.
            is_outside: Tells which were listed just now, since they lie elsewhere.
        """
        self._divide(lambda orphan: not is_outside(orphan.key) and orphan.key not in still, "not_as_listed")

    def quarantine(self) -> Sequence[Orphan]:
        """Keep what was not an orphan long enough ago already; return all orphans, those that stay included."""
        found = list(self.orphans)
        known = self.rules.known_since
        if known is not None:
            self._divide(lambda orphan: not known(orphan.key, orphan.etag, orphan.modified_ms), "quarantine")
        return found

    def _divide(self, stays: Callable[[Orphan], bool], why: str) -> None:
        for orphan in self.orphans:
            if stays(orphan):
                self.totals.keep(orphan.key, orphan.size_bytes, why)
        self.orphans = [orphan for orphan in self.orphans if not stays(orphan)]


def needs_confirmation(data_files: int, data_bytes: int, totals: Totals) -> bool:
    """Tell whether more than half of the table's files or bytes would go, and more than a thousand.

    Args:
        data_files: Data and changelog files that would go.
        data_bytes: Their bytes.
        totals: What is there.
    """
    return data_files > MANY_FILES and (2 * data_files > totals.data_files or 2 * data_bytes > totals.data_bytes)


def deletions(orphans: Iterable[Orphan], say_time: Callable[[int], str]) -> tuple[Delete, ...]:
    """Return what removes orphans, in the order of phases and keys. The ETag spares what is written again meanwhile."""
    found = [
        Delete(
            phase=phase_of(orphan.kind),
            kind=orphan.kind,
            path=orphan.key,
            size_bytes=orphan.size_bytes,
            reason=f"no root refers to it; written {say_time(orphan.modified_ms)}",
            etag=orphan.etag,
            owner=orphan.owner,
        )
        for orphan in orphans
    ]
    return tuple(sorted(found, key=lambda delete: (PHASES.index(delete.phase), delete.path)))


def phase_of(kind: str) -> str:
    """Return the phase in which orphans of a kind go."""
    return _PHASE_OF.get(kind, kind)


def shown(totals: Totals) -> Mapping[str, object]:
    """Return the reasons that somebody may have to act on, with their first keys."""
    return {why: {"count": totals.kept[why], "first": keys} for why, keys in sorted(totals.shown.items())}
