"""How long documents in the control location are kept: `control.retention` of the fleet policy.

The times begin when a document was last written. `None` keeps documents for good.
"""

from dataclasses import dataclass

from lakesweep.model.safety import KEEP_CACHES_MS, KEEP_PLANS_MS, KEEP_QUARANTINE_MS, KEEP_SCANS_MS

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ControlRetention:
    """How long each kind of documents is kept. The default of the ledger keeps it for good."""

    plans_ms: int | None = 90 * _DAY_MS
    """Stored plans. Without its plan, a run cannot be undone."""
    reports_ms: int | None = 400 * _DAY_MS
    """Reports of runs; never shorter than plans, since a report may say how a plan ended."""
    scans_ms: int | None = KEEP_SCANS_MS
    """What scans for orphan files and jobs on Spark leave."""
    caches_ms: int | None = KEEP_CACHES_MS
    """Metadata caches, and names in manifests that scans remember."""
    quarantine_ms: int | None = 90 * _DAY_MS
    """The orphans that scans with quarantine saw."""
    ledger_ms: int | None = None
    """The ledger; never shorter than reports, since a report names the last part of its ledger."""

    def problem(self) -> tuple[str, str, int | None] | None:
        """Return what is wrong: the key, what is expected there, and the time that is stated; `None`: nothing."""
        for key, least_ms, why in _LEAST:
            stated = getattr(self, f"{key}_ms")
            if stated is not None and stated < least_ms:
                return key, f"at least {least_ms // _DAY_MS} d, or null: {why}", stated
        for key, other, why in _ORDER:
            stated, least = getattr(self, f"{key}_ms"), getattr(self, f"{other}_ms")
            if stated is not None and (least is None or stated < least):
                return key, f"at least the time of {other}, or null: {why}", stated
        return None


KEYS = ("plans", "reports", "scans", "caches", "quarantine", "ledger")
"""Keys of the policy. The fields have them with `_ms`."""
_LEAST = (
    ("plans", KEEP_PLANS_MS, "until then a queued message or a confirmation may need a plan"),
    ("reports", KEEP_PLANS_MS, "until then a queued message may need the report of a plan"),
    ("scans", KEEP_SCANS_MS, "until then a scan may continue, or somebody may ask for its result"),
    ("caches", KEEP_CACHES_MS, "until then scans use what earlier ones remember"),
    ("quarantine", KEEP_QUARANTINE_MS, "otherwise a quarantine may begin anew before it ends"),
    ("ledger", KEEP_PLANS_MS, "until then a run may be finished by its rows"),
)
_ORDER = (
    ("reports", "plans", "a report may say how a plan ended"),
    ("ledger", "reports", "a report names the end of its ledger, and the audit would miss it"),
)
