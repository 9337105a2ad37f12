"""`lakesweep maintain`."""

from dataclasses import replace
from typing import Annotated

import typer

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place
from lakesweep.errors import UsageError
from lakesweep.model.table_ref import MAIN

EXAMPLES = (
    "lakesweep maintain s3://lake/sales.db/orders --control s3://ops/lakesweep --execute",
    "lakesweep maintain s3://lake/sales.db/orders --policy s3://ops/policy.json --execute",
    "lakesweep maintain /data/orders --branch rt",
    "lakesweep maintain /data/orders --all-branches --min-interval '1 min' --execute",
)


@at_place("policy", "control", "external_root")
def maintain(
    place: Place,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="Branch of the table; by default main.")
    ] = None,
    all_branches: Annotated[
        bool,
        typer.Option("--all-branches", help="Main and every branch, one after the other, each by its own options."),
    ] = False,
    min_interval: Annotated[
        str | None,
        typer.Option(
            "--min-interval",
            metavar="DURATION",
            help="With --execute: do nothing if the last pass is more recent than this, such as '1 min'.",
        ),
    ] = None,
    option: options.TableOptions = None,
    protect_commit_user: options.ProtectCommitUser = None,
    execute: options.Execute = False,
) -> int:
    """Run the maintenance that a table's own options ask for after a commit.

    The table's schema must state its retention; --option or the fleet policy may state it instead. With a fleet policy,
    Lakesweep deletes only from tables for which the policy says so. Prints the plan, and changes nothing without
    --execute.
    """
    from lakesweep.cli.operation import run_named

    if branch is not None and all_branches:
        raise UsageError("--branch and --all-branches exclude each other; expected one of them")
    return run_named(
        replace(place, branch=branch or MAIN, all_branches=all_branches),
        "maintain",
        {
            "all_branches": all_branches or None,
            "min_interval": min_interval,
            "protect_commit_user": protect_commit_user,
        },
        option,
        execute=execute,
    )
