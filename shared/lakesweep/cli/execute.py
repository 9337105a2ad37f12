"""`lakesweep execute`."""

from dataclasses import replace
from typing import Annotated

import typer

from lakesweep.cli.options import Grace, Place, at_place

EXAMPLES = (
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c",
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c --confirm 20260131T120000Z-1f2e3d4c",
)


@at_place("policy", "control")
def execute(
    place: Place,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="As a dry run or `plans` names it.")],
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="PLAN_ID", help="The plan id again, for a plan that asks for confirmation."),
    ] = None,
    grace: Grace = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="Refuse a plan of another branch.")
    ] = None,
) -> int:
    """Carry out a stored plan.

    A table that has moved in a way that the plan does not allow for is left alone. Doing it twice is harmless.
    """
    from lakesweep.cli.answer import answer_operation
    from lakesweep.cli.stored import execute_plan

    return answer_operation(
        replace(place, branch=branch or "main"),
        "execute",
        lambda opened: execute_plan(opened, plan_id, branch=branch, confirm=confirm, grace=grace),
    )
