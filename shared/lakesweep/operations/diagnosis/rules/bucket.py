"""What the settings of a bucket mean for the objects of a table, or of a control location."""

import shlex
from collections.abc import Iterator, Sequence

from lakesweep.model.bucket_settings import BucketSettings, noncurrent_days_of
from lakesweep.model.diagnosis import Line

SHORT_UNDO_DAYS = 3
"""Fewer days leave no working day to notice a deletion after a weekend."""


def table_lines(found: BucketSettings) -> Iterator[Line]:
    """Yield a line for each setting that matters to a table."""
    yield from _dangers(found, found.prefix, "the table")
    yield from _versions(found)


def control_lines(found: BucketSettings, kept: Sequence[str]) -> Iterator[Line]:
    """Yield a line for each rule that deletes documents of a control location that somebody still needs.

    Args:
        found: The settings.
        kept: Folders of the control location, such as `tables/`, from which no rule may delete anything.
    """
    for folder in kept:
        yield from _dangers(found, f"{found.prefix}{folder}", f"{folder} of the control location")


def _dangers(found: BucketSettings, prefix: str, what: str) -> Iterator[Line]:
    for rule in found.rules:
        if not rule.concerns(prefix):
            continue
        some = "some objects" if rule.is_narrowed or len(rule.prefix) > len(prefix) else "every object"
        where = f"lifecycle rule {rule.id!r} of bucket {found.bucket}"
        show = _show(found)
        if rule.expires is not None:
            says = f"{where} deletes {some} of {what} {rule.expires}, whether or not a reader needs it"
            yield Line("bucket", "act", says, f"remove the rule; it is shown by: {show}")
        if rule.archives is not None:
            says = f"{where} moves {some} of {what} to {rule.archives}, from where nobody can read it"
            yield Line("bucket", "act", says, f"remove the rule; it is shown by: {show}")


def _versions(found: BucketSettings) -> Iterator[Line]:
    days = noncurrent_days_of(found.rules, found.prefix)
    enable = (
        f"aws s3api put-bucket-versioning --bucket {shlex.quote(found.bucket)} "
        "--versioning-configuration Status=Enabled"
    )
    if found.versioning == "off":
        says = f"bucket {found.bucket} keeps no versions, so undo cannot restore what a run deletes"
        yield Line("bucket", "look", says, enable)
    elif found.versioning == "suspended":
        says = f"bucket {found.bucket} has suspended its versions, so undo cannot restore what is deleted from now on"
        yield Line("bucket", "look", says, enable)
    elif days is None:
        says = (
            f"bucket {found.bucket} keeps versions, and no rule removes old ones: deleted objects cost money for ever"
        )
        yield Line(
            "bucket", "look", says, f"add a lifecycle rule with NoncurrentDays; rules are shown by: {_show(found)}"
        )
    elif days < SHORT_UNDO_DAYS:
        says = f"bucket {found.bucket} removes deleted objects after {_days(days)}, so undo works for no longer"
        yield Line("bucket", "look", says, f"raise NoncurrentDays of the rule; it is shown by: {_show(found)}")
    else:
        yield Line("bucket", "ok", f"bucket {found.bucket} keeps versions; undo works for {_days(days)}")


def _show(found: BucketSettings) -> str:
    return f"aws s3api get-bucket-lifecycle-configuration --bucket {shlex.quote(found.bucket)}"


def _days(days: int) -> str:
    return "one day" if days == 1 else f"{days} days"
