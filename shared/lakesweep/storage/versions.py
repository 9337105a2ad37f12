"""The versions and delete markers of one key in a versioned bucket, and when the bucket removes them.

Deleting an object in such a bucket puts a *delete marker* on top. Removing this marker restores the object.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from lakesweep.storage.store import HiddenState


@dataclass(frozen=True, slots=True)
class KeyVersion:
    """One version of a key."""

    version_id: str
    is_marker: bool
    is_current: bool
    modified: datetime
    etag: str | None


class ObjectVersion(NamedTuple):
    """One version of an object that was not a delete marker, as a listing shows it."""

    key: str
    size_bytes: int
    modified_ms: int
    is_current: bool


@runtime_checkable
class KeepsVersions(Protocol):
    """A store that may keep what was replaced or deleted."""

    def object_versions(self, below: str = "") -> Iterator[Sequence[ObjectVersion]] | None:
        """Return all versions of all objects below a prefix, in pages; `None` if the store has never kept any.

        Raises:
            StorageError: A request failed, or the caller lacks the permission; also while pages are taken.
        """


@dataclass(frozen=True, slots=True)
class Noncurrent:
    """Versions that no listing shows."""

    versions: int
    bytes: int
    markers: int
    """Delete markers."""


def versions_of(page: Mapping[str, Any], key: str) -> Iterator[KeyVersion]:
    """Yield a page's entries for `key` alone. A listing by prefix also shows longer keys."""
    for field, is_marker in (("Versions", False), ("DeleteMarkers", True)):
        for entry in page.get(field, ()):
            if entry["Key"] == key:
                etag = str(entry["ETag"]).strip('"') if entry.get("ETag") else None
                yield KeyVersion(entry["VersionId"], is_marker, bool(entry["IsLatest"]), entry["LastModified"], etag)


def newest_marker(versions: Sequence[KeyVersion]) -> str | None:
    """Return the version id of the delete marker that hides a key, `None` if there is none."""
    return next((version.version_id for version in versions if version.is_current and version.is_marker), None)


def below_marker(versions: Sequence[KeyVersion], marker_id: str | None) -> tuple[str, KeyVersion | None]:
    """Return the effect of removing a delete marker (a code of `UndeleteResult`), and the version that becomes current.

    The listing shows versions and markers apart, with times in whole seconds. So a marker as old as the newest version
    counts as lying above it. Then another deletion came first, and removing only the given marker restores nothing.
    """
    current = next((version for version in versions if version.is_current), None)
    marker = next((version for version in versions if version.is_marker and version.version_id == marker_id), None)
    objects = [version for version in versions if not version.is_marker]
    if marker is None:
        return ("already_there", current) if current is not None and not current.is_marker else ("marker_gone", None)
    if not marker.is_current:
        return "marker_not_current", None
    if not objects:
        return "nothing_below", None
    newest = max(objects, key=lambda version: version.modified)  # Of equal times, `max` takes the first, the newest.
    others = [version for version in versions if version.is_marker and version is not marker]
    if any(other.modified >= newest.modified for other in others):
        return "nothing_below", None
    return "restorable", newest


def hidden_state(versions: Sequence[KeyVersion]) -> HiddenState:
    """Tell whether one delete marker hides an object; see `Store.hidden`."""
    if not versions:
        return HiddenState("unknown")
    current = next((version for version in versions if version.is_current), None)
    if current is None:
        return HiddenState("other")
    if not current.is_marker:
        # Of equal times, a deletion counts as the later one.
        below = max((each for each in versions if each is not current), key=_by_age, default=None)
        return HiddenState("there", below="" if below is None else "marker" if below.is_marker else "object")
    code, below = below_marker(versions, current.version_id)
    if code != "restorable" or below is None:
        return HiddenState("other")
    return HiddenState("hidden", current.version_id, below.etag, int(current.modified.timestamp() * 1000))


def _by_age(version: KeyVersion) -> tuple[datetime, bool]:
    return version.modified, version.is_marker
