"""How long a store keeps deleted objects."""

from lakesweep.storage.store import Store


def noncurrent_days(store: Store) -> int | None:
    """Return after how many days a store removes deleted objects for good; `None` if this is unknown."""
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    return store.noncurrent_days() if isinstance(store, S3Store) else None
