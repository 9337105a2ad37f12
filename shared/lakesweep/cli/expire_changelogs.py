"""`lakesweep expire-changelogs`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Branch, Control, EndpointUrl, Execute, Json, Place, Region, TablePath

EXAMPLES = (
    "lakesweep expire-changelogs s3://lake/sales.db/orders --retain-max 100",
    "lakesweep expire-changelogs /data/orders --retain-min 10 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-changelogs /data/orders --delete-all --json",
)


def expire_changelogs(
    table: TablePath,
    branch: Branch = "main",
    retain_max: Annotated[
        str | None,
        typer.Option("--retain-max", metavar="N", help="Beyond the newest N, snapshots included, changelogs go."),
    ] = None,
    retain_min: Annotated[
        str | None,
        typer.Option("--retain-min", metavar="N", help="The newest N, snapshots included, stay, however old."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Changelogs go that were committed before: ISO-8601 with a zone, or epoch milliseconds.",
        ),
    ] = None,
    max_deletes: Annotated[
        str | None, typer.Option("--max-deletes", metavar="N", help="At most N changelogs go in this run.")
    ] = None,
    delete_all: Annotated[
        bool, typer.Option("--delete-all", help="Every changelog goes, once all are older than the oldest snapshot.")
    ] = False,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="Wait for readers between documents and files, such as '10 min'.",
        ),
    ] = None,
    execute: Execute = False,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Drop old changelogs that outlive their snapshots, and the files that only they hold.

    Without arguments everything stays: the table's own options are applied by `maintain`. The newest changelog always
    stays. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        Place(table, branch, control, endpoint_url, region, as_json),
        "expire_changelogs",
        {
            "retain_max": retain_max,
            "retain_min": retain_min,
            "older_than": older_than,
            "max_deletes": max_deletes,
            "delete_all": delete_all or None,
            "grace": grace,
        },
        None,
        execute=execute,
    )
