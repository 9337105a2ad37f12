"""`remove-unexisting-files`: leave out of the newest snapshot the data files that certainly do not exist.

Paimon's procedure commits entries that delete them. This commits a base list without them and an empty delta list, so
that readers of changes see nothing. Source: Paimon `RemoveUnexistingFilesAction`, `ListUnexistingFiles`.
"""

from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.files import look_for_files
from lakesweep.operations.repair.run import repair
from lakesweep.runs.session import Table

OPERATION = "remove-unexisting-files"


def remove_unexisting_files(table: Table, arguments: RepairArguments, *, execute: bool) -> RunReport:
    """Leave lost data files out of a branch; see `repair`."""
    return repair(table, OPERATION, arguments, look_for_files, execute=execute)
