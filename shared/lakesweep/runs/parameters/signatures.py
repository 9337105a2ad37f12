"""The operations and their parameters, each declared once. `registry` has the code that runs them."""

from collections.abc import Mapping

from lakesweep.runs.parameters import commits, compaction, erasure, manifests, partitions, repair, rows
from lakesweep.runs.parameters.parameter import (
    OPTIONS,
    Signature,
    age,
    count,
    days,
    flag,
    names,
    past,
    positive,
    retained,
    span,
    text,
    texts,
    time,
)

RETENTION_OPTIONS = frozenset(
    {
        "snapshot.num-retained.min",
        "snapshot.num-retained.max",
        "snapshot.time-retained",
        "snapshot.expire.limit",
        "changelog.num-retained.min",
        "changelog.num-retained.max",
        "changelog.time-retained",
        "changelog-producer",
        "consumer.changelog-only",
        "consumer.expiration-time",
    }
)
"""Table options that decide what expires. A call may set no other option, since it would silently have no effect."""
TAG_OPTIONS = frozenset(
    {
        "tag.automatic-creation",
        "tag.creation-period",
        "tag.creation-period-duration",
        "tag.creation-delay",
        "tag.period-formatter",
        "tag.num-retained-max",
        "tag.default-time-retained",
        "tag.time-expire-enabled",
        "tag.automatic-completion",
        "tag.batch.customized-name",
        "sink.process-time-zone",
        "sink.watermark-time-zone",
    }
)
"""Table options that decide which tags are made and which are deleted."""
DURATIONS = (
    *("snapshot.time-retained", "changelog.time-retained", "consumer.expiration-time"),
    *("partition.expiration-time", partitions.CHECK_INTERVAL),
    *("commit.timeout", "commit.min-retry-wait", "commit.max-retry-wait"),
    *("tag.creation-period-duration", "tag.creation-delay", "tag.default-time-retained"),
)
"""Those of them that are durations."""

# --- expiry -----------------------------------------------------------------------------------------------------------

RETAIN_MAX = count("retain_max", "Keep at most the newest N, however young the others are.")
RETAIN_MIN = count("retain_min", "Keep the newest N, however old.")
OLDER_THAN = past(
    "older_than", "Delete items older than this: an age such as '3 d', ISO-8601 with a zone, or epoch milliseconds."
)
RETAINED = retained("time_retained", "Keep what is younger, such as '3 d': the same as --older-than with this age.")
MAX_DELETES = count("max_deletes", "Expire at most N in this run.")
GRACE = span("grace", "Wait this long for readers after deleting documents, before deleting files, such as '10 min'.")
PROTECT_COMMIT_USER = texts("protect_commit_user", "Keep the last snapshot of this commit user; repeatable.", "USER")
DELETE_ALL = flag("delete_all", "Delete every changelog if all are older than the oldest snapshot.")
INCLUDING = text("including_consumers", "Only consumers whose whole name matches; by default all.", "REGEX")
EXCLUDING = text("excluding_consumers", "Keep consumers whose whole name matches.", "REGEX")
CONSUMER_ID = text("consumer_id", "The consumer, as `show` lists it.", typed="ID")
NEXT_SNAPSHOT = count("next_snapshot_id", "Snapshot to continue at; without it the consumer is deleted.")
ALL_BRANCHES = flag("all_branches", "Main and every branch, one after the other, each by its own options.")
MIN_INTERVAL = span(
    "min_interval", "With --execute: do nothing if the last pass is more recent than this, such as '1 min'."
)
_LIMITS = (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, RETAINED, MAX_DELETES)

EXPIRE_SNAPSHOTS = Signature(
    "expire-snapshots",
    (*_LIMITS, GRACE, PROTECT_COMMIT_USER, OPTIONS),
    RETENTION_OPTIONS - {"consumer.expiration-time"},
)
EXPIRE_CHANGELOGS = Signature("expire-changelogs", (*_LIMITS, DELETE_ALL, GRACE))
CLEAR_CONSUMERS = Signature("clear-consumers", (INCLUDING, EXCLUDING))
RESET_CONSUMER = Signature("reset-consumer", (CONSUMER_ID, NEXT_SNAPSHOT))
MAINTAIN = Signature(
    "maintain",
    (ALL_BRANCHES, MIN_INTERVAL, OPTIONS, PROTECT_COMMIT_USER, commits.CATALOG_TYPE, commits.CATALOG_LOCK),
    RETENTION_OPTIONS | TAG_OPTIONS | partitions.OF_A_PASS | manifests.OF_A_PASS,
)

# --- versions, tags and branches --------------------------------------------------------------------------------------

TAGS = names("tag", "Name of the tag.", typed="NAME", is_plain=True)
TARGET_TAG = text("target_tag", "Its new name, which no tag has yet.", typed="NEW")
SNAPSHOT = count("snapshot", "Tag this snapshot, which a tag may still hold; by default the newest.", is_plain=True)
FROM_TAG = text("from_tag", "Tag the snapshot of this tag.", "NAME")
TIMESTAMP = time(
    "timestamp",
    "Tag the first snapshot committed at or after this time: ISO-8601 with a zone, or epoch milliseconds.",
    is_plain=True,
)
WATERMARK = count("watermark", "Tag the first snapshot with this or a higher watermark.", "W", is_plain=True)
VERSION = text("version", "As in VERSION AS OF: a tag, else watermark-<n>, else a snapshot id.", is_plain=True)
TIME_RETAINED = days(
    "time_retained",
    "How long to keep the tag, such as '30 d'. By default the table's tag.default-time-retained, else forever.",
)
TIME_ZONE = text(
    "time_zone",
    "Time zone of the tags' times, such as Europe/Berlin; by default that of the fleet policy, else UTC.",
    "ZONE",
)
IGNORE_IF_EXISTS = flag("ignore_if_exists", "If a tag of this name exists, keep it; this is no error.")
_SOURCE = (SNAPSHOT, FROM_TAG, TIMESTAMP, WATERMARK, VERSION)
CREATE_TAG = Signature("create-tag", (TAGS, *_SOURCE, TIME_RETAINED, TIME_ZONE, IGNORE_IF_EXISTS))
REPLACE_TAG = Signature(
    "replace-tag",
    (
        TAGS,
        *_SOURCE,
        TIME_RETAINED.says("How long to keep the tag, such as '30 d'. By default forever."),
        TIME_ZONE,
    ),
)
RENAME_TAG = Signature("rename-tag", (TAGS, TARGET_TAG))
DELETE_TAG = Signature("delete-tag", (TAGS.says("Names of one or more tags.", typed="NAME..."),))

PATTERN = text("pattern", "Names of the tags that the --keep options apply to, such as '20*'.", "PATTERN", is_own=True)
KEEP_LAST = positive("keep_last", "Keep the newest N.", is_own=True)
KEEP_WITHIN = age("keep_within", "Keep younger tags, such as '30 d'.", is_own=True)
KEEP_DAILY = positive("keep_daily", "Keep the newest of each of the last N days.", is_own=True)
KEEP_WEEKLY = positive("keep_weekly", "The same for weeks (ISO).", is_own=True)
KEEP_MONTHLY = positive("keep_monthly", "The same for months.", is_own=True)
KEEP_YEARLY = positive("keep_yearly", "The same for years.", is_own=True)
KEEP_TAG = texts("keep_tag", "Keep tags with matching names; repeatable.", "PATTERN", is_own=True)
KEEP = (PATTERN, KEEP_LAST, KEEP_WITHIN, KEEP_DAILY, KEEP_WEEKLY, KEEP_MONTHLY, KEEP_YEARLY, KEEP_TAG)
EXPIRE_TAGS = Signature(
    "expire-tags",
    (
        OLDER_THAN.says(
            "Delete all tags created before this time, with or without a time to live: an age such as '3 d', ISO-8601 "
            "with a zone, or epoch milliseconds. Not together with --pattern."
        ),
        RETAINED,
        *KEEP,
        TIME_ZONE.says(
            "Time zone of the tags' times and of the calendar, such as Europe/Berlin; by default that of the fleet "
            "policy."
        ),
        OPTIONS,
        GRACE,
    ),
    TAG_OPTIONS,
)
BACKFILL = flag("backfill", "Also create tags of missed periods, if a snapshot from before the period's end is left.")
TAG_SCHEDULE = Signature(
    "tag-schedule",
    (
        BACKFILL,
        TIME_ZONE.says(
            "Time zone of the tags' times, and of their names if the table states no zone. By default that of the "
            "fleet policy.",
            is_own=True,
        ),
        OPTIONS,
    ),
    TAG_OPTIONS,
)

TAG = text("tag", "To the snapshot of this tag.", "NAME", is_plain=True)
LOSE_TAG = texts(
    "lose_tag",
    "Allow the deletion of this tag of a later snapshot, even if a branch was made from it or a calendar rule keeps "
    "it; repeatable.",
    "NAME",
    is_own=True,
)
BRANCH = text("branch", "Name of the branch.", typed="NAME", is_plain=True)
ROLLBACK = Signature(
    "rollback",
    (
        SNAPSHOT.says("To this snapshot, or to the first tag that still holds it."),
        TAG,
        VERSION.says("As in VERSION AS OF: a tag, watermark-<n> or a snapshot id."),
        TIMESTAMP.says(
            "To the last snapshot committed at or before this time: ISO-8601 with a zone, or epoch milliseconds."
        ),
        WATERMARK.says("To the last snapshot with this or a lower watermark."),
        *(LOSE_TAG, commits.AS_LATEST, *commits.CATALOG, partitions.FALLBACK_REAPPEARS, OPTIONS),
    ),
    commits.COMMIT_OPTIONS,
    commits=commits.AS_LATEST,
)
CREATE_BRANCH = Signature(
    "create-branch",
    (
        BRANCH.says("Name of the new branch."),
        TAG.says("Begin with this tag of main."),
        SNAPSHOT.says("Begin with this snapshot of main; a tag may still hold it."),
    ),
)
DELETE_BRANCH = Signature("delete-branch", (BRANCH,))
FAST_FORWARD = Signature(
    "fast-forward",
    (
        BRANCH.says("Name of the branch that main becomes equal to."),
        LOSE_TAG.says(
            "Allow the deletion of this tag of main, even if another branch was made from it or a calendar rule keeps "
            "it; repeatable."
        ),
    ),
)

# --- orphan files, undo -----------------------------------------------------------------------------------------------

QUARANTINE = days(
    "quarantine", "Delete a file only if a call at least this long ago already saw it as an orphan, such as '1 d'."
)
NO_WRITERS = text(
    "no_writers",
    "Reason why files younger than a day may be deleted: no writer exists that could still commit them.",
    "REASON",
)
NO_HISTORY = text(
    "no_history", "Reason why a branch may have a schema and no snapshot: it never had a snapshot.", "REASON"
)
OWNED_EXTERNAL = texts(
    "owned_external",
    "An external root that holds only files of this table; repeatable. Nothing is deleted at other places outside. Not "
    "for a database.",
    "LOCATION",
)
PARALLELISM = count("parallelism", "Listings at the same time; default 8.")
ENGINE = text(
    "engine",
    "What finds the files. local (the default): this process. lambda: functions of a deployment (--scan-queue). spark: "
    "a Spark session, of spark-submit or on this machine. auto: the cheapest of these that is available and suitable; "
    "prints the choice, the reason, and the expected time and cost.",
    "ENGINE",
)
MODE = text("mode", "As in Paimon's procedure: local, or distributed (spark).", "MODE")
INVENTORY = text(
    "inventory", "manifest.json of an S3 Inventory that replaces the listing (docs/inventory.md).", "LOCATION"
)
DRY_RUN = flag("dry_run", "Plan, and execute nothing, whatever else the call says.", typed=None)
REMOVE_ORPHAN_FILES = Signature(
    "remove-orphan-files",
    (
        OLDER_THAN,
        QUARANTINE,
        NO_WRITERS,
        NO_HISTORY,
        OWNED_EXTERNAL,
        PARALLELISM,
        ENGINE,
        MODE,
        INVENTORY,
        DRY_RUN,
    ),
)
RUN_ID = text("run_id", "Run id, as a report or `runs` shows it.", typed="RUN_ID")
UNDO = Signature("undo", (RUN_ID,))

SIGNATURES: Mapping[str, Signature] = {
    signature.name: signature
    for signature in (
        *(EXPIRE_SNAPSHOTS, EXPIRE_CHANGELOGS, CLEAR_CONSUMERS, RESET_CONSUMER, REMOVE_ORPHAN_FILES),
        *(CREATE_TAG, REPLACE_TAG, RENAME_TAG, DELETE_TAG, EXPIRE_TAGS, TAG_SCHEDULE),
        *(partitions.DROP_PARTITION, partitions.TRUNCATE, partitions.EXPIRE_PARTITIONS, rows.DELETE_ROWS),
        *(erasure.ERASE, compaction.COMPACT, manifests.COMPACT_MANIFEST, *repair.REPAIRS, ROLLBACK, CREATE_BRANCH),
        *(DELETE_BRANCH, FAST_FORWARD, UNDO, MAINTAIN),
    )
}
"""By name, in the order of the documentation."""


_PROCEDURES = {
    "trigger_tag_automatic_creation": TAG_SCHEDULE.name,
    "drop_partitions": partitions.DROP_PARTITION.name,
    "truncate_table": partitions.TRUNCATE.name,
}
"""Names in Paimon that are not those of the operations."""


def operation_named(name: str) -> str:
    """Return the word for an operation, such as `expire-snapshots`, also of the name of Paimon's procedure."""
    return _PROCEDURES.get(name.replace("-", "_"), name.replace("_", "-"))
