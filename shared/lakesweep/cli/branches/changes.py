"""The commands that rewrite branches."""

from lakesweep.cli.command import PLACE, Typed, command
from lakesweep.runs.parameters import signatures

_OF_MAIN = PLACE[1:]
"""Options of commands that are always about main."""


@command(
    signatures.ROLLBACK,
    "lakesweep rollback s3://lake/sales.db/orders --snapshot 28",
    "lakesweep rollback s3://lake/sales.db/orders --tag before-load --execute",
    "lakesweep rollback /data/orders --timestamp 2026-01-31T12:00:00Z --execute",
    "lakesweep rollback /data/orders --snapshot 28 --lose-tag 2026-01-31 --json",
)
def rollback(typed: Typed) -> int:
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
    return typed.run()


@command(
    signatures.FAST_FORWARD,
    "lakesweep fast-forward s3://lake/sales.db/orders reload",
    "lakesweep fast-forward /data/orders reload --execute",
    "lakesweep fast-forward /data/orders reload --lose-tag 2026-01-31 --json",
    place=_OF_MAIN,
)
def fast_forward(typed: Typed) -> int:
    """Make main equal to a branch; the branch is kept.

    Main keeps its snapshots and tags before the branch's first snapshot, and gets everything of the branch. Readers can
    read main completely at every moment. If a run dies, the next one finishes it. No file is deleted: files that only
    main's former snapshots had become orphans. Stop writers of main first. A commit in between is kept; then Lakesweep
    reverts the branch rewrite, or stops there. The only rules of a fleet policy that count here are `pause` and the
    calendar rules that keep tags. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.CREATE_BRANCH,
    "lakesweep create-branch s3://lake/sales.db/orders trial --tag month-end --execute",
    "lakesweep create-branch /data/orders repair --snapshot 28",
    "lakesweep create-branch /data/orders backfill --json",
    place=_OF_MAIN,
)
def create_branch(typed: Typed) -> int:
    """Give a table a second history that is written separately from main.

    The branch begins with a tag or a snapshot of main, or empty. Lakesweep copies no file: main and the branch share
    files. As long as the branch exists, no operation of Lakesweep deletes a file that it needs. Paimon makes no such
    promise: if Paimon expires snapshots itself, keep the tag of main as long as the branch. Before and after, Lakesweep
    checks that all files of the source exist, which takes a listing of the table each time. Prints the plan, and
    changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.DELETE_BRANCH,
    "lakesweep delete-branch s3://lake/sales.db/orders trial --execute",
    "lakesweep delete-branch /data/orders repair --json",
    place=_OF_MAIN,
)
def delete_branch(typed: Typed) -> int:
    """Delete a branch. Its documents are deleted; files that only the branch holds become orphans.

    Stop all writers of the branch first. Lakesweep refuses if an option of the table or of another branch names the
    branch. It also refuses if the branch's folder contains anything but its documents. Prints first what is lost, and
    changes nothing without --execute. `undo` restores the branch as long as its files exist.
    """
    return typed.run()
