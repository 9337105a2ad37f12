"""`lakesweep expire-snapshots`."""

from typing import Annotated

import typer

from lakesweep.cli.options import (
    Branch,
    Control,
    EndpointUrl,
    Execute,
    Json,
    Place,
    Policy,
    ProtectCommitUser,
    Region,
    TableOptions,
    TablePath,
)

EXAMPLES = (
    "lakesweep expire-snapshots s3://lake/sales.db/orders",
    "lakesweep expire-snapshots /data/orders --retain-min 5 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-snapshots /data/orders --option 'snapshot.time-retained=1 d' --json",
)


def expire_snapshots(
    table: TablePath,
    branch: Branch = "main",
    retain_max: Annotated[
        str | None,
        typer.Option("--retain-max", metavar="N", help="Snapshots beyond the newest N go, however young."),
    ] = None,
    retain_min: Annotated[
        str | None, typer.Option("--retain-min", metavar="N", help="The newest N stay, however old.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Snapshots go whose successor is older: ISO-8601 with a zone, or epoch milliseconds.",
        ),
    ] = None,
    max_deletes: Annotated[
        str | None, typer.Option("--max-deletes", metavar="N", help="At most N snapshots go in this run.")
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="Wait for readers between documents and files, such as '10 min'.",
        ),
    ] = None,
    protect_commit_user: ProtectCommitUser = None,
    option: TableOptions = None,
    policy: Policy = None,
    execute: Execute = False,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Drop old snapshots, and the files that only they hold.

    The table's own options are the rules; arguments override them for this call. Of a fleet policy only `pause` counts
    here. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        Place(table, branch, control, endpoint_url, region, as_json, policy),
        "expire_snapshots",
        {
            "retain_max": retain_max,
            "retain_min": retain_min,
            "older_than": older_than,
            "max_deletes": max_deletes,
            "protect_commit_user": protect_commit_user,
            "grace": grace,
        },
        option,
        execute=execute,
    )
