"""A bucket's answers about versions and lifecycle, as values."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.model.bucket_settings import LifecycleRule, Versioning

_STATES: Mapping[str, Versioning] = {"Enabled": "on", "Suspended": "suspended"}
_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Storage classes from which S3 reads nothing before a restore. Source: Amazon S3 User Guide, "Storage classes"."""


def versioning_of(response: Mapping[str, Any]) -> Versioning:
    """Return the state in an answer to GetBucketVersioning."""
    return _STATES.get(str(response.get("Status")), "off")


def rules_of(response: Mapping[str, Any]) -> Iterator[LifecycleRule]:
    """Yield the enabled rules in an answer to GetBucketLifecycleConfiguration."""
    for number, rule in enumerate(response.get("Rules", ()), 1):
        if rule.get("Status") != "Enabled":
            continue
        where = rule.get("Filter") or {}
        narrower = where.get("And") or where
        expiration, moves = rule.get("Expiration") or {}, rule.get("Transitions") or ()
        expires = None
        if "Days" in expiration:
            expires = f"{expiration['Days']} days after they were written"
        elif "Date" in expiration:
            expires = f"on {expiration['Date']:%Y-%m-%d}"
        days = (rule.get("NoncurrentVersionExpiration") or {}).get("NoncurrentDays")
        classes = [str(move.get("StorageClass")) for move in moves]
        yield LifecycleRule(
            id=str(rule.get("ID") or f"number {number}"),
            prefix=str(narrower.get("Prefix") or rule.get("Prefix") or ""),
            is_narrowed=bool(narrower.keys() - {"Prefix", "And"}),
            expires=expires,
            noncurrent_days=None if days is None else int(days),
            archives=next((each for each in classes if each in _ARCHIVES), None),
        )
