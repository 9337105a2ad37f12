"""The calls of the operations on tags: rules that hold between their parameters."""

from lakesweep.errors import UsageError
from lakesweep.model.policy import KeepRules
from lakesweep.operations.tags.create import TagArguments, named_sources
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.parameters.time_travel import Version


def to_create(call: Call) -> TagArguments:
    """Return the arguments of `create-tag` and `replace-tag`.

    Raises:
        UsageError: The call names no tag, more than one tag, or more than one source.
    """
    source = version_of(call, call[given.FROM_TAG])
    stated = [name for name, value in named_sources(source).items() if value is not None]
    if len(stated) > 1:
        raise UsageError(f"{stated[0]}: expected it without {stated[1]}, found both", code="bad_argument")
    return TagArguments(
        name=_one_name(call),
        source=source,
        time_retained_ms=call[given.TIME_RETAINED],
        ignore_if_exists=call[given.IGNORE_IF_EXISTS],
        time_zone=call[given.TIME_ZONE],
    )


def to_rename(call: Call) -> tuple[str, str]:
    """Return the old and the new name.

    Raises:
        UsageError: The call gives only one of the two.
    """
    target = call[given.TARGET_TAG]
    if target is None:
        raise UsageError("target_tag: expected the new name of the tag, found none", code="bad_argument")
    return _one_name(call), target


def to_delete(call: Call) -> tuple[str, ...]:
    """Return the tags to delete.

    Raises:
        UsageError: The call names none.
    """
    if not call[given.TAGS]:
        raise UsageError("tag: expected the name of a tag, found none", code="bad_argument")
    return call[given.TAGS]


def keep_rules(call: Call) -> tuple[KeepRules, ...]:
    """Return the calendar rules of the call; nothing if it has none.

    Raises:
        UsageError: The call has rules without a pattern of tags, or a pattern without rules.
    """
    pattern = call[given.PATTERN]
    rules = KeepRules(
        pattern=pattern or "",
        last=call[given.KEEP_LAST],
        within_ms=call[given.KEEP_WITHIN],
        daily=call[given.KEEP_DAILY],
        weekly=call[given.KEEP_WEEKLY],
        monthly=call[given.KEEP_MONTHLY],
        yearly=call[given.KEEP_YEARLY],
        tags=call[given.KEEP_TAG],
    )
    is_ruled = rules != KeepRules(pattern=rules.pattern)
    if pattern is None and not is_ruled:
        return ()
    if not pattern:
        raise UsageError(
            "pattern: expected the names of the tags that the rules are about, such as 20*, found none",
            code="bad_argument",
        )
    if not is_ruled:
        raise UsageError(
            f"pattern {pattern!r}: expected with it one of keep_last, keep_within, keep_daily, keep_weekly, "
            "keep_monthly, keep_yearly or keep_tag, since without one every such tag would be deleted",
            code="bad_argument",
        )
    return (rules,)


def version_of(call: Call, tag: str | None) -> Version:
    """Return the version that the call names; whether it names too many is checked later."""
    return Version(call[given.SNAPSHOT], tag, call[given.TIMESTAMP], call[given.WATERMARK], call[given.VERSION])


def _one_name(call: Call) -> str:
    names = call[given.TAGS]
    if len(names) != 1:
        raise UsageError(f"tag: expected the name of one tag, found {len(names)}", code="bad_argument")
    return names[0]
