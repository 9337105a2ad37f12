"""The arguments of the operations on tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import UsageError
from lakesweep.model.tag_rules import KeepRules
from lakesweep.operations.tags import create as create_tag
from lakesweep.operations.tags import delete as delete_tag
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.operations.tags import rename as rename_tag
from lakesweep.operations.tags import schedule as tag_schedule
from lakesweep.operations.tags.create import TagArguments, named_sources
from lakesweep.runs.parameters.call_values import count_of, flag_of, text_of, texts_of, version_of, words_of
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.parameters.times import parse_span_ms

_SOURCES = frozenset(named_sources(Version()))
_KEEP = frozenset(
    {"match", "keep_last", "keep_within", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly", "keep_tag"}
)
TAG_ARGUMENTS: Mapping[str, frozenset[str]] = {
    create_tag.CREATE: _SOURCES | {"tag", "time_retained", "ignore_if_exists", "time_zone"},
    create_tag.REPLACE: _SOURCES | {"tag", "time_retained", "time_zone"},
    rename_tag.OPERATION: frozenset({"tag", "target_tag"}),
    delete_tag.OPERATION: frozenset({"tag"}),
    expire_tags.OPERATION: _KEEP | {"time_zone"},
    tag_schedule.OPERATION: frozenset({"backfill", "time_zone"}),
}
"""The arguments that callers may give, by operation."""


@dataclass(frozen=True, slots=True)
class TagCall:
    """The arguments of one call. Each is checked as far as possible without the others."""

    names: tuple[str, ...] = ()
    target: str | None = None
    source: Version = field(default_factory=Version)
    time_retained_ms: int | None = None
    ignore_if_exists: bool = False
    time_zone: str | None = None
    backfill: bool = False
    pattern: str | None = None
    keep_last: int | None = None
    keep_within_ms: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_tags: tuple[str, ...] = ()

    def to_create(self) -> TagArguments:
        """Return the arguments of `create_tag` and `replace_tag`.

        Raises:
            UsageError: The call names no tag, more than one tag, or more than one source.
        """
        given = [name for name, value in named_sources(self.source).items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{given[0]}: expected it without {given[1]}, found both", code="bad_argument")
        return TagArguments(
            name=self._one_name(),
            source=self.source,
            time_retained_ms=self.time_retained_ms,
            ignore_if_exists=self.ignore_if_exists,
            time_zone=self.time_zone,
        )

    def to_rename(self) -> tuple[str, str]:
        """Return the old and the new name.

        Raises:
            UsageError: The call gives only one of the two.
        """
        if self.target is None:
            raise UsageError("target_tag: expected the new name of the tag, found none", code="bad_argument")
        return self._one_name(), self.target

    def to_delete(self) -> tuple[str, ...]:
        """Return the tags to delete.

        Raises:
            UsageError: The call names none.
        """
        if not self.names:
            raise UsageError("tag: expected the name of a tag, found none", code="bad_argument")
        return self.names

    def keep_rules(self) -> tuple[KeepRules, ...]:
        """Return the calendar rules of the call; nothing if it has none.

        Raises:
            UsageError: The call has rules without a pattern of tags, or a pattern without rules.
        """
        rules = KeepRules(
            pattern=self.pattern or "",
            last=self.keep_last,
            within_ms=self.keep_within_ms,
            daily=self.keep_daily,
            weekly=self.keep_weekly,
            monthly=self.keep_monthly,
            yearly=self.keep_yearly,
            tags=self.keep_tags,
        )
        is_ruled = rules != KeepRules(pattern=rules.pattern)
        if self.pattern is None and not is_ruled:
            return ()
        if self.pattern is None or not self.pattern:
            raise UsageError(
                "match: expected the pattern of the tags that the rules are about, found none", code="bad_argument"
            )
        if not is_ruled:
            raise UsageError(
                f"match {self.pattern!r}: expected with it one of keep_last, keep_within, keep_daily, keep_weekly, "
                "keep_monthly, keep_yearly or keep_tag, since without one every such tag would be deleted",
                code="bad_argument",
            )
        return (rules,)

    def _one_name(self) -> str:
        if len(self.names) != 1:
            raise UsageError(f"tag: expected the name of one tag, found {len(self.names)}", code="bad_argument")
        return self.names[0]


def tag_call(given: Mapping[str, object]) -> TagCall:
    """Read the arguments of an operation on tags.

    Raises:
        UsageError: A value is invalid.
    """
    return TagCall(
        names=_names(given.get("tag")),
        target=words_of(given, "target_tag"),
        source=version_of(given, tag="from_tag"),
        time_retained_ms=_span_ms(given, "time_retained"),
        ignore_if_exists=flag_of(given.get("ignore_if_exists", False), "ignore_if_exists"),
        time_zone=words_of(given, "time_zone"),
        backfill=flag_of(given.get("backfill", False), "backfill"),
        pattern=words_of(given, "match"),
        keep_last=_keep(given, "keep_last"),
        keep_within_ms=_keep_span_ms(given, "keep_within"),
        keep_daily=_keep(given, "keep_daily"),
        keep_weekly=_keep(given, "keep_weekly"),
        keep_monthly=_keep(given, "keep_monthly"),
        keep_yearly=_keep(given, "keep_yearly"),
        keep_tags=texts_of(given.get("keep_tag", ()), "keep_tag"),
    )


def _names(value: object) -> tuple[str, ...]:
    """Read one name or several. A blank name is left to the operation, which says what it expects."""
    values = (value,) if isinstance(value, str | int) else () if value is None else value
    if not isinstance(values, list | tuple):
        raise UsageError(f"tag: expected a name, found {value!r}", code="bad_argument")
    return tuple(dict.fromkeys(text_of(name, "tag") for name in values))


def _span_ms(given: Mapping[str, object], name: str) -> int | None:
    return parse_span_ms(text_of(given[name], name), name) if name in given else None


def _keep_span_ms(given: Mapping[str, object], name: str) -> int | None:
    """Read how long tags are kept. A unit is required: 30 without a unit would mean 30 ms, and delete every tag."""
    span_ms = _span_ms(given, name)
    if span_ms is None:
        return None
    text = text_of(given[name], name)
    if text.strip().isdigit():
        raise UsageError(f"{name}: expected a duration with its unit such as 30 d, found {text!r}", code="bad_argument")
    if span_ms < 1:
        raise UsageError(f"{name}: expected a duration of at least 1 ms, found {text!r}", code="bad_argument")
    return span_ms


def _keep(given: Mapping[str, object], name: str) -> int | None:
    count = count_of(given.get(name), name)
    if count is not None and count < 1:
        raise UsageError(f"{name}: expected a whole number, at least 1, found {count}", code="bad_argument")
    return count
