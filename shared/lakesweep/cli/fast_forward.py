"""`lakesweep fast-forward`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep fast-forward s3://lake/sales.db/orders reload",
    "lakesweep fast-forward /data/orders reload --execute",
    "lakesweep fast-forward /data/orders reload --lose-tag 2026-01-31 --json",
)


@at_place("policy", "control", "external_root")
def fast_forward(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the branch that main becomes.")],
    lose_tag: Annotated[
        list[str] | None,
        typer.Option(
            "--lose-tag",
            metavar="NAME",
            help="This tag of main may go, although another branch was made from it or a calendar rule keeps it; "
            "repeatable.",
        ),
    ] = None,
    execute: Execute = False,
) -> int:
    """Make main what a branch is; the branch stays.

    Of main stay the snapshots and tags before the branch's first snapshot, and everything of the branch comes. Main can
    be read whole at every moment, and a run that dies is finished by the next one. No file is deleted: those that only
    main's former snapshots had are orphans then. Stop writers of main first: a commit that comes in between is kept,
    and the move is taken back or stops there. Of a fleet policy `pause` and the calendar rules that keep tags count
    here. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "fast_forward",
        {"branch": name, "lose_tag": lose_tag or None},
        None,
        execute=execute,
        always_typed=("lose_tag",),
    )
