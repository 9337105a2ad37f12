"""`lakesweep execute`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Control, EndpointUrl, Json, Place, Policy, Region, TablePath

EXAMPLES = (
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c",
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c --confirm 20260131T120000Z-1f2e3d4c",
)


def execute(
    table: TablePath,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="As a dry run or `plans` names it.")],
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="PLAN_ID", help="The plan id again, for a plan that asks for confirmation."),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="DURATION", help="Wait so long for readers between documents and files."),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="Refuse a plan of another branch.")
    ] = None,
    policy: Policy = None,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Carry out a stored plan.

    A table that has moved in a way that the plan does not allow for is left alone. Doing it twice is harmless.
    """
    from lakesweep.cli.answer import answer_operation
    from lakesweep.cli.stored import execute_plan

    return answer_operation(
        Place(table, branch or "main", control, endpoint_url, region, as_json, policy),
        "execute",
        lambda opened: execute_plan(opened, plan_id, branch=branch, confirm=confirm, grace=grace),
    )
