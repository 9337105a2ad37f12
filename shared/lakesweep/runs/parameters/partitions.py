"""The operations that take partitions out of a table, and their parameters."""

import json
from collections.abc import Mapping

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.parameter import (
    OPTIONS,
    Kind,
    Signature,
    bad_value,
    flag,
    positive,
    read_days_ms,
    read_text,
    text,
)

CHECK_INTERVAL = "partition.expiration-check-interval"


def read_partitions(value: object, name: str) -> tuple[str | Mapping[str, object], ...]:
    """Read one partition or several: texts such as `dt=20240101,hr=08`, or objects, in which null is a value.

    A text that begins with a brace is such an object, so a command line can name any value, too.
    """
    found = (value,) if isinstance(value, str | Mapping) else value
    if not isinstance(found, list | tuple):
        raise bad_value(name, "a partition such as dt=20240101, an object, or an array of these", value)
    return tuple(_partition(each, name) for each in found)


def _partition(value: object, name: str) -> str | Mapping[str, object]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise bad_value(name, "a JSON object, since it begins with a brace", value) from error
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        return dict(value)
    raise bad_value(name, "a partition such as dt=20240101, or an object that has at least one partition key", value)


partitions: Kind[tuple[str | Mapping[str, object], ...]] = Kind(
    "text, object or array of these", read_partitions, (), "PARTITION"
)
PARTITION = partitions(
    "partition",
    "The partitions to drop: those with this value of each named key, such as dt=20240101,hr=08; repeatable. A JSON "
    """object names any value: '{"dt": null}'.""",
    is_plain=True,
)
FALLBACK_REAPPEARS = flag(
    "fallback_reappears", "Accept that a fallback branch shows its copy of the dropped rows again."
)
DROP_PARTITION = Signature(
    "drop-partition", (PARTITION, CATALOG_TYPE, CATALOG_LOCK, FALLBACK_REAPPEARS, OPTIONS), COMMIT_OPTIONS, commits=True
)
TRUNCATE = Signature(
    "truncate", (CATALOG_TYPE, CATALOG_LOCK, FALLBACK_REAPPEARS, OPTIONS), COMMIT_OPTIONS, commits=True
)


def read_expiration(value: object, name: str) -> str:
    """Read a duration, which stays a text: it stands for a table option."""
    read_days_ms(value, name)
    return read_text(value, name)


expiration: Kind[str | None] = Kind("duration", read_expiration, None, "DURATION")
EXPIRATION_TIME = expiration(
    "expiration_time", "Age from which a partition expires, such as '30 d'; partition.expiration-time."
)
EXPIRE_STRATEGY = text(
    "expire_strategy",
    "What the age counts from: values-time, a time in the partition's values; or update-time, its newest file. "
    "partition.expiration-strategy.",
    "STRATEGY",
)
TIMESTAMP_FORMATTER = text(
    "timestamp_formatter", "How a time is written, such as yyyyMMdd; partition.timestamp-formatter.", "FORMAT"
)
TIMESTAMP_PATTERN = text(
    "timestamp_pattern", "Which values make the time, such as '$dt $hr:00:00'; partition.timestamp-pattern.", "PATTERN"
)
MAX_EXPIRES = positive("max_expires", "Expire at most N partitions; partition.expiration-max-num, by default 100.")
BATCH_SIZE = positive(
    "batch_size", "Commit after each N partitions; partition.expiration-batch-size, by default one commit."
)
PROCEDURE_OPTIONS = {
    EXPIRATION_TIME: "partition.expiration-time",
    EXPIRE_STRATEGY: "partition.expiration-strategy",
    TIMESTAMP_FORMATTER: "partition.timestamp-formatter",
    TIMESTAMP_PATTERN: "partition.timestamp-pattern",
    MAX_EXPIRES: "partition.expiration-max-num",
    BATCH_SIZE: "partition.expiration-batch-size",
}
"""Arguments of Paimon's procedure `expire_partitions`, and the table options that they stand for."""
PARTITION_OPTIONS = frozenset(PROCEDURE_OPTIONS.values())
"""Table options that decide which partitions expire."""
OF_A_PASS = PARTITION_OPTIONS | COMMIT_OPTIONS | {CHECK_INTERVAL}
"""Table options about partitions that a call of a pass may set."""
TIME_ZONE = text(
    "time_zone",
    "Time zone of the writers' clocks and of times in values, such as Europe/Berlin; by default that of the fleet "
    "policy.",
    "ZONE",
)
EXPIRE_PARTITIONS = Signature(
    "expire-partitions",
    (*PROCEDURE_OPTIONS, TIME_ZONE, CATALOG_TYPE, CATALOG_LOCK, OPTIONS),
    PARTITION_OPTIONS | COMMIT_OPTIONS,
    commits=True,
)
