"""How an overview reaches tables: the caller opens them, and says where documents about them are kept."""

from typing import Protocol

from lakesweep.control.area import ControlArea
from lakesweep.model.progress import Progress
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store


class Opening(Protocol):
    """Opens places. If this can be pickled, an overview of many tables uses several processes.

    No method sends a request.
    """

    def store(self, location: str, counter: RequestCounter) -> Store:
        """Return the store of a warehouse, a database or a table.

        Raises:
            UsageError: It is no location.
        """

    def table(self, location: str, counter: RequestCounter, progress: Progress) -> Table:
        """Return the table at a location.

        Raises:
            UsageError: It is no location of a table.
            RefusedError: The control location is inside the table.
        """

    def area(self, folder: str, counter: RequestCounter) -> ControlArea | None:
        """Return where overviews of the tables of a folder are remembered.

        `None`: no control location is known, or nothing is to be remembered.
        """

    def control(self, place: str) -> str | None:
        """Return the control location for the tables of a place; `None`: there is none."""
