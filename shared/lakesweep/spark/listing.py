"""The objects below a table and its external roots. Executors list them and store them in parts.

Listing proceeds in rounds. A task lists one shard (`operations/orphans/listing.py`) until its budget is used up. It
returns the rest of the shard to the driver in several pieces, which become shards of the next round. The results of a
round count once the driver has stored them. A scan that dies continues with the shards that are left.

The task also classifies each object. An object that no rule can ever make an orphan is only counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.errors import MaintenanceError
from lakesweep.format.codec import from_json, to_json
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import Layout
from lakesweep.operations.orphans.listing import Place, PlaceListing, Shard, Walk
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.spark.parts import Columns, Part, as_bytes, part_of, part_row
from lakesweep.spark.tasks import Access, Row, Task, count_requests, run_tasks
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Page
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.inventory.reach import Reach, reach_of
from lakesweep.table.inventory.rows import read_file, rows_of

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
"""Factor by which the budget grows with each round."""
MOST_PAGES = 128
"""Largest budget. If few shards hold most keys, a round lasts as long as its largest shard. A small budget makes more
rounds and some more requests. But the last rounds take less than half as long as with a budget of a thousand pages."""
_LISTING = "listing"


@dataclass(slots=True)
class Listed:
    """What Lakesweep has listed so far."""

    parts: list[Part] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    """Shards that are left to list."""
    totals: list[Totals] = field(default_factory=list)
    """Totals of each place."""
    nested: set[str] = field(default_factory=set)
    """Folders of other tables below this table."""
    problems: dict[int, str] = field(default_factory=dict)
    """Place -> why it could not be listed. Only places that may be absent."""
    rounds: int = 0
    files: list[int] = field(default_factory=list)
    """Numbers of the inventory's data files that are left to read."""
    reach: Reach = field(default_factory=Reach)
    """Range of keys that the data files read so far cover."""


@dataclass(frozen=True, slots=True)
class Sorter:
    """Classifies objects and collects them into parts."""

    layout: Layout
    places: tuple[Place, ...]
    folder: str

    def rows(self, task: Task, place_number: int, pages: Iterator[Page]) -> Iterator[Row]:
        """Take pages of one place, and yield parts, totals and nested tables."""
        found = PlaceListing(task.access.table, self.places[place_number], FileClasses(self.layout))
        columns = Columns(task.scans, self.folder, _LISTING, LISTING_SCHEMA)
        for page in pages:
            for each, path, what in found.sorted(page):
                columns.add(
                    place_number,
                    as_bytes(each.key.rpartition("/")[2]),
                    as_bytes(path),
                    each.size_bytes,
                    each.etag,
                    each.modified_ms,
                    what.kind,
                    what.policy,
                    None if what.owner is None else as_bytes(what.owner),
                )
            yield from map(part_row, columns.full())
        yield from map(part_row, columns.rest())
        yield {"place": place_number, "totals": to_json(found.totals), "nested": sorted(found.nested)}


@dataclass(frozen=True, slots=True)
class ListShard:
    """A task's work: list one shard within its budget."""

    sorter: Sorter

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Yield the sorter's rows, and the shards that are left."""
        budget = piece.pop("budget")
        shard = Shard(**piece)
        place = self.sorter.places[shard.place]
        walk = Walk(shard, budget, task.store(place.location).list_range("", shard.after, shard.until))
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
    """A task's work: read one data file of an inventory, which replaces a listing of the table."""

    sorter: Sorter
    inventory: Inventory
    prefix: str

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Yield the sorter's rows, and the range of keys that the file covers."""
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


def read_files(
    session: "SparkSession",
    access: Access,
    work: ReadInventory,
    listed: Listed,
    counter: RequestCounter,
    on_round: Callable[[Listed], None],
) -> None:
    """Read the data files of an inventory that are left to read; see `list_places`.

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
    """List the shards that are left in all places, round by round.

    Args:
        session: The Spark session.
        access: How tasks reach the stores.
        sorter: Classifies objects.
        listed: The listing of earlier rounds, possibly of an earlier attempt; this function extends it.
        counter: Counts requests.
        on_round: Called after each round, before the next one; it stores the listing.

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
    """Add one row of an answer to the listing."""
    if "part" in row:
        listed.parts.append(part_of(row))
    elif "shard" in row:
        left.append(Shard(**row["shard"]))
    elif "first" in row:
        listed.reach += Reach(row["first"], row["last"])
    elif "unlisted" in row:
        listed.problems[row["place"]] = row["unlisted"]
    else:
        listed.totals[row["place"]].add(from_json(Totals, row["totals"], "the answer of a task"))
        listed.nested |= set(row["nested"])
