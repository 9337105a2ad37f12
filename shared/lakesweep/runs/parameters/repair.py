"""The operations that repair a table, and their parameters."""

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.parameter import OPTIONS, Signature, flag

ACCEPT_LOSS = flag(
    "accept_loss",
    "Accept what the plan says needs it: that the bucket's versions still have a file, or that most of the table is "
    "lost.",
    is_own=True,
)
REMOVE_UNEXISTING_FILES = Signature(
    "remove-unexisting-files", (ACCEPT_LOSS, CATALOG_TYPE, CATALOG_LOCK, OPTIONS), COMMIT_OPTIONS, commits=True
)
REMOVE_UNEXISTING_MANIFESTS = Signature(
    "remove-unexisting-manifests",
    (
        ACCEPT_LOSS.says(
            "Accept what the plan says needs it: that rows may return which were replaced or deleted, or that the "
            "bucket's versions still have a manifest."
        ),
        CATALOG_TYPE,
        CATALOG_LOCK,
        OPTIONS,
    ),
    COMMIT_OPTIONS,
    commits=True,
)
REPAIR_HINTS = Signature(
    "repair-hints",
    (ACCEPT_LOSS.says("Correct a LATEST above the newest snapshot, though it may be the trace of lost snapshots."),),
)
REPAIRS = (REMOVE_UNEXISTING_FILES, REMOVE_UNEXISTING_MANIFESTS, REPAIR_HINTS)
