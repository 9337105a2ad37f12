"""The commands that repair a table: leave out what is lost or gone, correct hints."""

from lakesweep.cli.command import Typed, command
from lakesweep.runs.parameters import repair as given


@command(
    given.REMOVE_UNEXISTING_FILES,
    "lakesweep remove-unexisting-files s3://lake/sales.db/orders",
    "lakesweep remove-unexisting-files /data/orders --accept-loss 3f9ac2d1e0b4 --catalog-type filesystem --execute",
)
def remove_unexisting_files(typed: Typed) -> int:
    """Leave missing data files out of a table, by a new snapshot without them, so that it reads again.

    Their rows are lost: restore the files instead if you can. A file counts as missing if no listing shows it and the
    store says that it does not exist. After any other answer, or with damaged metadata, nothing is left out. The plan
    names the lost rows by partition, every doubt, and an id: --accept-loss ID accepts this loss alone, so an execution
    that finds another one is refused. Snapshots, tags and branches that need the files stay incomplete. If an index
    file is missing, the status is `damaged`. Readers of changes see nothing. The rules of a fleet policy that count
    here are `pause`, `catalog_type` and `catalog_lock`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    given.REMOVE_UNEXISTING_MANIFESTS,
    "lakesweep remove-unexisting-manifests s3://lake/sales.db/orders",
    "lakesweep remove-unexisting-manifests /data/orders --accept-loss 3f9ac2d1e0b4 --catalog-type filesystem --execute",
)
def remove_unexisting_manifests(typed: Typed) -> int:
    """Leave missing manifests out of a table, by a new snapshot without them, so that it reads again.

    Restore a missing manifest instead if you can: nothing tells which files it named. Files that only it added become
    orphans, which remove-orphan-files lists and, with --execute, deletes. Files that it deleted may be live again, with
    rows that were replaced or deleted. --accept-loss ID accepts exactly the loss that the plan showed. If data or index
    files are missing, too, the status is `damaged`. A missing manifest list, index manifest or snapshot cannot be
    repaired. The rules of a fleet policy that count here are `pause`, `catalog_type` and `catalog_lock`. Prints the
    plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    given.CLEAN_DELETION_VECTORS,
    "lakesweep clean-deletion-vectors s3://lake/sales.db/orders",
    "lakesweep clean-deletion-vectors /data/orders --catalog-type filesystem --execute",
)
def clean_deletion_vectors(typed: Typed) -> int:
    """Leave deletion vectors of files that are gone out of a table, by a new snapshot with the same rows.

    Drops and overwrites by pypaimon leave such vectors, and so do full compactions by Paimon up to 1.4. Beside one,
    Paimon cannot drop, overwrite or compact a partition without buckets. A file is gone if no manifest of the newest
    snapshot adds it; one that only the store lost is not. The vectors of all other files stay, byte by byte. A table
    whose options turn vectors off is left alone. A delete or compaction by Paimon that runs meanwhile may have to run
    again. The rules of a fleet policy that count here are `pause`, `catalog_type` and `catalog_lock`. Prints the plan,
    and changes nothing without --execute.
    """
    return typed.run()


@command(
    given.REPAIR_HINTS,
    "lakesweep repair-hints s3://lake/sales.db/orders",
    "lakesweep repair-hints /data/orders --branch trial --execute",
)
def repair_hints(typed: Typed) -> int:
    """Correct the hints LATEST and EARLIEST of a branch where they say something wrong.

    A LATEST that names a missing snapshot stops Paimon's readers and writers. An EARLIEST above the oldest snapshot
    keeps older ones for ever. A hint that is missing stays missing. Where LATEST names a later snapshot than there is,
    snapshots may be lost: such a plan has to be confirmed. The only rule of a fleet policy that counts here is `pause`.
    Prints the plan, and changes nothing without --execute.
    """
    return typed.run()
