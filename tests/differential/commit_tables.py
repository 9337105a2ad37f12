"""Random tables whose partition keys have every type and every odd value.

All values are text as the engine's driver prints them, so that they compare equal whatever read them: a `DATE` is
`2024-01-31`, a `TIMESTAMP` has six digits after the second, `None` is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from tests.differential.engine import RETAIN_EVERYTHING

Partition = tuple[str | None, ...]
"""A value for each partition key."""

DEFAULT_NAME = "__DEFAULT_PARTITION__"
_POOLS: Mapping[str, tuple[str | None, ...]] = {
    "STRING": (
        "a",
        "b",
        "B",
        "",
        " ",
        "a,b",
        "a,",
        "x=y",
        "p/q",
        "ü☃",
        "𝄞",
        "\uffff",
        "a ",
        "a  ",
        "new\nline",
        "100%",
        "%41",
        "$a",
        "back\\slash",
        "a" * 200,
        "'quoted\"",
        "null",
        DEFAULT_NAME,
        None,
    ),
    "INT": ("0", "-1", "7", "2147483647", "-2147483648", None),
    "BIGINT": ("0", "-1", "9007199254740993", "-9223372036854775808", None),
    "SMALLINT": ("0", "-3", "32767", None),
    "TINYINT": ("0", "-128", "127", None),
    "BOOLEAN": ("true", "false", None),
    "DATE": ("2024-01-31", "1969-12-31", "1970-01-01", "9999-12-31", "0001-01-01", None),
    "TIMESTAMP(0)": ("2024-01-31 10:00:00.000000", "1969-12-31 23:59:59.000000", None),
    "TIMESTAMP(3)": ("2024-01-31 10:00:00.123000", "1969-12-31 23:59:59.999000", "1970-01-01 00:00:00.000000", None),
    "TIMESTAMP(6)": ("2024-01-31 10:00:00.123456", "2024-01-31 10:00:00.123457", "1969-12-31 23:59:59.999999", None),
    "TIMESTAMP(9)": ("2024-01-31 10:00:00.123456", "1969-12-31 23:59:59.999999", None),
    "TIME(3)": ("10:00:00.123", "00:00:00.000", "23:59:59.999", None),
    "VARCHAR(20)": ("a", "ü", "a,b", None),
    "CHAR(4)": ("abcd", "ab", None),
    "DOUBLE": ("1.5", "-2.25", "0.0", None),
    "FLOAT": ("0.5", "-1024.25", None),
    "DECIMAL(10, 2)": ("0.00", "-3.25", "1.50", "12345678.90", None),
    "DECIMAL(38, 10)": ("0.0000000000", "-1234567890123456789012345678.0000000001", "9" * 28 + "." + "9" * 10, None),
}
_SHAPES: Mapping[str, Mapping[str, str]] = {
    "append": {"bucket": "-1"},
    "append in buckets": {"bucket": "2", "bucket-key": "id"},
    "append with vectors": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    "append with row ids": {"bucket": "-1", "row-tracking.enabled": "true"},
    "primary key": {"bucket": "2"},
    "primary key with vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "primary key in dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
}


@dataclass(frozen=True, slots=True)
class Clock:
    """How partitions tell their age: the words of a partition expiry by values."""

    formatter: str | None
    pattern: str | None
    times: Mapping[Partition, datetime]
    """When a partition began, without a zone; those that tell nothing are left out."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One table."""

    shape: str
    keys: tuple[tuple[str, str], ...]
    """Name and type of each partition key."""
    partitions: tuple[Partition, ...]
    """What its writers write; `((),)` where it has no partition keys."""
    options: Mapping[str, str]
    clock: Clock | None
    branch: str = "main"
    """Where its commits go; another branch than main begins with what main holds."""

    def at(self, table: str) -> Mapping[str, str]:
        """Return the words by which the engine finds the branch."""
        return {"table": table} | ({} if self.branch == "main" else {"branch": self.branch})

    @property
    def primary_key(self) -> bool:
        """Tell whether a row replaces another one of the same id."""
        return self.shape.startswith("primary key")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the partition keys."""
        return tuple(name for name, _ in self.keys)

    @property
    def create(self) -> Mapping[str, object]:
        """Return the words that make the table."""
        return {
            "columns": [*(list(key) for key in self.keys), ["id", "INT"], ["v", "STRING"]],
            "primary_keys": [*self.names, "id"] if self.primary_key else [],
            "partition_keys": list(self.names),
            "options": {**RETAIN_EVERYTHING, **self.options},
        }


def draw_kind(random: Random) -> Kind:
    """Draw a table."""
    shape = random.choice(tuple(_SHAPES))
    keys, partitions, clock = _draw_partitions(random, may_be_null=not shape.startswith("primary key"))
    options = {
        **_SHAPES[shape],
        # the engine's avro has no nanoseconds, and it cannot read such files with row ids again
        "file.format": "parquet"
        if "row ids" in shape or any(type_ == "TIMESTAMP(9)" for _, type_ in keys)
        else random.choice(["parquet", "parquet", "avro"]),
        "manifest.compression": random.choice(["zstd", "zstd", "zstd", "deflate", "null"]),
        "manifest.merge-min-count": random.choice(["2", "3", "30", "30"]),
        "manifest.full-compaction-threshold-size": random.choice(["1 kb", "16 mb", "16 mb"]),
        "manifest.target-file-size": random.choice(["1 kb", "8 mb", "8 mb"]),
        "num-sorted-run.compaction-trigger": random.choice(["2", "5"]),
        "compaction.min.file-num": "2",
        "write-only": random.choice(["true", "false"]) if "vectors" not in shape else "false",
    }
    if random.random() < 0.2:
        options["partition.legacy-name"] = "false"
    if random.random() < 0.2:
        options["partition.default-name"] = "__HIVE_DEFAULT_PARTITION__"
    if shape == "append" and random.random() < 0.3:
        options["file-index.bloom-filter.columns"] = "v"
        options["file-index.in-manifest-threshold"] = random.choice(["1 b", "1 mb"])
    return Kind(shape, keys, partitions, options, clock, random.choice(["main"] * 7 + ["b"]))


def _draw_partitions(
    random: Random, *, may_be_null: bool
) -> tuple[tuple[tuple[str, str], ...], tuple[Partition, ...], Clock | None]:
    draw = random.random()
    if draw < 0.05:
        return (), ((),), None
    if draw < 0.45:
        return _draw_times(random, may_be_null=may_be_null)
    types = [random.choice(["STRING", *_POOLS]) for _ in range(random.choice([1, 1, 2, 3]))]
    keys = tuple((f"p{number}", each) for number, each in enumerate(types))
    pools = [[value for value in _POOLS[each] if value is not None or may_be_null] for each in types]
    drawn = [tuple(random.choice(pool) for pool in pools) for _ in range(random.randint(2, 7))]
    return keys, tuple(dict.fromkeys(drawn)), Clock(None, None, {}) if random.random() < 0.3 else None


def _draw_times(
    random: Random, *, may_be_null: bool
) -> tuple[tuple[tuple[str, str], ...], tuple[Partition, ...], Clock]:
    """Draw partitions of days and hours; some values are no time."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    kind, formatter, pattern, form, hour_form = random.choice(
        (
            ("STRING", None, None, "%Y-%m-%d", None),
            ("STRING", None, "$dt", "%Y-%m-%d", None),
            ("STRING", "yyyyMMdd", None, "%Y%m%d", None),
            ("STRING", "yyyyMMdd", "$dt", "%Y%m%d", None),
            ("INT", "yyyyMMdd", "$dt", "%Y%m%d", None),
            ("STRING", "yyyyMMdd HH", "$dt $hr", "%Y%m%d", "%H"),
            ("STRING", None, "$dt $hr:00:00", "%Y-%m-%d", "%H"),
            ("DATE", None, None, "%Y-%m-%d", None),
            ("TIMESTAMP(3)", "yyyy-MM-dd'T'HH:mm", None, "%Y-%m-%d 00:00:00.000000", None),
        )
    )
    second = ("hr", "STRING") if hour_form else random.choice([None, ("country", "STRING"), ("n", "INT")])
    keys = (("dt", kind), *([second] if second else []))
    times: dict[Partition, datetime] = {}
    drawn: list[Partition] = []
    for _ in range(random.randint(3, 8)):
        day = today - timedelta(days=random.choice([0, 1, 2, 3, 4, 10, 400]))
        first: str | None = day.strftime(form)
        is_time = kind != "DATE"  # as a number of days it is none
        if kind == "STRING" and random.random() < 0.15:
            first, is_time = random.choice(["not-a-date", "20261345", ""]), False
        if may_be_null and random.random() < 0.08:
            first, is_time = None, False
        if hour_form:
            hour = random.choice([0, 5, 23])
            partition: Partition = (first, f"{hour:02}")
            day += timedelta(hours=hour)
        elif second:
            partition = (first, random.choice(["us", "us,ca", "ü", "x y"] if second[1] == "STRING" else ["1", "20"]))
        else:
            partition = (first,)
        drawn.append(partition)
        if is_time:
            times[partition] = day
    return keys, tuple(dict.fromkeys(drawn)), Clock(formatter, pattern, times)
