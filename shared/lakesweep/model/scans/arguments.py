"""The arguments of a scan for orphan files."""

import re
from dataclasses import dataclass

from lakesweep.errors import UsageError

PARALLELISM = 8
MAX_PARALLELISM = 64
_SCAN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class OrphanArguments:
    """The arguments of a call."""

    older_than_ms: int | None = None
    """Only files written before this time may be deleted; default: a day ago."""
    no_writers: str | None = None
    """Why files younger than a day may be deleted: a reason in words, which the plan records."""
    quarantine_ms: int | None = None
    """An orphan is deleted only if a scan saw it at least this long ago."""
    parallelism: int = PARALLELISM
    """Number of listings at a time."""
    owned_external: tuple[str, ...] = ()
    """External roots that hold files of this table alone. Below other external roots nothing is deleted."""
    inventory: str | None = None
    """Location of an S3 Inventory to read instead of a listing."""
    no_history: str | None = None
    """Why a branch may have a schema but no snapshot: a reason in words, which the plan records."""

    @property
    def may_lack_history(self) -> bool:
        """Tell whether the caller gives a reason why a branch has no snapshot."""
        return bool((self.no_history or "").strip())

    def to_json(self) -> dict[str, object]:
        """Return the arguments as the plan records them."""
        return {
            "older_than_ms": self.older_than_ms,
            "no_writers": self.no_writers,
            "quarantine_ms": self.quarantine_ms,
            "owned_external": list(self.owned_external),
            **({"inventory": self.inventory} if self.inventory else {}),
            **({"no_history": self.no_history} if self.no_history else {}),
        }


def check_scan_id(scan_id: str) -> None:
    """Refuse an invalid id.

    Raises:
        UsageError: The id is invalid.
    """
    if not _SCAN_ID.fullmatch(scan_id):
        raise UsageError(
            f"scan_id: expected letters, digits, dots, dashes and underscores, at most 100, found {scan_id[:200]!r}",
            code="bad_argument",
        )
