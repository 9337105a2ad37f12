"""The operations that repair a table, and their parameters."""

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.parameter import OPTIONS, Signature, text

ACCEPT_LOSS = text(
    "accept_loss", "Accept the loss that the plan showed with this id, and no other one.", "ID", is_own=True
)
_COMMITTING = (ACCEPT_LOSS, CATALOG_TYPE, CATALOG_LOCK, OPTIONS)
REMOVE_UNEXISTING_FILES = Signature("remove-unexisting-files", _COMMITTING, COMMIT_OPTIONS, commits=True)
REMOVE_UNEXISTING_MANIFESTS = Signature("remove-unexisting-manifests", _COMMITTING, COMMIT_OPTIONS, commits=True)
CLEAN_DELETION_VECTORS = Signature(
    "clean-deletion-vectors", (CATALOG_TYPE, CATALOG_LOCK, OPTIONS), COMMIT_OPTIONS, commits=True
)
REPAIR_HINTS = Signature("repair-hints", ())
REPAIRS = (REMOVE_UNEXISTING_FILES, REMOVE_UNEXISTING_MANIFESTS, CLEAN_DELETION_VECTORS, REPAIR_HINTS)
