"""The commands that create, change and delete tags."""

from lakesweep.cli.command import Typed, command
from lakesweep.runs.parameters import signatures


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
    rule of a fleet policy that counts here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.EXPIRE_TAGS,
    "lakesweep expire-tags s3://lake/sales.db/orders --time-zone Europe/Berlin",
    "lakesweep expire-tags /data/orders --match '20*' --keep-daily 30 --keep-monthly 84 --execute",
    "lakesweep expire-tags /data/orders --match 'load-*' --keep-last 5 --keep-tag '*-signed' --json",
)
def expire_tags(typed: Typed) -> int:
    """Delete expired tags and tags that no calendar rule keeps, with the files that only they hold.

    Lakesweep deletes a tag that matches --match if no --keep option keeps it. It keeps a tag whose time to live is not
    over, and a tag that a rule keeps, whatever its time to live. It shows each tag with the reason. Rules and time zone
    of a fleet policy apply as well. Prints the plan, and changes nothing without --execute.
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
