"""Open the tables of a warehouse, in this process or in others."""

from dataclasses import dataclass, replace
from typing import Any

from lakesweep.api.mending import with_words
from lakesweep.api.opening import control_location, open_table, overviews_area
from lakesweep.api.place import Place, given
from lakesweep.control.area import ControlArea
from lakesweep.model.overview import Overview, TableOverview
from lakesweep.model.progress import Progress
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store


@dataclass(frozen=True, slots=True)
class PlaceOpening:
    """Opens each table as a place says, whose own table does not matter; see `Opening`.

    Other processes get it, too, and read the same environment.
    """

    place: Any
    """A dataclass with the fields of `api.place.Place`."""

    def store(self, location: str, counter: RequestCounter) -> Store:
        """Return the store of a warehouse, a database or a table."""
        settings = StoreSettings(endpoint_url=self.place.endpoint_url, region=self.place.region)
        return open_store(parse_location(given(location, "PLACE")), counter=counter, settings=settings)

    def table(self, location: str, counter: RequestCounter, progress: Progress) -> Table:
        """Return the table at a location."""
        return open_table(replace(self.place, table=location), counter, progress)

    def area(self, folder: str, counter: RequestCounter) -> ControlArea | None:
        """Return where overviews of the tables of a folder are remembered."""
        return overviews_area(self.place, folder, counter)

    def control(self, place: str) -> str | None:
        """Return the control location for the tables of a place."""
        return control_location(self.place, parse_location(place))


def with_options(overview: Overview, place: Place) -> Overview:
    """Return an overview whose commands include the options of this call, such as its control location."""
    return replace(overview, tables=tuple(_with_options(table, place) for table in overview.tables))


def _with_options(table: TableOverview, place: Place) -> TableOverview:
    findings = tuple(
        found if found.command is None else replace(found, command=with_words(found.command, place))
        for found in table.findings
    )
    return replace(table, findings=findings)
