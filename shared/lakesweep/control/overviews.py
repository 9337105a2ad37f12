"""What earlier overviews measured, kept between runs: one document for all tables of one folder.

It lies in `overviews/<key of the folder>/` beside `tables/`. The document decides nothing: a row that is lost costs one
measurement of its table. So whatever is damaged, of another version or without a right seal counts as absent, and two
overviews at the same time may overwrite each other's rows. Where a plan key is configured, the document is sealed,
since people copy commands from an overview.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import compact, pack, unpack
from lakesweep.control.sealed import believed, put_sealed
from lakesweep.errors import FormatError, StorageError
from lakesweep.format.codec import Check, from_json, to_json
from lakesweep.model.overview import TableOverview

ROOT = "overviews"
"""The folder of the control location with these documents."""
OVERVIEWS_VERSION = 1
"""Grows with every change of what a row holds, or of how a figure is measured."""
MAX_TABLES = 10_000
MAX_TEXT_BYTES = 128 << 20
MAX_BYTES = 32 << 20
"""Of the compressed document."""
MAX_ROW_BYTES = 1 << 20
"""The row of a table is far smaller, unless its names are long."""
KEPT_MS = 30 * 24 * 3600 * 1000
"""The row of a table that no overview asked for in this time is forgotten."""
NAME = "tables.ndjson.gz"
_Time = Annotated[int, Check(lambda number: 0 <= number < 1 << 53, "a time")]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an overview measured of a table."""

    fingerprint: str
    """Equal as long as the table and everything else that decides about its figures is the same."""
    holds_until_ms: _Time
    """From this time on, time alone may have changed the figures."""
    seen_ms: _Time
    """When an overview last asked for the table."""
    overview: TableOverview


def read_overviews(area: ControlArea) -> dict[str, Remembered]:
    """Return table -> what was measured of it; empty if there is no usable document.

    Raises:
        StorageError: The document could not be read, for another reason than absence or its size.
    """
    try:
        data = area.store.read(area.prefix + NAME, MAX_BYTES).data
    except StorageError as error:
        if error.code in ("not_found", "too_large"):
            return {}
        raise
    known = believed(area, NAME, data)
    found: dict[str, Remembered] = {}
    try:
        rows = () if known is None else unpack(known, area.path(NAME), max_rows=MAX_TABLES + 1)
        for number, row in enumerate(rows):
            if number == 0:
                if row != _head(area):
                    return {}
                continue
            remembered: Remembered = from_json(Remembered, row, area.path(NAME))
            found[remembered.overview.table] = remembered
    except FormatError:
        return {}
    return found


def write_overviews(area: ControlArea, rows: Mapping[str, Remembered]) -> None:
    """Replace the document. If there are too many rows, those that were asked for last are kept.

    Raises:
        StorageError: It could not be written.
    """
    put_sealed(area, NAME, pack([_head(area), *_bounded(rows.values())]))


def merged(theirs: Mapping[str, Remembered], ours: Mapping[str, Remembered], now_ms: int) -> dict[str, Remembered]:
    """Return the rows of two overviews: of each table the one measured last, without those nobody asked for lately."""
    found = dict(ours)
    for table, row in theirs.items():
        if table not in found or found[table].overview.measured_ms < row.overview.measured_ms:
            found[table] = row
    return {table: row for table, row in found.items() if now_ms - row.seen_ms < KEPT_MS}


def _head(area: ControlArea) -> dict[str, object]:
    return {"format_version": OVERVIEWS_VERSION, "folder": area.table}


def _bounded(rows: Iterable[Remembered]) -> Iterable[object]:
    left = MAX_TEXT_BYTES
    for row in sorted(rows, key=lambda each: -each.seen_ms)[:MAX_TABLES]:
        document = to_json(row)
        size = len(compact(document))
        if size > MAX_ROW_BYTES:
            continue
        left -= size
        if left < 0:
            return
        yield document
