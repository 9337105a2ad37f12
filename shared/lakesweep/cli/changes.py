"""The commands that create, change and delete tags and branches, and the command that undoes a run."""

from lakesweep.cli.command import PLACE, Typed, command
from lakesweep.runs.parameters import signatures

_OF_MAIN = PLACE[1:]
"""Options of commands that are always about main."""


@command(
    signatures.CREATE_TAG,
    "lakesweep create-tag s3://lake/sales.db/orders before-load --execute",
    "lakesweep create-tag /data/orders month-end --snapshot 28 --time-retained '30 d' --time-zone Europe/Berlin",
    "lakesweep create-tag /data/orders noon --timestamp 2026-01-31T12:00:00Z --json",
)
def create_tag(typed: Typed) -> int:
    """Give a snapshot a name, so that it stays readable after it expires.

    The command does not wait for other maintenance under way. The only rules of a fleet policy that count here are
    `pause` and `time_zone`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.REPLACE_TAG,
    "lakesweep replace-tag /data/orders current --execute",
    "lakesweep replace-tag s3://lake/sales.db/orders current --snapshot 28 --execute",
)
def replace_tag(typed: Typed) -> int:
    """Let a tag name another snapshot.

    Files that only the former tag held become orphans. The only rules of a fleet policy that count here are `pause` and
    `time_zone`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.RENAME_TAG,
    "lakesweep rename-tag s3://lake/sales.db/orders before-load 2026-01-31-before-load --execute",
)
def rename_tag(typed: Typed) -> int:
    """Give a tag another name.

    The new tag is written before the old one is deleted. The only rule of a fleet policy that counts here is `pause`.
    Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.DELETE_TAG,
    "lakesweep delete-tag s3://lake/sales.db/orders before-load",
    "lakesweep delete-tag /data/orders 2026-01-30 2026-01-31 --execute",
)
def delete_tag(typed: Typed) -> int:
    """Delete tags, and the files that only they hold.

    If a tag's snapshot still exists, only the tag's document is deleted. A name without a tag is a warning. The only
    rules of a fleet policy that count here are `pause` and `external_roots`. Prints the plan, and changes nothing
    without --execute.
    """
    return typed.run()


@command(
    signatures.EXPIRE_TAGS,
    "lakesweep expire-tags s3://lake/sales.db/orders --time-zone Europe/Berlin",
    "lakesweep expire-tags /data/orders --pattern '20*' --keep-daily 30 --keep-monthly 84 --execute",
    "lakesweep expire-tags /data/orders --pattern 'load-*' --keep-last 5 --keep-tag '*-signed' --json",
)
def expire_tags(typed: Typed) -> int:
    """Delete expired tags and tags that no calendar rule keeps, with the files that only they hold.

    Lakesweep deletes a tag that matches --pattern if no --keep option keeps it. It keeps a tag whose time to live is
    not over, and a tag that a rule keeps, whatever its time to live. It shows each tag with the reason. Rules and time
    zone of a fleet policy apply as well. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.TAG_SCHEDULE,
    "lakesweep tag-schedule s3://lake/sales.db/orders --execute",
    "lakesweep tag-schedule /data/orders --time-zone Europe/Berlin",
    "lakesweep tag-schedule /data/orders --option tag.automatic-creation=process-time --option "
    "sink.process-time-zone=UTC --execute",
    "lakesweep tag-schedule /data/orders --backfill --execute",
)
def tag_schedule(typed: Typed) -> int:
    """Create the tags that a table's options ask for, and delete expired ones.

    maintain begins with the same two steps. This command needs no new commit, and takes no further step. It prints the
    plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.ROLLBACK,
    "lakesweep rollback s3://lake/sales.db/orders --snapshot 28",
    "lakesweep rollback s3://lake/sales.db/orders --tag before-load --execute",
    "lakesweep rollback /data/orders --timestamp 2026-01-31T12:00:00Z --execute",
    "lakesweep rollback /data/orders --snapshot 28 --lose-tag 2026-01-31 --json",
    "lakesweep rollback /data/orders --snapshot 30 --as-latest --catalog-type filesystem --execute",
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

    With --as-latest, nothing is withdrawn: a new snapshot has the rows of the old version. Readers never see ids go
    backwards, and writers may go on, but what they commit meanwhile is gone from the new snapshot as well. Two
    tags rollback-to-as-latest-* keep the old files from Paimon's expiry, so keep both. See docs/recover.md.

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


@command(
    signatures.UNDO,
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d",
    "lakesweep undo s3://lake/sales.db/orders 20260131T120003Z-5a6b7c8d --execute",
    place=_OF_MAIN,
)
def undo(typed: Typed) -> int:
    """Restore everything that a run deleted, if the bucket keeps versions.

    A deleted tag is restored from the run's plan if no file was deleted with it, even if the bucket keeps no versions.

    A rollback, a fast-forward, and creating or deleting a branch need no versions: the run's plan holds everything that
    they changed. They can be undone as long as nothing was committed since and all files that are needed again exist.

    Rows that delete-rows deleted come back by a commit, while their data files and the snapshots before and after that
    run exist, or tags of them. Rows of files that were compacted since do not come back: exit code 4.

    Any other undo is complete or does nothing. It is refused while a fleet policy pauses the table. Prints what would
    be restored, and changes nothing without --execute. Running it twice is harmless.
    """
    return typed.run()
