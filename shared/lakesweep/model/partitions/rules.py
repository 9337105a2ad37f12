"""Make the rules of partition expiry from table options and arguments.

Source: Paimon `CoreOptions` (`partition.*`), `PartitionExpireStrategy`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast, get_args

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.json_document import describe
from lakesweep.format.values.options import bad_option, parse_duration_ms, parse_duration_ns, parse_int
from lakesweep.format.values.partition_path import DEFAULT_NAME
from lakesweep.model.partitions.formatter import DEFAULT, Formatter, parse_pattern

T = TypeVar("T")
D = TypeVar("D")
Strategy = Literal["values-time", "update-time"]

EXPIRATION_TIME = "partition.expiration-time"
STRATEGY = "partition.expiration-strategy"
CHECK_INTERVAL = "partition.expiration-check-interval"
MAX_NUM = "partition.expiration-max-num"
BATCH_SIZE = "partition.expiration-batch-size"
FORMATTER = "partition.timestamp-formatter"
PATTERN = "partition.timestamp-pattern"
PARTITION_DEFAULT_NAME = "partition.default-name"

_EXPIRATION = "partition.expiration-"
_KNOWN = (EXPIRATION_TIME, STRATEGY, CHECK_INTERVAL, MAX_NUM, BATCH_SIZE)
_MAX_PATTERN = 10_000


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """When partitions expire. The zone of their times is not among the table's options."""

    expiration_ns: int
    """A partition is due if its time is longer ago than this."""
    strategy: Strategy = "values-time"
    check_interval_ms: int = 3_600_000
    """Attended to by callers that run again and again; 0: no pause between two checks."""
    max_num: int = 100
    """One call drops at most this many partitions."""
    batch_size: int | None = None
    """One commit drops at most this many partitions; `None`: all of a call."""
    formatter: Formatter = field(default=DEFAULT, repr=False)
    pattern: str | None = None
    """The text of a time, with `$key` for the value of a partition key; `None`: the value of the first key."""
    default_name: str = DEFAULT_NAME

    def to_json(self) -> dict[str, object]:
        """Return the rules as plans and reports print them."""
        return {
            "strategy": self.strategy,
            "expiration_ms": -(-self.expiration_ns // 1_000_000),
            "check_interval_ms": self.check_interval_ms,
            "max_num": self.max_num,
            "batch_size": self.batch_size,
            "pattern": self.pattern,
        }


def partition_rules(
    options: Mapping[str, str], overrides: Mapping[str, str | None] | None = None
) -> PartitionRules | None:
    """Return the rules of a table's partition expiry, `None` if nothing states a time.

    Args:
        options: The table's options.
        overrides: Options of the call. A value of `None` states nothing.

    Raises:
        RefusedError: `bad_option`: a value is invalid, or the time is not above 0. `custom_partition_expiration`: a
            class of the table's owner decides. `unknown_expiration_option`: a later version of Paimon may decide.
    """
    stated = {**options, **{key: value for key, value in (overrides or {}).items() if value is not None}}
    if EXPIRATION_TIME not in stated:
        return None
    for option in sorted(stated):
        if option.startswith(_EXPIRATION) and option not in _KNOWN:
            # A later Paimon may keep partitions by it, such as the newest one.
            raise RefusedError(
                f"option {option} is not known to this version; expected no option about the expiry of partitions but "
                f"{', '.join(_KNOWN)}; expire them in Paimon instead (CALL sys.expire_partitions)",
                code="unknown_expiration_option",
            )
    strategy = _strategy(stated)
    has_values = strategy == "values-time"
    with _options():
        return PartitionRules(
            expiration_ns=_expiration_ns(stated[EXPIRATION_TIME]),
            strategy=strategy,
            check_interval_ms=_stated(stated, CHECK_INTERVAL, parse_duration_ms, 3_600_000),
            max_num=_count(stated, MAX_NUM) or 100,
            batch_size=_count(stated, BATCH_SIZE),
            # Paimon, too, looks at these only where they count.
            formatter=parse_pattern(stated[FORMATTER], FORMATTER) if has_values and FORMATTER in stated else DEFAULT,
            pattern=_pattern(stated) if has_values else None,
            default_name=stated.get(PARTITION_DEFAULT_NAME, DEFAULT_NAME),
        )


def _strategy(stated: Mapping[str, str]) -> Strategy:
    word = stated.get(STRATEGY, "values-time")
    if word not in get_args(Strategy):
        raise RefusedError(
            f"option {STRATEGY} is {describe(word)}; expected values-time or update-time, since only a class in Paimon "
            "knows another strategy; expire them in Paimon instead (CALL sys.expire_partitions)",
            code="custom_partition_expiration",
        )
    return cast("Strategy", word)


def _expiration_ns(text: str) -> int:
    nanos = parse_duration_ns(text, EXPIRATION_TIME)
    if nanos <= 0:
        raise bad_option(EXPIRATION_TIME, "a duration above 0, or every partition expires at once", text)
    return nanos


def _count(stated: Mapping[str, str], key: str) -> int | None:
    count = _stated(stated, key, parse_int, None)
    if count is not None and count < 1:
        raise bad_option(key, "at least 1", stated[key])
    return count


def _pattern(stated: Mapping[str, str]) -> str | None:
    pattern = stated.get(PATTERN)
    if pattern is not None and not 0 < len(pattern) <= _MAX_PATTERN:
        raise bad_option(PATTERN, f"a pattern of 1 to {_MAX_PATTERN} characters", pattern)
    return pattern


def _stated(stated: Mapping[str, str], key: str, parse: Callable[[str, str], T], default: D) -> T | D:
    return parse(stated[key], key) if key in stated else default


@contextmanager
def _options() -> Iterator[None]:
    """Turn a format error into a refusal, since an option is wrong and the table is not damaged."""
    try:
        yield
    except FormatError as error:
        raise RefusedError(str(error), code=error.code) from error
