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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the branch that main becomes equal to.")],
    lose_tag: Annotated[
        list[str] | None,
        typer.Option(
            "--lose-tag",
            metavar="NAME",
            help="Allow the deletion of this tag of main, even if another branch was made from it or a calendar rule "
            "keeps it; repeatable.",
        ),
    ] = None,
    execute: Execute = False,
) -> int:
    """Make main equal to a branch; the branch is kept.

    Main keeps its snapshots and tags before the branch's first snapshot, and gets everything of the branch. Readers can
    read main completely at every moment. If a run dies, the next one finishes it. No file is deleted: files that only
    main's former snapshots had become orphans. Stop writers of main first. A commit in between is kept; then Lakesweep
    reverts the branch rewrite, or stops there. The only rules of a fleet policy that count here are `pause` and the
    calendar rules that keep tags. Prints the plan, and changes nothing without --execute.
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
