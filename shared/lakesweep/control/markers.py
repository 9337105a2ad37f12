"""Which run made a delete marker, according to the ledger."""

from collections.abc import Mapping

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import unpack
from lakesweep.errors import FormatError, ObjectNotFoundError


def makers_of(area: ControlArea, markers: Mapping[str, str], not_of: str) -> dict[str, str]:
    """Return path -> run that made the marker there, for markers that runs of other plans made.

    Costs a listing, and a read for each part of the ledger. Damaged parts are skipped.

    Args:
        area: Where the ledger is.
        markers: Path -> version id of its marker.
        not_of: Rows of this plan are ignored.

    Raises:
        StorageError: A request failed.
    """
    found: dict[str, str] = {}
    for name in area.names("ledger/"):
        try:
            rows = list(unpack(area.read(name).data, area.path(name)))
        except (FormatError, ObjectNotFoundError):
            continue
        for row in rows:
            path = str(row.get("key"))
            is_maker = row.get("result") == "deleted" and row.get("version_id") == markers.get(path)
            if path in markers and is_maker and row.get("plan_id") != not_of:
                found[path] = name.split("/")[2]
    return found
