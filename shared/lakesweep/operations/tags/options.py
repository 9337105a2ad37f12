"""Make rules about tags from table options and arguments. Source: Paimon `CoreOptions` (`tag.*`), `IcebergOptions`."""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, timedelta, tzinfo
from typing import cast, get_args

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.json_document import shorten
from lakesweep.format.values.options import bad_option, parse_bool, parse_duration_ms, parse_duration_ns, parse_int
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.policy import AutoTagMode, AutoTagRules, Formatter
from lakesweep.runs.fleet import Ruling, rule_of
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import name_problem

MAX_TIME_RETAINED_MS = 1000 * 366 * 86_400_000
"""A thousand years. A longer time is a mistake in the unit, and Paimon's calendar has an end."""

_MODE = "tag.automatic-creation"
_PERIOD = "tag.creation-period"
_CUSTOM_PERIOD = "tag.creation-period-duration"
_DELAY = "tag.creation-delay"
_FORMATTER = "tag.period-formatter"
_COUNT = "tag.num-retained-max"
_TIME_RETAINED = "tag.default-time-retained"
_PROCESS_ZONE = "sink.process-time-zone"
_WATERMARK_ZONE = "sink.watermark-time-zone"

_PERIODS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}
_MAX_PERIOD_NS = 1000 * 366 * 86_400_000_000_000


def auto_tag_rules(options: Mapping[str, str], declared: tzinfo | None) -> AutoTagRules | None:
    """Return the rules of a table's automatic tags, `None` if it asks for none.

    Args:
        options: The table's options, overridden by the call's.
        declared: The zone that the call or the fleet policy declares, for a table without a zone of its own.

    Raises:
        RefusedError: `bad_option`: a value is invalid. `zone_not_declared`: the names depend on a zone, and none is
            declared.
    """
    with _options():
        mode = _mode(options)
        if mode is None:
            return None
        period, is_custom = _period(options)
        return AutoTagRules(
            mode=mode,
            zone=_zone(options, mode, declared),
            period=period,
            is_custom_period=is_custom,
            formatter=_formatter(options),
            delay=_delay(options, period),
            completion=_flag(options, "tag.automatic-completion"),
            max_count=_max_count(options),
            time_retained_ms=default_time_retained_ms(options),
            batch_name=_batch_name(options),
        )


def has_auto_tags(options: Mapping[str, str]) -> bool:
    """Tell whether a table asks for automatic tags.

    Raises:
        RefusedError: The option is invalid.
    """
    with _options():
        return _mode(options) is not None


def is_write_only(options: Mapping[str, str]) -> bool:
    """Tell whether a table's writers leave its maintenance, including automatic tags, to others.

    Raises:
        RefusedError: The option is invalid.
    """
    with _options():
        return _flag(options, "write-only", "write.compaction-skip")


def default_time_retained_ms(options: Mapping[str, str]) -> int | None:
    """Return the time to live of tags that are made without one, `None` if they have no end.

    Raises:
        RefusedError: The option is invalid, or out of range.
    """
    if _TIME_RETAINED not in options:
        return None
    text = options[_TIME_RETAINED]
    with _options():
        time_ms = parse_duration_ms(text, _TIME_RETAINED)
        if not 0 < time_ms <= MAX_TIME_RETAINED_MS:
            raise bad_option(_TIME_RETAINED, "a duration of 1 ms to 1000 years", text)
    return time_ms


def expires_by_time(options: Mapping[str, str]) -> bool:
    """Tell whether the pass after a commit deletes tags whose time to live is over.

    Raises:
        RefusedError: The option is invalid.
    """
    with _options():
        return _flag(options, "tag.time-expire-enabled", default=True)


def writes_success_file(options: Mapping[str, str]) -> bool:
    """Tell whether each tag gets a success file.

    Raises:
        RefusedError: The option is invalid.
    """
    with _options():
        return _flag(options, "tag.create-success-file")


def check_callbacks(table: Table, options: Mapping[str, str]) -> None:
    """Refuse a table whose tags are also recorded elsewhere: only Paimon can change those records.

    Raises:
        RefusedError: With code `needs_engine_callbacks`.

    Source: Paimon `AbstractFileStore#createTagCallbacks`, `ChainTableUtils`.
    """
    others = {
        "tag.callbacks": "classes that are called for each tag",
        "metastore.tag-to-partition": "a metastore has each tag as a partition",
        "metadata.iceberg.storage": "Iceberg metadata has each tag, too",
        "chain-table.enabled": "a chain table's branches depend on each other",
    }
    without = {"metadata.iceberg.storage": ("", "disabled"), "chain-table.enabled": ("", "false")}
    for option, why in others.items():
        value = options.get(option, "").strip()
        if value.lower() not in without.get(option, ("",)):
            raise RefusedError(
                f"table {table.ref}: {option} is {shorten(value)!r} ({why}), so its tags are made, renamed and deleted "
                "by Paimon alone",
                code="needs_engine_callbacks",
            )


def check_time_retained(ms: int | None) -> None:
    """Refuse a time to live that is out of range.

    Raises:
        RefusedError: With code `bad_time_retained`.
    """
    if ms is not None and not 0 < ms <= MAX_TIME_RETAINED_MS:
        raise RefusedError(
            f"time_retained is {ms} ms; expected 1 ms to 1000 years, or none for a tag that is kept",
            code="bad_time_retained",
        )


def declared_zone(table: Table, time_zone: str | None, ruling: Ruling | None) -> tzinfo | None:
    """Return the zone that the call declares, else the zone of the fleet policy's rule, else `None`.

    Raises:
        RefusedError: With code `bad_option`: the zone does not exist.
    """
    text = rule_of(ruling).time_zone if time_zone is None else time_zone
    if text is None:
        return None
    try:
        return parse_zone(text, "time_zone")
    except FormatError as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error


def _mode(options: Mapping[str, str]) -> AutoTagMode | None:
    word = _word(options, _MODE, "none", ("none", *get_args(AutoTagMode)), "none, process-time, watermark or batch")
    return None if word == "none" else cast("AutoTagMode", word)


def _period(options: Mapping[str, str]) -> tuple[timedelta, bool]:
    if _CUSTOM_PERIOD in options:
        text = options[_CUSTOM_PERIOD]
        nanos = parse_duration_ns(text, _CUSTOM_PERIOD)
        if not 1_000_000 <= nanos <= _MAX_PERIOD_NS:
            raise bad_option(_CUSTOM_PERIOD, "a duration of 1 ms to 1000 years", text)
        return timedelta(microseconds=nanos // 1000), True
    return _PERIODS[_word(options, _PERIOD, "daily", _PERIODS, "daily, hourly or two-hours")], False


def _delay(options: Mapping[str, str], period: timedelta) -> timedelta:
    text = options.get(_DELAY, "0 ms")
    nanos = parse_duration_ns(text, _DELAY)
    if nanos >= period // timedelta(microseconds=1) * 1000:
        stated = options.get(_CUSTOM_PERIOD, options.get(_PERIOD, "daily"))
        raise bad_option(_DELAY, f"a duration shorter than the period, which is {stated}", text)
    return timedelta(microseconds=-(-nanos // 1000))


def _formatter(options: Mapping[str, str]) -> Formatter:
    known = get_args(Formatter)
    return cast("Formatter", _word(options, _FORMATTER, "with_dashes", known, ", ".join(known)))


def _word(options: Mapping[str, str], key: str, default: str, known: Container[str], expected: str) -> str:
    """Return an option whose value is one of some words, in lower case."""
    word = options.get(key, default).lower()
    if word not in known:
        raise bad_option(key, expected, options[key])
    return word


def _zone(options: Mapping[str, str], mode: AutoTagMode, declared: tzinfo | None) -> tzinfo:
    if mode == "watermark":
        return parse_zone(options.get(_WATERMARK_ZONE, "UTC"), _WATERMARK_ZONE)
    if _PROCESS_ZONE in options:
        return parse_zone(options[_PROCESS_ZONE], _PROCESS_ZONE)
    if declared is not None:
        return declared
    if mode == "batch" and _batch_name(options) is not None:
        return UTC  # the only name that it makes contains no time
    raise RefusedError(
        f"{_MODE} is {mode}, and no time zone is declared for the names of its tags; expected {_PROCESS_ZONE} in the "
        "table's options, or time_zone in the call or in the fleet policy",
        code="zone_not_declared",
    )


def _max_count(options: Mapping[str, str]) -> int | None:
    if _COUNT not in options:
        return None
    count = parse_int(options[_COUNT], _COUNT)
    if count < 1:
        raise bad_option(_COUNT, "at least 1, or each tag would be deleted when it is made", options[_COUNT])
    return count


def _batch_name(options: Mapping[str, str]) -> str | None:
    name = options.get("tag.batch.customized-name")
    if name is not None and (problem := name_problem(name)):
        raise bad_option("tag.batch.customized-name", f"a name without {problem}", name)
    return name


def _flag(options: Mapping[str, str], *keys: str, default: bool = False) -> bool:
    return next((parse_bool(options[key], key) for key in keys if key in options), default)


@contextmanager
def _options() -> Iterator[None]:
    """Turn a format error into a refusal, since an option is wrong and the table is not damaged."""
    try:
        yield
    except FormatError as error:
        raise RefusedError(str(error), code=error.code) from error
