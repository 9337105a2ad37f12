"""`lakesweep clear-consumers` and `lakesweep reset-consumer`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

CLEAR_EXAMPLES = (
    "lakesweep clear-consumers s3://lake/sales.db/orders",
    "lakesweep clear-consumers /data/orders --including 'test-.*' --excluding 'test-prod' --execute",
)
RESET_EXAMPLES = (
    "lakesweep reset-consumer /data/orders search --next-snapshot 120 --execute",
    "lakesweep reset-consumer /data/orders search --execute",
)


@at_place("branch", "policy", "control", "external_root")
def clear_consumers(
    place: Place,
    including: Annotated[
        str | None,
        typer.Option("--including", metavar="REGEX", help="Only consumers whose whole name matches; by default all."),
    ] = None,
    excluding: Annotated[
        str | None, typer.Option("--excluding", metavar="REGEX", help="Keep consumers whose whole name matches.")
    ] = None,
    execute: Execute = False,
) -> int:
    """Delete consumers, so that they no longer hold back expiry.

    A reader that returns under such a name finds no stored position. The only rule of a fleet policy that counts
    here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "clear_consumers",
        {"including_consumers": including, "excluding_consumers": excluding},
        None,
        execute=execute,
    )


@at_place("branch", "policy", "control", "external_root")
def reset_consumer(
    place: Place,
    consumer: Annotated[str, typer.Argument(metavar="ID", help="The consumer, as `show` lists it.")],
    next_snapshot: Annotated[
        str | None,
        typer.Option(
            "--next-snapshot", metavar="N", help="Snapshot to continue at; without it the consumer is deleted."
        ),
    ] = None,
    execute: Execute = False,
) -> int:
    """Let a consumer continue at another snapshot, or delete it.

    The only rule of a fleet policy that counts here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "reset_consumer",
        {"consumer_id": consumer, "next_snapshot_id": next_snapshot},
        None,
        execute=execute,
    )
