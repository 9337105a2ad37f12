"""Statistics files: the smallest and largest values of columns, as ANALYZE found them."""

import json

from lakesweep.errors import MaintenanceError, ObjectNotFoundError
from lakesweep.storage.store import Store

_MAX_BYTES = 64 << 20


def has_bounds(store: Store, key: str) -> bool | None:
    """Tell whether a statistics file has a minimum or maximum of some column; `None`: it cannot be read.

    A file that does not exist any more has none.
    """
    try:
        document = json.loads(store.read(key, max_bytes=_MAX_BYTES).data)
        columns = (document.get("colStats") or {}).values()
        return any(each.get(bound) is not None for each in columns for bound in ("min", "max"))
    except ObjectNotFoundError:
        return False
    except (MaintenanceError, ValueError, AttributeError, RecursionError):
        return None
