"""`lakesweep undo`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Control, EndpointUrl, Execute, Json, Place, Policy, Region, TablePath

EXAMPLES = (
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d",
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d --execute",
)


def undo(
    table: TablePath,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="As a report or `runs` names it.")],
    execute: Execute = False,
    policy: Policy = None,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Bring back all that a run deleted, where the bucket keeps versions.

    Completely or not at all. Prints what would come back, and changes nothing without --execute. Doing it twice is
    harmless.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        Place(table, "main", control, endpoint_url, region, as_json, policy),
        "undo",
        {"run_id": run_id},
        None,
        execute=execute,
    )
