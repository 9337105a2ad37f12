"""The objects below a table and its external roots, listed by executors and kept in parts.

Listing goes in rounds. A *shard* is a range of keys of one place. A task lists one shard, page after page, until it
ends or its budget is spent; what is left of it goes back to the driver in several pieces, split at keys that are
guessed from those seen, and makes shards of the next round. A wrong guess costs one request and loses nothing, since
pieces meet. What a round has listed counts once the driver has written it down, so a scan that dies goes on with the
shards that are left.

An object gets its class here, and what no rule can ever make an orphan is only counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.errors import MaintenanceError
from lakesweep.model.file_class import FileClasses
from lakesweep.model.layout import Layout
from lakesweep.operations.orphan_scan import nested_folder, refuse_table
from lakesweep.plan.orphans import Totals
from lakesweep.spark.parts import Columns, Part, as_bytes, part_of, part_row
from lakesweep.spark.tasks import Access, Row, Task, count_requests, run_tasks
from lakesweep.spark.totals import to_row, totals_of
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.split import split_point
from lakesweep.storage.store import Page
from lakesweep.table.inventory import Inventory
from lakesweep.table.inventory_reach import Reach, reach_of
from lakesweep.table.inventory_rows import read_file, rows_of
from lakesweep.table.outside import classify_outside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTING_SCHEMA = pa.schema(
    [
        ("place", pa.int32()),
        ("name", pa.binary()),
        ("key", pa.binary()),
        ("size", pa.int64()),
        ("etag", pa.string()),
        ("modified", pa.int64()),
        ("kind", pa.string()),
        ("policy", pa.string()),
        ("owner", pa.binary()),
    ]
)
FIRST_PAGES = 8
"""Budget of a shard in the first round."""
GROWTH = 8
"""Times as much in each round after."""
MOST_PAGES = 128
"""Where few shards hold most keys, a round lasts as long as the largest of them. So few pages make more rounds and some
requests more, and a tail that is less than half as long as with a thousand."""
WAYS = 8
"""A shard is split into so many pieces at most."""
_LISTING = "listing"
_CLIMBS = 6


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects lie: the table itself, or an external root."""

    location: str
    is_table: bool
    is_owned: bool
    """What lies there is this table's alone."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of keys of one place, as `Store.list_range` takes it."""

    place: int
    after: str = ""
    until: str | None = None
    climb: int = 1
    """How far the next guess goes up; see `split_point`."""


@dataclass(slots=True)
class Listed:
    """What has been listed so far."""

    parts: list[Part] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    """What is left to list."""
    totals: list[Totals] = field(default_factory=list)
    """Of each place."""
    nested: set[str] = field(default_factory=set)
    """Folders of other tables below this one."""
    problems: dict[int, str] = field(default_factory=dict)
    """Place -> why it could not be listed; of places that may not be there alone."""
    rounds: int = 0
    files: list[int] = field(default_factory=list)
    """Numbers of the data files of an inventory that are left to read."""
    reach: Reach = field(default_factory=Reach)
    """Of the files that were read."""


@dataclass(frozen=True, slots=True)
class Sorter:
    """Gives objects their classes and gathers them into parts."""

    layout: Layout
    places: tuple[Place, ...]
    folder: str

    def rows(self, task: Task, place_number: int, pages: Iterator[Page]) -> Iterator[Row]:
        """Take pages of one place, and answer with parts, totals and nested tables."""
        place = self.places[place_number]
        classes = FileClasses(self.layout)
        columns = Columns(task.scans, self.folder, _LISTING, LISTING_SCHEMA)
        totals = Totals()
        nested = set()
        for page in pages:
            for each in page:
                key = each.key
                if place.is_table:
                    found = classes.classify(key)
                    if (folder := nested_folder(key)) is not None:
                        nested.add(folder)
                    path = key
                else:
                    if place.is_owned:
                        refuse_table(task.access.table, place.location, key)
                    found = classify_outside(classes, key)
                    path = f"{place.location}/{key}"
                if each.is_link:
                    totals.keep(path, each.size_bytes, "link")
                    continue
                totals.count(each.size_bytes, found.kind)
                if found.policy == "never":
                    totals.keep(path, each.size_bytes, "document")
                    continue
                columns.add(
                    place_number,
                    as_bytes(key.rpartition("/")[2]),
                    as_bytes(path),
                    each.size_bytes,
                    each.etag,
                    each.modified_ms,
                    found.kind,
                    found.policy,
                    None if found.owner is None else as_bytes(found.owner),
                )
            for part in columns.full():
                yield part_row(part)
        for part in columns.rest():
            yield part_row(part)
        yield {"place": place_number, "totals": to_row(totals), "nested": sorted(nested)}


@dataclass(frozen=True, slots=True)
class ListShard:
    """Work: list one shard, as far as its budget goes."""

    sorter: Sorter

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with the sorter's rows, and with the shards that are left."""
        budget = piece.pop("budget")
        shard = Shard(**piece)
        place = self.sorter.places[shard.place]
        walk = _Walk(shard, budget, task.store(place.location).list_range("", shard.after, shard.until))
        try:
            rows = list(self.sorter.rows(task, shard.place, iter(walk.pages())))
        except MaintenanceError as error:
            if place.is_table or place.is_owned:
                raise
            yield {"place": shard.place, "unlisted": str(error)}
            return
        yield from rows
        for left in walk.left():
            yield {"shard": asdict(left)}


@dataclass(frozen=True, slots=True)
class ReadInventory:
    """Work: read one data file of an inventory, which stands for a listing of the table."""

    sorter: Sorter
    inventory: Inventory
    prefix: str

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with the sorter's rows, and with how far the file reaches."""
        file = self.inventory.files[piece["file"]]
        data = read_file(task.store(self.inventory.root), self.inventory, file)
        reaches: list[Reach] = []

        def pages() -> Iterator[Page]:
            for page in rows_of(data, self.inventory, file, self.prefix):
                reaches.append(reach_of(page))
                yield page

        yield from self.sorter.rows(task, 0, pages())
        reach = sum(reaches, Reach())
        yield {"first": reach.first, "last": reach.last}


class _Walk:
    """The pages of a shard within a budget, and the shards that are left behind it."""

    def __init__(self, shard: Shard, budget: int, pages: Iterator[Page]) -> None:
        self._shard = shard
        self._budget = budget
        self._pages = pages
        self._first: str | None = None
        self._last: str | None = None
        self._is_over = False

    def pages(self) -> Iterator[Page]:
        """Yield as many pages as the budget allows."""
        for _ in range(self._budget):
            page = next(self._pages, None)
            if page is None:
                self._is_over = True
                return
            if page:
                self._first = self._first or page[0].key
                self._last = page[-1].key
            yield page

    def left(self) -> Iterator[Shard]:
        """Yield what is left, in pieces that meet."""
        if self._is_over:
            return
        shard = self._shard
        if self._first is None or self._last is None:  # pages without any object
            yield shard
            return
        cuts = _cuts(self._first, self._last, shard.until, shard.climb)
        ends = [*cuts, shard.until]
        for number, (after, until) in enumerate(zip([self._last, *cuts], ends, strict=True)):
            # The further from what was seen, the more a piece may hold.
            yield Shard(shard.place, after, until, shard.climb + 1 if number else shard.climb)


def _cuts(first: str, last: str, until: str | None, climb: int) -> list[str]:
    """Return texts between `last` and `until`, ascending, where what is left may be split."""
    found: set[str] = set()
    for up in range(climb, climb + _CLIMBS):
        end = until
        for _ in range(WAYS):
            key = split_point(first, last, end, climb=up)
            if key is None:
                break
            found.add(key)
            end = key
    ascending = sorted(found)
    if len(ascending) < WAYS:
        return ascending
    step = len(ascending) / (WAYS - 1)
    return sorted({ascending[int(number * step)] for number in range(WAYS - 1)})


def read_files(
    session: "SparkSession",
    access: Access,
    work: ReadInventory,
    listed: Listed,
    counter: RequestCounter,
    on_round: Callable[[Listed], None],
) -> None:
    """Read what is left of an inventory's data files; see `list_places`.

    Raises:
        FormatError: A file is damaged.
        RefusedError: A file is missing.
        StorageError: A request failed.
    """
    if not listed.files:
        return
    pieces: list[Row] = [{"file": number} for number in listed.files]
    for row in count_requests(counter, run_tasks(session, access, work, pieces)):
        take_row(listed, row, [])
    listed.files = []
    on_round(listed)


def list_places(
    session: "SparkSession",
    access: Access,
    sorter: Sorter,
    listed: Listed,
    counter: RequestCounter,
    on_round: Callable[[Listed], None],
) -> None:
    """List what is left of all places, round by round.

    Args:
        session: Of Spark.
        access: For tasks.
        sorter: Gives classes.
        listed: What earlier rounds, maybe of an earlier attempt, have listed; grows.
        counter: Of requests.
        on_round: Called after each round, before the next; writes down what is listed.

    Raises:
        StorageError: A request failed.
        RefusedError: An owned root holds another table.
    """
    while listed.shards:
        budget = min(FIRST_PAGES * GROWTH**listed.rounds, MOST_PAGES)
        pieces: Sequence[Row] = [{**asdict(shard), "budget": budget} for shard in listed.shards]
        left: list[Shard] = []
        for row in count_requests(counter, run_tasks(session, access, ListShard(sorter), pieces)):
            take_row(listed, row, left)
        listed.shards = [shard for shard in left if shard.place not in listed.problems]
        listed.rounds += 1
        on_round(listed)


def take_row(listed: Listed, row: Row, left: list[Shard]) -> None:
    """Take one row of an answer."""
    if "part" in row:
        listed.parts.append(part_of(row))
    elif "shard" in row:
        left.append(Shard(**row["shard"]))
    elif "first" in row:
        listed.reach += Reach(row["first"], row["last"])
    elif "unlisted" in row:
        listed.problems[row["place"]] = row["unlisted"]
    else:
        listed.totals[row["place"]].add(totals_of(row["totals"]))
        listed.nested |= set(row["nested"])
