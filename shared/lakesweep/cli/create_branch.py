"""`lakesweep create-branch`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep create-branch s3://lake/sales.db/orders trial --tag month-end --execute",
    "lakesweep create-branch /data/orders repair --snapshot 28",
    "lakesweep create-branch /data/orders backfill --json",
)


@at_place("policy", "control", "external_root")
def create_branch(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the branch.")],
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="From this tag of main.")] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="N", help="From this snapshot of main, or from one that a tag still holds."),
    ] = None,
    execute: Execute = False,
) -> int:
    """Give a table a second history that is written apart from main.

    It begins as a tag or a snapshot of main, or empty. No file is copied: main and the branch share them, and no
    operation here removes a file that the branch needs, as long as the branch exists. The engine makes no such promise:
    where it expires snapshots itself, keep the tag of main as long as the branch. Before and after, all files of the
    source are looked for, which takes a listing of the table each time. Prints the plan, and changes nothing without
    --execute.
    """
    from lakesweep.cli.operation import run_named

    arguments = {"branch": name, "tag": tag, "snapshot": snapshot}
    return run_named(place, "create_branch", arguments, None, execute=execute)
