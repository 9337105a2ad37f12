"""`lakesweep remove-orphan-files`."""

from dataclasses import replace
from typing import Annotated

import typer

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db --control s3://ops/lakesweep --execute",
    "lakesweep remove-orphan-files /data/orders --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine auto --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine spark --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine lambda --control s3://ops/lakesweep "
    "--scan-queue https://sqs.eu-central-1.amazonaws.com/111122223333/lakesweep-scan",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --quarantine '1 d' --control s3://ops/lakesweep --execute",
)


@at_place("control", "external_root")
def remove_orphan_files(
    place: Place,
    older_than: options.OlderThan = None,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DURATION",
            help="Delete a file only if a call at least this long ago already saw it as an orphan, such as '1 d'.",
        ),
    ] = None,
    no_writers: Annotated[
        str | None,
        typer.Option(
            "--no-writers",
            metavar="REASON",
            help="Reason why files younger than a day may be deleted: no writer exists that could still commit them.",
        ),
    ] = None,
    no_history: Annotated[
        str | None,
        typer.Option(
            "--no-history",
            metavar="REASON",
            help="Reason why a branch may have a schema and no snapshot: it never had a snapshot.",
        ),
    ] = None,
    owned_external: Annotated[
        list[str] | None,
        typer.Option(
            "--owned-external",
            metavar="URI",
            help="An external root that holds only files of this table; repeatable. Nothing is deleted at other places "
            "outside. Not for a database.",
        ),
    ] = None,
    parallelism: Annotated[
        str | None, typer.Option("--parallelism", metavar="N", help="Listings at the same time; default 8.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What finds the files. local (the default): this process. lambda: functions of a deployment "
            "(--scan-queue). spark: a Spark session, of spark-submit or on this machine. auto: the cheapest of these "
            "that is available and suitable; prints the choice, the reason, and the expected time and cost.",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="MODE", help="As in Paimon's procedure: local, or distributed (spark)."),
    ] = None,
    inventory: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="URI",
            help="manifest.json of an S3 Inventory that replaces the listing (docs/inventory.md).",
        ),
    ] = None,
    scan_id: Annotated[
        str | None,
        typer.Option(
            "--scan-id",
            metavar="ID",
            help="Continue this interrupted scan on Spark, or wait again for this scan of one table by functions.",
        ),
    ] = None,
    scan_queue: Annotated[
        str | None,
        typer.Option(
            "--scan-queue",
            metavar="URL",
            help="Queue at which a deployment takes scans: the output ScanQueueUrl of its stack. By default "
            "$LAKESWEEP_SCAN_QUEUE.",
        ),
    ] = None,
    execute: options.Execute = False,
) -> int:
    """Delete files that no snapshot, tag or changelog of any branch refers to. TABLE may also be a database.

    Lakesweep deletes only files older than a day, unless --older-than says otherwise. It deletes a file only if
    Paimon writes files of such a name at such a place. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    of_one_table = ["owned_external"] if owned_external else []
    if scan_id is not None and engine in ("lambda", "auto"):
        # a scan by functions is waited for by its id, and other tables have no such scan
        of_one_table.append("scan_id")
    return run_named(
        replace(place, scan_id=scan_id, engine=engine or mode, scan_queue=scan_queue),
        "remove_orphan_files",
        {
            "older_than": older_than,
            "quarantine": quarantine,
            "no_writers": no_writers,
            "no_history": no_history,
            "owned_external": owned_external,
            "parallelism": parallelism,
            "engine": engine,
            "inventory": inventory,
            "mode": mode,
        },
        None,
        execute=execute,
        may_be_database=True,
        of_one_table=of_one_table,
    )
