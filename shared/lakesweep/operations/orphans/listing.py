"""The objects of a table and its external roots, listed by many processes: places, and ranges of their keys.

A *shard* is a range of keys of one place. A process lists one shard, page after page, until the shard ends or the
budget is spent. The rest of the range becomes new shards, split at keys that are guessed from the listed ones. A wrong
guess costs one request and loses nothing, since the pieces have no gaps.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.format.codec import Count
from lakesweep.format.manifest import ManifestMeta
from lakesweep.model.paths.file_class import FileClass, FileClasses
from lakesweep.model.paths.layout import nested_folder
from lakesweep.operations.orphans.outside import refuse_table
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.storage.split import split_point
from lakesweep.storage.store import Page, StoredObject
from lakesweep.table.outside import OutsideRoot, classify_outside

WAYS = 8
"""A shard is split into at most this many pieces."""
_CLIMBS = 6


@dataclass(frozen=True, slots=True)
class Place:
    """A place with objects: the table itself, or an external root."""

    location: str
    is_table: bool
    is_owned: bool
    """It holds files of this table alone."""


def places_of_scan(table: str, roots: Iterable[OutsideRoot]) -> tuple[Place, ...]:
    """Return the places that a scan of a table lists: the table itself, and its external roots."""
    outside = (Place(root.location, is_table=False, is_owned=root.is_owned) for root in roots)
    return (Place(table, is_table=True, is_owned=True), *outside)


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of keys of one place, as `Store.list_range` takes it."""

    place: Count
    after: str = ""
    until: str | None = None
    climb: Count = 1
    """How far the next guess climbs; see `split_point`."""


class ManifestRow(NamedTuple):
    """A manifest that a task decodes."""

    name: str
    size_bytes: Count
    added: Count
    deleted: Count

    @classmethod
    def of(cls, meta: ManifestMeta) -> "ManifestRow":
        """Return the row of a manifest."""
        return cls(meta.file_name, meta.file_size, meta.added_count, meta.deleted_count)

    @property
    def meta(self) -> ManifestMeta:
        """Return the manifest, as far as its decoding needs it."""
        return ManifestMeta(*self, 0, None, None, ())


@dataclass(slots=True)
class PlaceListing:
    """Sorts the listed objects of one place: classifies each, and counts objects that no rule can make an orphan."""

    table: str
    place: Place
    classes: FileClasses
    totals: Totals = field(default_factory=Totals)
    nested: set[str] = field(default_factory=set)
    """Folders of other tables inside this one."""

    def sorted(self, page: Page) -> Iterator[tuple[StoredObject, str, FileClass]]:
        """Yield each object that may be an orphan if no root names it, with its path and its class.

        Raises:
            RefusedError: An owned root holds another table.
        """
        place, totals = self.place, self.totals
        for each in page:
            key = each.key
            if place.is_table:
                found = self.classes.classify(key)
                if (folder := nested_folder(key)) is not None:
                    self.nested.add(folder)
                path = key
            else:
                if place.is_owned:
                    refuse_table(self.table, place.location, key)
                found = classify_outside(self.classes, key)
                path = f"{place.location}/{key}"
            if each.is_link:
                totals.keep(path, each.size_bytes, "link")
                continue
            totals.count(each.size_bytes, found.kind)
            if found.policy == "never":
                totals.keep(path, each.size_bytes, "document")
            else:
                yield each, path, found


class Walk:
    """The pages of a shard within a budget, and the shards for the rest."""

    def __init__(self, shard: Shard, budget: int, pages: Iterator[Page]) -> None:
        """Begin the walk.

        Args:
            shard: The range.
            budget: The number of pages.
            pages: The pages of the range, from its beginning.
        """
        self._shard = shard
        self._budget = budget
        self._pages = pages
        self._first: str | None = None
        self._last: str | None = None
        self._is_over = False

    def pages(self) -> Iterator[Page]:
        """Yield as many pages as the budget allows.

        Pages before the first object, such as pages of folder markers, do not count: the rest would be the same range.
        """
        spent = 0
        while spent < self._budget:
            page = next(self._pages, None)
            if page is None:
                self._is_over = True
                return
            if page:
                self._first = self._first or page[0].key
                self._last = page[-1].key
            spent += self._last is not None
            yield page

    def left(self, ways: int = WAYS) -> Iterator[Shard]:
        """Yield the rest of the range, in at most `ways` pieces without gaps."""
        if self._is_over:
            return
        shard = self._shard
        if self._first is None or self._last is None:  # there were only pages without objects
            yield shard
            return
        cuts = cuts_of(self._first, self._last, shard.until, shard.climb, ways)
        ends = [*cuts, shard.until]
        for number, (after, until) in enumerate(zip([self._last, *cuts], ends, strict=True)):
            # The further a piece is from the listed keys, the more objects it may hold.
            yield Shard(shard.place, after, until, shard.climb + 1 if number else shard.climb)


def cuts_of(first: str, last: str, until: str | None, climb: int, ways: int = WAYS) -> list[str]:
    """Return keys between `last` and `until`, ascending, at which the rest may be split.

    Args:
        first: The first listed key of the range.
        last: The last listed key.
        until: The end of the range, if it has one.
        climb: See `split_point`.
        ways: At most one fewer keys are returned.
    """
    found: set[str] = set()
    for up in range(climb, climb + _CLIMBS):
        end = until
        for _ in range(ways):
            key = split_point(first, last, end, climb=up)
            if key is None:
                break
            found.add(key)
            end = key
    ascending = sorted(found)
    if len(ascending) < ways:
        return ascending
    step = len(ascending) / (ways - 1)
    return sorted({ascending[int(number * step)] for number in range(ways - 1)})
