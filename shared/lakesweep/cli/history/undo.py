"""`lakesweep undo`."""

from lakesweep.cli.command import PLACE, Typed, command
from lakesweep.runs.parameters.signatures import UNDO


@command(
    UNDO,
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d",
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d --execute",
    place=PLACE[1:],
)
def undo(typed: Typed) -> int:
    """Restore everything that a run deleted, if the bucket keeps versions.

    A deleted tag is restored from the run's plan if no file was deleted with it, even if the bucket keeps no versions.

    A rollback, a fast-forward, and creating or deleting a branch need no versions: the run's plan holds everything that
    they changed. They can be undone as long as nothing was committed since and all files that are needed again exist.

    An undo is complete or does nothing. It is refused while a fleet policy pauses the table. Prints what would be
    restored, and changes nothing without --execute. Running it twice is harmless.
    """
    return typed.run()
