"""`lakesweep undo`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d",
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d --execute",
)


@at_place("policy", "control", "external_root")
def undo(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="As a report or `runs` names it.")],
    execute: Execute = False,
) -> int:
    """Bring back all that a run deleted, where the bucket keeps versions.

    A deleted tag that took no files with it comes back from the run's plan, also where the bucket keeps no versions.

    A rollback, a fast-forward, and a branch that was made or deleted need no versions: the run's plan has all that they
    changed. They are undone as long as nobody has committed since, and no file is gone that would be needed again.

    Completely or not at all, and not while a fleet policy pauses the table. Prints what would come back, and changes
    nothing without --execute. Doing it twice is harmless.
    """
    from lakesweep.cli.operation import run_named

    return run_named(place, "undo", {"run_id": run_id}, None, execute=execute)
