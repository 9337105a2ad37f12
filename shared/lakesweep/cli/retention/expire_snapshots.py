"""`lakesweep expire-snapshots`."""

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep expire-snapshots s3://lake/sales.db/orders",
    "lakesweep expire-snapshots /data/orders --retain-min 5 --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep expire-snapshots /data/orders --option 'snapshot.time-retained=1 d' --json",
)


@at_place("branch", "policy", "control", "external_root")
def expire_snapshots(
    place: Place,
    retain_max: options.RetainMax = None,
    retain_min: options.RetainMin = None,
    older_than: options.OlderThan = None,
    max_deletes: options.MaxDeletes = None,
    grace: options.Grace = None,
    protect_commit_user: options.ProtectCommitUser = None,
    option: options.TableOptions = None,
    execute: options.Execute = False,
) -> int:
    """Delete old snapshots, and the files that only they hold.

    The table's own options are the rules; arguments override them for this call. A snapshot is older than a time if its
    successor was committed before it. The only rule of a fleet policy that counts here is `pause`. Prints the plan, and
    changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "expire_snapshots",
        {
            "retain_max": retain_max,
            "retain_min": retain_min,
            "older_than": older_than,
            "max_deletes": max_deletes,
            "protect_commit_user": protect_commit_user,
            "grace": grace,
        },
        option,
        execute=execute,
    )
