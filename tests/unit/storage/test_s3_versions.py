"""What a listing of versions means, and what lifecycle rules leave."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.model.bucket_settings import noncurrent_days_of
from lakesweep.storage.lifecycle import rules_of
from lakesweep.storage.store import HiddenState
from lakesweep.storage.versions import KeyVersion, below_marker, hidden_state, versions_of


def version(name: str, second: int, *, marker: bool = False, current: bool = False) -> KeyVersion:
    return KeyVersion(name, marker, current, datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), None if marker else "e")


OBJECT = version("v1", 1)
MARKER = version("m", 2, marker=True, current=True)


@pytest.mark.parametrize(
    ("versions", "code"),
    [
        ([OBJECT, MARKER], "restorable"),
        ([version("v1", 2), MARKER], "restorable"),
        ([version("v0", 0), version("old", 0, marker=True), OBJECT, MARKER], "restorable"),
        ([OBJECT, version("older", 1, marker=True), MARKER], "nothing_below"),
        ([OBJECT, version("other", 2, marker=True), MARKER], "nothing_below"),
        ([MARKER], "nothing_below"),
        ([OBJECT, version("m", 2, marker=True), version("v2", 3, current=True)], "marker_not_current"),
        ([OBJECT, version("m", 2, marker=True), version("m2", 3, marker=True, current=True)], "marker_not_current"),
        ([version("v1", 1, current=True)], "already_there"),
        ([version("m", 1, current=True)], "already_there"),
        ([version("m2", 1, marker=True, current=True)], "marker_gone"),
        ([], "marker_gone"),
    ],
)
def test_below_a_marker(versions: list[KeyVersion], code: str) -> None:
    found, below = below_marker(versions, "m")
    assert found == code
    assert (below is not None) == (code in ("restorable", "already_there"))


@pytest.mark.parametrize(
    ("versions", "below"),
    [
        ([version("v1", 1, current=True)], ""),
        ([OBJECT, version("v2", 3, current=True)], "object"),
        ([OBJECT, version("m", 2, marker=True), version("v2", 3, current=True)], "marker"),
        ([OBJECT, version("m", 1, marker=True), version("v2", 1, current=True)], "marker"),
        ([version("v0", 0), version("m", 1, marker=True), version("v1", 2), version("v2", 2, current=True)], "object"),
    ],
)
def test_below_an_object(versions: list[KeyVersion], below: str) -> None:
    """Within a second nobody knows the order, and a deletion counts as the later one."""
    assert hidden_state(versions) == HiddenState("there", below=below)  # type: ignore[arg-type]


def test_a_page_shows_longer_keys_too() -> None:
    def entry(key: str) -> dict[str, Any]:
        return {"Key": key, "VersionId": "1", "IsLatest": True, "LastModified": datetime.now(UTC), "ETag": '"e"'}

    page = {"Versions": [entry("p/a"), entry("p/a-1")], "DeleteMarkers": [entry("p/ab")]}
    (found,) = versions_of(page, "p/a")
    assert (found.is_marker, found.etag) == (False, "e")


def rule(days: int | None = 7, **more: Any) -> dict[str, Any]:
    expiration = {"NoncurrentVersionExpiration": {"NoncurrentDays": days}} if days else {"Expiration": {"Days": 1}}
    return {"Status": "Enabled", **expiration, **more}


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([rule()], 7),
        ([rule(Filter={})], 7),
        ([rule(30), rule(7), rule(None)], 7),
        ([rule(Status="Disabled")], None),
        ([rule(Filter={"Prefix": "lake/"})], 7),
        ([rule(Prefix="lake/")], 7),
        ([rule(Filter={"Prefix": "lake/orders/manifest/"})], 7),
        ([rule(Filter={"And": {"Prefix": "lake/", "Tags": []}})], 7),
        ([rule(Filter={"Tag": {"Key": "k", "Value": "v"}})], 7),
        ([rule(Filter={"Prefix": "other/"})], None),
        ([{"Status": "Enabled", "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 3}}], None),
    ],
)
def test_days(rules: list[dict[str, Any]], days: int | None) -> None:
    assert noncurrent_days_of(rules_of({"Rules": rules}), "lake/orders/") == days
