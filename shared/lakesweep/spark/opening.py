"""Open the table that a program names by its location."""

from functools import partial

from lakesweep.control.area import area_of
from lakesweep.model.roots import TableRef, check_whole
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter


def open_table(
    location: str, branch: str, control: str | None, settings: StoreSettings, *, policy: str | None = None
) -> Table:
    """Open one branch of a table. This sends no request.

    Args:
        location: The location of the table.
        branch: The branch.
        control: The control location; `None`: nothing can be executed.
        settings: How to reach S3.
        policy: The location of the fleet policy.

    Raises:
        UsageError: A location is not valid, or is the location of a branch.
        RefusedError: The control location is inside the table.
    """
    place = parse_location(location)
    check_whole(str(place))
    counter = RequestCounter()
    opened = partial(open_store, counter=counter, settings=settings)
    store = open_store(place, counter=counter, settings=settings, control=control)
    area = None if control is None else area_of(opened(control), store)
    return Table(TableRef(str(place), branch), store, area, opened, counter=counter, policy=policy)
