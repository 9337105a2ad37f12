"""`lakesweep expire-changelogs`."""

from typing import Annotated

import typer

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep expire-changelogs s3://lake/sales.db/orders --retain-max 100",
    "lakesweep expire-changelogs /data/orders --retain-min 10 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-changelogs /data/orders --delete-all --json",
)


@at_place("branch", "policy", "control", "external_root")
def expire_changelogs(
    place: Place,
    retain_max: options.RetainMax = None,
    retain_min: options.RetainMin = None,
    older_than: options.OlderThan = None,
    max_deletes: options.MaxDeletes = None,
    delete_all: Annotated[
        bool, typer.Option("--delete-all", help="Delete every changelog if all are older than the oldest snapshot.")
    ] = False,
    grace: options.Grace = None,
    execute: options.Execute = False,
) -> int:
    """Delete old changelogs that outlive their snapshots, and the files that only they hold.

    Without arguments nothing is deleted: `maintain` applies the table's own options. Counts include the snapshots. A
    changelog is older than a time if it was committed before it. The newest changelog is always kept. The only rule of
    a fleet policy that counts here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
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
