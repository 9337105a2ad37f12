"""The commands that expire snapshots, changelogs and consumers, and that delete orphan files."""

from dataclasses import replace

from lakesweep.cli.command import PLACE, Typed, command
from lakesweep.errors import UsageError
from lakesweep.runs.parameters import signatures
from lakesweep.runs.parameters.parameter import text

_BRANCH = text("branch", "Branch of the table; by default main.", "NAME")
_SCAN_ID = text(
    "scan_id",
    "Continue this interrupted scan on Spark, or wait again for this scan of one table by functions.",
    "ID",
)
_SCAN_QUEUE = text(
    "scan_queue",
    "Queue at which a deployment takes scans: the output ScanQueueUrl of its stack. By default $LAKESWEEP_SCAN_QUEUE.",
    "URL",
)


@command(
    signatures.EXPIRE_SNAPSHOTS,
    "lakesweep expire-snapshots s3://lake/sales.db/orders",
    "lakesweep expire-snapshots /data/orders --retain-min 5 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-snapshots /data/orders --option 'snapshot.time-retained=1 d' --json",
)
def expire_snapshots(typed: Typed) -> int:
    """Delete old snapshots, and the files that only they hold.

    The table's own options are the rules; arguments override them for this call. A snapshot is older than a time if its
    successor was committed before it. The only rules of a fleet policy that count here are `pause` and
    `external_roots`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.EXPIRE_CHANGELOGS,
    "lakesweep expire-changelogs s3://lake/sales.db/orders --retain-max 20",
    "lakesweep expire-changelogs /data/orders --retain-min 10 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-changelogs /data/orders --delete-all --json",
)
def expire_changelogs(typed: Typed) -> int:
    """Delete old changelogs that outlive their snapshots, and the files that only they hold.

    Without arguments nothing is deleted: `maintain` applies the table's own options. Counts include the snapshots. A
    changelog is older than a time if it was committed before it. The newest changelog is always kept. The only
    rules of a fleet policy that count here are `pause` and `external_roots`. Prints the plan, and changes nothing
    without --execute.
    """
    return typed.run()


@command(
    signatures.CLEAR_CONSUMERS,
    "lakesweep clear-consumers s3://lake/sales.db/orders",
    "lakesweep clear-consumers /data/orders --including-consumers 'test-.*' --excluding-consumers 'test-prod' "
    "--execute",
)
def clear_consumers(typed: Typed) -> int:
    """Delete consumers, so that they no longer hold back expiry.

    A reader that returns under such a name finds no stored position. The only rule of a fleet policy that counts
    here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.RESET_CONSUMER,
    "lakesweep reset-consumer /data/orders search --next-snapshot-id 28 --execute",
    "lakesweep reset-consumer /data/orders search --execute",
)
def reset_consumer(typed: Typed) -> int:
    """Let a consumer continue at another snapshot, or delete it.

    The only rule of a fleet policy that counts here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    signatures.MAINTAIN,
    "lakesweep maintain s3://lake/sales.db/orders --control s3://ops/lakesweep --execute",
    "lakesweep maintain s3://lake/sales.db/orders --policy s3://ops/policy.json --execute",
    "lakesweep maintain /data/orders --branch rt",
    "lakesweep maintain /data/orders --all-branches --min-interval '1 min' --execute",
    place=PLACE[1:],
    first=(_BRANCH,),
)
def maintain(typed: Typed) -> int:
    """Run the maintenance that a table's own options ask for after a commit.

    The table's schema must state its retention; --option or the fleet policy may state it instead. With a fleet policy,
    Lakesweep deletes only from tables for which the policy says so. Prints the plan, and changes nothing without
    --execute.
    """
    branch, all_branches = typed.values.get("branch"), "all_branches" in typed.values
    if branch is not None and all_branches:
        raise UsageError("--branch and --all-branches exclude each other; expected one of them")
    return typed.run(replace(typed.place, branch=branch or typed.place.branch, all_branches=all_branches))


@command(
    signatures.REMOVE_ORPHAN_FILES,
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db --control s3://ops/lakesweep --execute",
    "lakesweep remove-orphan-files /data/orders --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine auto --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine spark --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine lambda --control s3://ops/lakesweep "
    "--scan-queue https://sqs.eu-central-1.amazonaws.com/111122223333/lakesweep-scan",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --quarantine '1 d' --control s3://ops/lakesweep --execute",
    place=("policy", "control", "external_root"),
    last=(_SCAN_ID, _SCAN_QUEUE),
)
def remove_orphan_files(typed: Typed) -> int:
    """Delete files that no snapshot, tag or changelog of any branch refers to. TABLE may also be a database.

    Lakesweep deletes only files older than a day, unless --older-than says otherwise. It deletes a file only if
    Paimon writes files of such a name at such a place. The only rules of a fleet policy that count here are `pause` and
    `external_roots`. Prints the plan, and changes nothing without --execute.
    """
    values = typed.values
    of_one_table = [name for name in ("owned_external",) if name in values]
    if "scan_id" in values and values.get("engine") in ("lambda", "auto"):
        # a scan by functions is waited for by its id, and other tables have no such scan
        of_one_table.append("scan_id")
    engine = values.get("engine") or values.get("mode")
    place = replace(typed.place, scan_id=values.get("scan_id"), engine=engine, scan_queue=values.get("scan_queue"))
    return typed.run(place, may_be_database=True, of_one_table=of_one_table)
