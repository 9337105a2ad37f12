"""How a table's options want its data files written, and tables for which Lakesweep writes none.

Source: Paimon 1.4 `CoreOptions`, `FileFormat`, `StatsCollectorFactories`, `RollingFileWriterImpl`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField
from lakesweep.format.values.options import bad_option, parse_bool, parse_int, parse_memory_bytes

Mode = Literal["none", "counts", "truncate", "full"]
_TARGET = "target-file-size"
_TARGET_BYTES, _KEYED_TARGET_BYTES = 256 << 20, 128 << 20
"""By default: of an append table, and of a table with a primary key."""
LEAST_TARGET_BYTES = 1 << 20
"""A smaller target counts as this: it would make a file of each row. In Java, a file gets a thousand rows at least."""
_FORMAT = ("file.format", "parquet")
_CODEC = ("file.compression", "zstd")
_LEVEL = ("file.compression.zstd-level", "1")
_LEVELS = range(-(1 << 17), 23)
_SUFFIX = "file.suffix.include.compression"
_BLOCK = ("file.block-size", "128 mb")
_PREFIX = ("data-file.prefix", "data-")
_MODE = ("metadata.stats-mode", "truncate(16)")
_DENSE = "metadata.stats-dense-store"
_FIRST = "metadata.stats-keep-first-n-columns"
_THIN = "data-file.thin-mode"
_FIELD_MODE = re.compile(r"fields\.(.+)\.stats-mode")
_TRUNCATE = re.compile(r"truncate\(\s*(\d+)\s*\)")
_CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
_UNKNOWN = (
    "parquet.",
    "file-index.",
    "file.format.per.level",
    "file.compression.per.level",
    "metadata.stats-mode.per.level",
    "fields.default-",
)
"""Beginnings of options that change data files in ways that this writer does not know."""
_HARMLESS = frozenset(("file-index.read.enabled", "file-index.in-manifest-threshold"))
"""They say how indexes are read and where they lie, and make none."""
_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")
"""Paimon has no statistics of them, whatever options say."""
_NAME = re.compile(r"[A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Which statistics a column gets."""

    mode: Mode
    length: int = 0
    """Of `truncate`: so many characters or bytes."""


KEY_MODE = StatsMode("truncate", 128)
"""Of the columns of a primary key."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How data files are written."""

    codec: str
    level: int | None
    """Of Zstandard."""
    target_bytes: int
    """A file that is larger takes no further row group."""
    row_group_bytes: int
    """Of values in memory."""
    prefix: str
    suffix: str
    """From the dot on."""
    modes: Mapping[str, StatsMode]
    """By the name of the column."""
    is_dense: bool
    """Columns without statistics are left out of them."""

    @property
    def stats_cols(self) -> tuple[str, ...] | None:
        """The columns with statistics as an entry states them; `None`: all."""
        names = tuple(name for name, mode in self.modes.items() if mode.mode != "none")
        return None if not self.is_dense or len(names) == len(self.modes) else names


def writing_of(schema: TableSchema, fields: Sequence[DataField]) -> Writing:
    """Return how data files of a table are written.

    Args:
        schema: The latest schema of the branch.
        fields: The columns in the files.

    Raises:
        RefusedError: The table wants files that Lakesweep does not write, or an option does not parse.
    """
    options = schema.options
    format_ = options.get(*_FORMAT).strip().lower()
    if format_ != "parquet":
        raise RefusedError(
            f"option {_FORMAT[0]} is {format_}; expected parquet, since Lakesweep writes no other data files",
            code="unsupported_file_format",
        )
    for option in sorted(options):
        if option.startswith(_UNKNOWN) and option not in _HARMLESS:
            raise RefusedError(
                f"option {option} is {options[option]!r}, which Lakesweep does not follow when it writes data files",
                code="unsupported_file_options",
            )
    try:
        codec = options.get(*_CODEC).strip().lower()
        if codec not in _CODECS:
            raise RefusedError(
                f"option {_CODEC[0]} is {codec}; expected one of {', '.join(_CODECS)}", code="unsupported_file_options"
            )
        level = parse_int(options.get(*_LEVEL), _LEVEL[0]) if codec == "zstd" else None
        if level is not None and level not in _LEVELS:
            raise bad_option(_LEVEL[0], f"a level of at most {_LEVELS[-1]}", options[_LEVEL[0]])
        target = _KEYED_TARGET_BYTES if schema.primary_keys else _TARGET_BYTES
        if _TARGET in options:
            target = max(LEAST_TARGET_BYTES, parse_memory_bytes(options[_TARGET], _TARGET))
        block = parse_memory_bytes(options.get(*_BLOCK), _BLOCK[0])
        has_suffix = parse_bool(options.get(_SUFFIX, "false"), _SUFFIX)
        is_dense = parse_bool(options.get(_DENSE, "true"), _DENSE)
        first = parse_int(options[_FIRST], _FIRST) if _FIRST in options else -1
        modes = _modes(options, fields)
        keys = _keys_with_statistics(schema)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error
    prefix = options.get(*_PREFIX)
    if not _NAME.fullmatch(prefix):
        raise RefusedError(f"option {_PREFIX[0]} is {prefix!r}; expected letters, digits, . _ and -", code="bad_option")
    if first >= 0:
        others = [name for name in modes if name not in keys][first:]
        modes |= dict.fromkeys(others, StatsMode("none"))
    modes |= dict.fromkeys(keys, KEY_MODE)
    suffix = f".{codec}.parquet" if has_suffix and codec != "none" else ".parquet"
    return Writing(codec, level, target, max(1, min(block, target)), prefix, suffix, modes, is_dense)


def _keys_with_statistics(schema: TableSchema) -> tuple[str, ...]:
    """Return the key columns whose statistics are those of the key: without a copy of them, they stand for it."""
    options = schema.options
    if not schema.primary_keys or not parse_bool(options.get(_THIN, "false"), _THIN):
        return ()
    keys = (name for name in schema.primary_keys if name not in schema.partition_keys)
    return tuple(name for name in keys if f"fields.{name}.stats-mode" not in options)


def _modes(options: Mapping[str, str], fields: Sequence[DataField]) -> dict[str, StatsMode]:
    own = {found[1]: text for option, text in options.items() if (found := _FIELD_MODE.fullmatch(option))}
    usual = options.get(*_MODE)
    stated = {field.name: _mode(own.get(field.name, usual), field.name) for field in fields}
    return stated | {field.name: StatsMode("none") for field in fields if field.type.root in _NESTED}


def _mode(text: str, name: str) -> StatsMode:
    word = text.strip().lower()
    if found := _TRUNCATE.fullmatch(word):
        return StatsMode("truncate", int(found[1]))
    match word:
        case "none" | "counts" | "full":
            return StatsMode(word)
    raise FormatError(
        f"statistics of column {name}: expected none, counts, full or truncate(N), found {text!r}", code="bad_option"
    )
