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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the branch.")],
    execute: Execute = False,
) -> int:
    """Remove a branch: its documents go, and files that only it holds are orphans then.

    Stop what writes to the branch first. A branch that an option of the table or of another branch names stays, and so
    does one in whose folder lies anything but its documents. Prints first what is lost, and changes nothing without
    --execute; `undo` brings the branch back as long as its files are there.
    """
    from lakesweep.cli.operation import run_named

    return run_named(place, "delete_branch", {"branch": name}, None, execute=execute)
