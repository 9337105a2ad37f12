"""Decide which objects of a table are orphans, and why every other object is kept.

An orphan fulfils three conditions. No root of any branch refers to a file of its name. It is older than the cutoff. Its
name and folder show that Paimon writes such files there. Any other object is kept and counted by the reason.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.model.paths.file_class import FileClass
from lakesweep.model.plan import PHASES, Delete
from lakesweep.model.roots import DATA_KINDS

SAMPLE = 20
"""Number of keys that are shown for each reason that may need human action."""
MANY_FILES = 1000
TEMP = "temp"
_SHOWN = frozenset({"foreign", "reported", "link", "nested_table"})
_PHASE_OF = {"extra": "data", "index_manifest": "manifest"}


@dataclass(frozen=True, slots=True)
class Rules:
    """The conditions besides the roots."""

    cutoff_ms: int
    """Only objects written before this time may be deleted; by the store's clock."""
    damaged: bool = False
    """Some root is incomplete, so its needs are unknown: only temporary files may be deleted."""
    known_since: Callable[[str, str, int], bool] | None = None
    """Takes key, ETag and time; tells whether an earlier run, long enough ago, saw the same object as an orphan.
    `None`: the quarantine is off."""

    def why_kept(self, modified_ms: int, found: FileClass) -> str | None:
        """Return why an object without a reference is kept. After `None`, its owner may still keep it."""
        if found.policy != "delete":
            return "foreign" if found.kind == "foreign" else "reported" if found.policy == "report" else "document"
        if modified_ms >= self.cutoff_ms:
            return "too_young"
        return "damaged_root" if self.damaged and found.kind != TEMP else None


Listed = tuple[str, int, str, int, bool]
"""An entry of a listing: key, size in bytes, ETag, time by the store's clock, whether it is a link."""


class Orphan(NamedTuple):
    """An object that no root refers to."""

    key: str
    kind: str
    size_bytes: int
    etag: str
    modified_ms: int
    owner: str | None


@dataclass(slots=True)
class Totals:
    """Counts of listed and kept objects. The totals of several listings can be added."""

    kept: Counter[str] = field(default_factory=Counter)
    """Reason -> objects."""
    kept_bytes: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[str]] = field(default_factory=dict)
    """Reason -> the first keys in ascending order, for reasons that may need human action."""
    objects: int = 0
    bytes: int = 0
    data_files: int = 0
    data_bytes: int = 0

    def count(self, size_bytes: int, kind: str) -> None:
        """Count a listed object."""
        self.objects += 1
        self.bytes += size_bytes
        if kind in DATA_KINDS:
            self.data_files += 1
            self.data_bytes += size_bytes

    def keep(self, key: str, size_bytes: int, why: str) -> None:
        """Count a kept object."""
        self.kept[why] += 1
        self.kept_bytes[why] += size_bytes
        if why in _SHOWN:
            keys = self.shown.setdefault(why, [])
            if len(keys) < SAMPLE or key < keys[-1]:  # The sample does not depend on the order of calls.
                insort(keys, key)
                del keys[SAMPLE:]

    def add(self, other: "Totals") -> None:
        """Add the counts of another listing."""
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
    """Sorts the objects of a table, one after the other as listings show them."""

    rules: Rules
    is_live: Callable[[str], bool]
    """Tells whether a root refers to a file of this name."""
    saw: Callable[[str], bool]
    """Tells the same for a listed file, and notes that the file exists."""
    orphans: list[Orphan] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    def add(self, listed: Iterable[tuple[str, Listed, FileClass]]) -> None:
        """Sort objects: for each its path, its entry in the listing, and its class."""
        totals = self.totals
        live = live_bytes = 0  # Most objects are live, so they are counted together.
        for path, (_, size_bytes, etag, modified_ms, is_link), found in listed:
            if is_link:
                totals.keep(path, size_bytes, "link")
                continue
            totals.count(size_bytes, found.kind)
            why = self.why_kept(path, modified_ms, found)
            if why == "live":
                live += 1
                live_bytes += size_bytes
            elif why is not None:
                totals.keep(path, size_bytes, why)
            else:
                self.orphans.append(Orphan(path, found.kind, size_bytes, etag, modified_ms, found.owner))
        if live:
            totals.kept["live"] += live
            totals.kept_bytes["live"] += live_bytes

    def why_kept(self, key: str, modified_ms: int, found: FileClass) -> str | None:
        """Return why a listed object is kept, `None` if it is an orphan."""
        # Whatever its class: a file with a name that a root refers to is kept and counts as seen.
        if found.policy != "never" and self.saw(key[key.rfind("/") + 1 :]):
            return "live"
        if (why := self.rules.why_kept(modified_ms, found)) is not None:
            return why
        return "live_owner" if found.owner is not None and self.is_live(found.owner) else None

    def spare(self, folders: Iterable[str]) -> None:
        """Keep objects in folders that turned out to belong to another table."""
        nested = tuple(f"{folder}/" for folder in folders)
        if nested:
            self._divide(lambda orphan: orphan.key.startswith(nested), "nested_table")

    def confirm(self, still: Container[str], is_outside: Callable[[str], bool]) -> None:
        """Keep objects of an old listing that have since been deleted or written again.

        Args:
            still: Keys below the table whose object is still the listed one.
            is_outside: Tells which keys lie outside the table, and were therefore listed just now.
        """
        self._divide(lambda orphan: not is_outside(orphan.key) and orphan.key not in still, "not_as_listed")

    def quarantine(self) -> Sequence[Orphan]:
        """Keep objects that were not yet orphans long enough ago; return all orphans, the kept ones included."""
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
    """Tell whether a run would delete more than half of the table's files or bytes, and more than a thousand files.

    Args:
        data_files: Data and changelog files to delete.
        data_bytes: Their bytes.
        totals: The objects that were listed.
    """
    return data_files > MANY_FILES and (2 * data_files > totals.data_files or 2 * data_bytes > totals.data_bytes)


def deletions(orphans: Iterable[Orphan], say_time: Callable[[int], str]) -> tuple[Delete, ...]:
    """Return the deletions of orphans, by phase and key. The ETag protects an object that is written again."""
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
    """Return the phase in which orphans of a kind are deleted."""
    return _PHASE_OF.get(kind, kind)


def shown(totals: Totals) -> Mapping[str, object]:
    """Return the reasons that may need human action, each with its first keys."""
    return {why: {"count": totals.kept[why], "first": keys} for why, keys in sorted(totals.shown.items())}
