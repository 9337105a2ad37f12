"""`lakesweep delete-branch`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep delete-branch s3://lake/sales.db/orders trial --execute",
    "lakesweep delete-branch /data/orders repair --json",
)


@at_place("policy", "control", "external_root")
def delete_branch(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the branch.")],
    execute: Execute = False,
) -> int:
    """Delete a branch. Its documents are deleted; files that only the branch holds become orphans.

    Stop all writers of the branch first. Lakesweep refuses if an option of the table or of another branch names the
    branch. It also refuses if the branch's folder contains anything but its documents. Prints first what is lost, and
    changes nothing without --execute. `undo` restores the branch as long as its files exist.
    """
    from lakesweep.cli.operation import run_named

    return run_named(place, "delete_branch", {"branch": name}, None, execute=execute)
