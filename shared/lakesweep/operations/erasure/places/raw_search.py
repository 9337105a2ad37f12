"""Search data files as they are, without deletion vectors. A file that cannot be read stops no other one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakesweep.errors import AccessDeniedError, FormatError, MaintenanceError, ObjectNotFoundError, RefusedError
from lakesweep.model.erasure.places import Reason
from lakesweep.model.reading.plan import ReadFile, ReadPlan, pack
from lakesweep.model.roots import base_name
from lakesweep.operations.reading.arrow import MISSING
from lakesweep.operations.rows.engine import RowsEngine

_SPLIT_BYTES, _OPEN_COST_BYTES = 128 << 20, 4 << 20


@dataclass(slots=True)
class RawSearch:
    """What was found in some files."""

    rows: dict[str, int] = field(default_factory=dict)
    """Name of a file -> how many rows of the condition it has; files without such rows are left out."""
    marks: dict[str, str] = field(default_factory=dict)
    """Name of such a file -> a hash of the positions of these rows."""
    failed: dict[str, Reason] = field(default_factory=dict)
    """Name of a file that cannot be read -> why."""


def search_raw(engine: RowsEngine, plan: ReadPlan, files: Sequence[ReadFile]) -> RawSearch:
    """Search some files. If this fails, their halves are searched, until the file that fails is alone.

    Args:
        engine: Searches files.
        plan: What all files share.
        files: The files, without vectors.

    Raises:
        StorageError: A request failed, and the file was neither absent nor forbidden.
    """
    found = RawSearch()
    pending = [list(files)] if files else []
    while pending:
        part = pending.pop()
        try:
            matches = list(engine.match(replace(plan, splits=pack(part, _SPLIT_BYTES, _OPEN_COST_BYTES))))
        except (FormatError, RefusedError, ObjectNotFoundError, AccessDeniedError) as error:
            if len(part) == 1:
                found.failed[base_name(part[0].path)] = _reason(error)
            else:
                half = len(part) // 2
                pending += [part[half:], part[:half]]
            continue
        found.rows |= {base_name(match.path): match.count for match in matches}
        found.marks |= {base_name(match.path): hashlib.sha256(match.blob).hexdigest()[:32] for match in matches}
    return found


def _reason(error: MaintenanceError) -> Reason:
    if isinstance(error, AccessDeniedError) or isinstance(error.__cause__, AccessDeniedError):
        return "denied"
    if isinstance(error, ObjectNotFoundError) or error.code == MISSING:
        return "missing"
    return "damaged"
