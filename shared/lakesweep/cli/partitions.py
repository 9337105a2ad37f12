"""The commands that commit: drop partitions, truncate a table, expire partitions."""

from lakesweep.cli.command import Typed, command
from lakesweep.runs.parameters import partitions as given


@command(
    given.DROP_PARTITION,
    "lakesweep drop-partition s3://lake/sales.db/orders --partition dt=20240101,hr=08",
    "lakesweep drop-partition s3://lake/sales.db/orders --partition dt=20240101 --partition dt=20240102 "
    "--catalog-type filesystem --control s3://ops/lakesweep --execute",
    """lakesweep drop-partition /data/orders --partition '{"dt": null}' --json""",
)
def drop_partition(typed: Typed) -> int:
    """Take partitions out of a table, by a new snapshot without them.

    The snapshot deletes no file. Older snapshots, tags and branches still show the partitions. The plan names them,
    also after the drop. docs/operations.md says in which order to delete them, so that the files go. What writers add
    to a partition until the commit is dropped as well. See docs/commits.md for what each type of catalog allows. The
    rules of a fleet policy that count here are `pause`, `catalog_type`, `catalog_lock` and, for keys of type TIMESTAMP
    WITH LOCAL TIME ZONE, `time_zone`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()


@command(
    given.TRUNCATE,
    "lakesweep truncate s3://lake/sales.db/orders",
    "lakesweep truncate /data/orders --catalog-type filesystem --execute",
)
def truncate(typed: Typed) -> int:
    """Take all rows out of a table, by a new snapshot without them.

    The snapshot deletes no file. Older snapshots, tags and branches still show the rows. The plan names them, also
    afterwards. docs/operations.md says in which order to delete them, so that the files go. The rules of a fleet policy
    that count here are `pause`, `catalog_type` and `catalog_lock`. Prints the plan, and changes nothing without
    --execute.
    """
    return typed.run()


@command(
    given.EXPIRE_PARTITIONS,
    "lakesweep expire-partitions s3://lake/sales.db/orders",
    "lakesweep expire-partitions /data/orders --expiration-time '30 d' --timestamp-formatter yyyyMMdd "
    "--time-zone Europe/Berlin --catalog-type filesystem --execute",
    "lakesweep expire-partitions /data/orders --expiration-time '1 d' --expire-strategy update-time --time-zone UTC",
)
def expire_partitions(typed: Typed) -> int:
    """Take old partitions out of a table, by a new snapshot without them.

    The table's own options are the rules, or the fleet policy's if the schema states no expiration time; arguments
    override them for this call. maintain does the same after commits, at most once per interval. The snapshot deletes
    no file: the plan names the snapshots, tags and branches that still show the partitions. Prints the plan, and
    changes nothing without --execute.
    """
    return typed.run()
