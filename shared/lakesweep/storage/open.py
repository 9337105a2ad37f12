"""Open the store at a location, and ask it about the versions that S3 keeps beside its current objects."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lakesweep.errors import StorageError, UsageError
from lakesweep.model.bucket_settings import BucketSettings
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.versions import KeepsVersions, Noncurrent, ObjectVersion


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of an S3 client beyond the usual AWS configuration."""

    endpoint_url: str | None = None
    region: str | None = None
    max_parallel: int = 32


DEFAULT_SETTINGS = StoreSettings()
MEMORY_STORES: dict[str, Callable[[], Store]] = {}
"""Factories of memory stores by location, for tests."""


def open_store(
    location: str | Location,
    *,
    counter: RequestCounter | None = None,
    settings: StoreSettings = DEFAULT_SETTINGS,
    control: str | None = None,
) -> Store:
    """Open the store at `location`. This sends no request yet.

    Args:
        location: A path or URI as `parse_location` takes it, or its result.
        counter: Counts the requests of this store and of all other stores that share the counter.
        settings: For S3. All stores of one process with equal settings share a client, its connections and the
            credentials that it found at first.
        control: For a table: the control location of the caller.

    Raises:
        UsageError: The location is of no known kind, or no client can be built with the settings.
    """
    place = parse_location(location) if isinstance(location, str) else location
    counter = counter or RequestCounter()
    if place.scheme == "file":
        return LocalStore(place.path, counter)
    if place.scheme == "s3":
        from lakesweep.storage.s3.store import S3Store

        store = S3Store(place.bucket, place.path, _client(settings), counter)
        store.control = control or ""
        return store
    if str(place) in MEMORY_STORES:
        return MEMORY_STORES[str(place)]()
    raise UsageError(f"no store at {place}; expected a local path or s3://bucket/prefix")


@cache
def _client(settings: StoreSettings) -> Any:
    from lakesweep.storage.s3.connection import connect

    return connect(settings.endpoint_url, settings.region, settings.max_parallel)


def noncurrent_versions(store: Store) -> Noncurrent | None:
    """Count replaced and deleted versions, which still cost money. `None`: the store keeps no versions.

    A request counts a thousand of them.

    Raises:
        StorageError: A request failed, or the caller lacks the permission.
    """
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    inner = _innermost(store)
    return inner.noncurrent() if isinstance(inner, S3Store) else None


def bucket_settings(store: Store) -> BucketSettings | None:
    """Return what the bucket of a store does with objects by itself; `None`: the store is in no bucket.

    Raises:
        StorageError: A request failed, or the caller lacks the permission.
    """
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    inner = _innermost(store)
    return inner.bucket_settings() if isinstance(inner, S3Store) else None


def noncurrent_days(store: Store) -> int | None:
    """Return after how many days a store removes deleted objects for good; `None` if this is unknown."""
    if not store.location.startswith("s3://"):
        return None
    from lakesweep.storage.s3.store import S3Store

    inner = _innermost(store)
    return inner.noncurrent_days() if isinstance(inner, S3Store) else None


def object_versions(store: Store, below: str = "") -> Iterator[Sequence[ObjectVersion]] | None:
    """Return all versions of all objects below a prefix, in pages, also the current ones.

    `None`: the store has never kept any.

    A request shows a thousand of them. A store around another one passes the question on.

    Raises:
        StorageError: A request failed, or the caller lacks the permission; also while pages are taken.
    """
    found = _innermost(store)
    if isinstance(found, KeepsVersions):
        return found.object_versions(below)
    if store.location.startswith("s3://"):
        raise StorageError(
            f"list {store.location}: expected a store that can list versions, found {type(found).__name__}"
        )
    return None


def _innermost(store: Store) -> object:
    """Return the store that others are around."""
    found: object = store
    while (inner := getattr(found, "wrapped", None)) is not None:
        found = inner
    return found
