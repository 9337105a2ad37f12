"""`lakesweep tag-schedule`."""

from typing import Annotated

import typer

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep tag-schedule s3://lake/sales.db/orders --execute",
    "lakesweep tag-schedule /data/orders --time-zone Europe/Berlin",
    "lakesweep tag-schedule /data/orders --option tag.automatic-creation=process-time --option "
    "sink.process-time-zone=UTC --execute",
    "lakesweep tag-schedule /data/orders --backfill --execute",
)


@at_place("branch", "policy", "control", "external_root")
def tag_schedule(
    place: Place,
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill",
            help="Also create tags of missed periods, if a snapshot from before the period's end is left.",
        ),
    ] = False,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="Time zone of the tags' times, and of their names if the table states no zone. By default that of the "
            "fleet policy.",
        ),
    ] = None,
    option: options.TableOptions = None,
    execute: options.Execute = False,
) -> int:
    """Create the tags that a table's options ask for, and delete expired ones.

    These are the first steps of maintain, without a commit and without the later steps. Prints the plan, and changes
    nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "trigger_tag_automatic_creation",
        {"backfill": backfill or None, "time_zone": time_zone},
        option,
        execute=execute,
        always_typed=("time_zone",),
    )
