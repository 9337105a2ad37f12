"""The command that compacts manifests."""

from lakesweep.cli.command import Typed, command
from lakesweep.runs.parameters import manifests as given


@command(
    given.COMPACT_MANIFEST,
    "lakesweep compact-manifest s3://lake/sales.db/orders",
    "lakesweep compact-manifest s3://lake/sales.db/orders --catalog-type filesystem --control s3://ops/lakesweep "
    "--execute",
    "lakesweep compact-manifest /data/orders --option manifest.target-file-size='16 mb' --json",
)
def compact_manifest(typed: Typed) -> int:
    """Merge small manifests of a table, and leave out the entries of deleted files, by a new snapshot.

    No row and no file changes, and the snapshot deletes nothing: older snapshots, tags and branches still name the
    former manifests, which expiry deletes. Readers and writers then open fewer manifests; the plan says how many. See
    docs/commits.md for what each type of catalog allows. The rules of a fleet policy that count here are `pause`,
    `catalog_type` and `catalog_lock`. Prints the plan, and changes nothing without --execute.
    """
    return typed.run()
