"""The versions in a bucket beside its current objects: replaced and deleted ones, which still cost money."""

from lakesweep.storage.store import Store
from lakesweep.storage.versions import Noncurrent


def noncurrent_versions(store: Store) -> Noncurrent | None:
    """Count versions that are not current, a thousand in each request. `None`: the store keeps no versions.

    Raises:
        StorageError: A request failed, or the caller lacks the permission.
    """
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    return store.noncurrent() if isinstance(store, S3Store) else None


def noncurrent_days(store: Store) -> int | None:
    """Return after how many days a store removes deleted objects for good; `None` if this is unknown."""
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    return store.noncurrent_days() if isinstance(store, S3Store) else None
