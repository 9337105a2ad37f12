"""What a versioned bucket holds beside its current objects: replaced and deleted versions, which are paid for."""

from dataclasses import dataclass

from lakesweep.storage.store import Store


@dataclass(frozen=True, slots=True)
class Noncurrent:
    """Versions that no listing shows."""

    versions: int
    bytes: int
    markers: int
    """Delete markers."""


def noncurrent_versions(store: Store) -> Noncurrent | None:
    """Count versions that are not current, a thousand a request. `None`: the store keeps none.

    Raises:
        StorageError: A request failed, or the caller may not make it.
    """
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3 import S3Store

    return store.noncurrent() if isinstance(store, S3Store) else None
