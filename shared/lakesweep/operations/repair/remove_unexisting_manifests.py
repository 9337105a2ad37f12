"""`remove-unexisting-manifests`: leave out of the newest snapshot the manifests that certainly do not exist.

Source: Paimon `RemoveUnexistingManifestsAction`.
"""

from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.manifests import look_for_manifests
from lakesweep.operations.repair.run import repair
from lakesweep.runs.session import Table

OPERATION = "remove-unexisting-manifests"


def remove_unexisting_manifests(table: Table, arguments: RepairArguments, *, execute: bool) -> RunReport:
    """Leave lost manifests out of a branch; see `repair`."""
    return repair(table, OPERATION, arguments, look_for_manifests, execute=execute)
