"""`lakesweep rollback`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep rollback s3://lake/sales.db/orders --snapshot 28",
    "lakesweep rollback s3://lake/sales.db/orders --tag before-load --execute",
    "lakesweep rollback /data/orders --timestamp 2026-01-31T12:00:00Z --execute",
    "lakesweep rollback /data/orders --snapshot 28 --lose-tag 2026-01-31 --json",
)


@at_place("branch", "policy", "control", "external_root")
def rollback(
    place: Place,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="N", help="To this snapshot, or to the first tag that still holds it."),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="To the snapshot of this tag.")] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="TEXT", help="As in VERSION AS OF: a tag, watermark-<n> or a snapshot id."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIME",
            help="To the last snapshot committed at or before this time: ISO-8601 with a zone, or epoch milliseconds.",
        ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option("--watermark", metavar="W", help="To the last snapshot with this or a lower watermark."),
    ] = None,
    lose_tag: Annotated[
        list[str] | None,
        typer.Option(
            "--lose-tag",
            metavar="NAME",
            help="Allow the deletion of this tag of a later snapshot, even if a branch was made from it or a calendar "
            "rule keeps it; repeatable.",
        ),
    ] = None,
    execute: Execute = False,
) -> int:
    """Make an older version the newest one again.

    Deletes later snapshots, changelogs and tags, but no files: remove-orphan-files finds the files that no version has
    any more. Prints first what will be lost. If a run dies, the next one finishes it. `undo` reverts a rollback as long
    as nothing was committed since.

    What it can promise while others write: Lakesweep notices a commit of any writer in the meantime. Then the branch is
    left as it was, with that commit on top. A commit after the last check may leave a gap in the ids, or continue from
    a version that was rolled back. So stop the writers before, and start them again afterwards. Expiry by Lakesweep
    waits, or the rollback is refused. Expiry by Paimon that has already chosen its files continues. Lakesweep notices
    what it deletes until the last check, but not afterwards. See docs/safety.md.

    Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "rollback",
        {
            "snapshot": snapshot,
            "tag": tag,
            "version": version,
            "timestamp": timestamp,
            "watermark": watermark,
            "lose_tag": lose_tag or None,
        },
        None,
        execute=execute,
        always_typed=("lose_tag",),
    )
