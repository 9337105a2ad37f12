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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new branch.")],
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Begin with this tag of main.")] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="N", help="Begin with this snapshot of main; a tag may still hold it."),
    ] = None,
    execute: Execute = False,
) -> int:
    """Give a table a second history that is written separately from main.

    The branch begins with a tag or a snapshot of main, or empty. Lakesweep copies no file: main and the branch share
    files. As long as the branch exists, no operation of Lakesweep deletes a file that it needs. Paimon makes no such
    promise: if Paimon expires snapshots itself, keep the tag of main as long as the branch. Before and after, Lakesweep
    checks that all files of the source exist, which takes a listing of the table each time. Prints the plan, and
    changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    arguments = {"branch": name, "tag": tag, "snapshot": snapshot}
    return run_named(place, "create_branch", arguments, None, execute=execute)
