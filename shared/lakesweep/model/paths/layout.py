"""Layout: the folders and names of data files, according to all schemas of all branches together.

Options and partition keys differ between branches and change over time, but old files remain. So every value that any
schema ever had counts. Folders of other tables below this one show in the keys of a listing (`nested_folder`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.format.file_names import BUCKET
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.partition_path import escape

DATA_PREFIX = "data-"
CHANGELOG_PREFIX = "changelog-"
_NOTHING = "(?!)"
"""A pattern that matches no text."""

_ROOT_NAMES = ("schema-", "snapshot-", "tag-", "changelog-")
_ROOT = re.compile(
    r"(?P<folder>.+?)/(?:branch/branch-[^/]+/)?"
    r"(?:schema/schema-[0-9]+|snapshot/snapshot-[0-9]+|changelog/changelog-[0-9]+|tag/tag-[^/]+)",
    re.DOTALL,
)

METADATA_FOLDERS = frozenset(
    (
        "snapshot",
        "changelog",
        "tag",
        "schema",
        "consumer",
        "branch",
        "manifest",
        "index",
        "statistics",
        "service",
        "metadata",
    )
)
"""No data lies below these, whatever an option says."""


@dataclass(frozen=True, slots=True)
class Layout:
    """All folders and prefixes that data files of a table can have."""

    data_prefixes: frozenset[str] = frozenset((DATA_PREFIX,))
    changelog_prefixes: frozenset[str] = frozenset((CHANGELOG_PREFIX,))
    partition_keys: frozenset[tuple[str, ...]] = frozenset(((),))
    path_directories: frozenset[str] = frozenset()
    """As in `data-file.path-directory`. The table itself always counts."""
    index_beside_data: bool = False
    """Index files may lie in bucket directories."""

    def bucket_pattern(self) -> re.Pattern[str]:
        """Build the pattern of bucket directories; its first group is the bucket: `3`, `postpone`."""
        partitions = ("".join(f"{_component(key)}/" for key in keys) for keys in self.partition_keys)
        return re.compile(f"{self._bases()}{_any_of(partitions)}{BUCKET}")

    def partition_pattern(self) -> re.Pattern[str]:
        """Build the pattern of partition directories and of the directories above them."""
        partitions = (
            "/".join(map(_component, keys[:depth])) for keys in self.partition_keys for depth in range(1, len(keys) + 1)
        )
        return re.compile(f"{self._bases()}{_any_of(partitions)}")

    def _bases(self) -> str:
        folders = ([part for part in text.split("/") if part] for text in self.path_directories)
        known = {"".join(f"{re.escape(part)}/" for part in parts) for parts in folders if parts and not _is_odd(parts)}
        return _any_of(known | {""})


def layout_of(schemas: Iterable[TableSchema]) -> Layout:
    """Collect the values of `schemas`; without any schema there is no folder for data.

    The default prefixes always count, since some writers ignore the options.
    """
    schemas = tuple(schemas)

    def values(key: str) -> frozenset[str]:
        return frozenset(schema.options[key] for schema in schemas if key in schema.options)

    return Layout(
        data_prefixes=values("data-file.prefix") | {DATA_PREFIX},
        changelog_prefixes=values("changelog-file.prefix") | {CHANGELOG_PREFIX},
        partition_keys=frozenset(schema.partition_keys for schema in schemas),
        path_directories=values("data-file.path-directory"),
        # With an invalid value, no writer puts files there. So ignoring the value only leaves more names unknown.
        index_beside_data="true" in {text.lower() for text in values("index-file-in-data-file-dir")},
    )


def nested_folder(key: str) -> str | None:
    """Return the folder of another table below this one, if a key is a schema or a root of that table.

    A root alone is enough: a table whose schemas are lost still has live files, and schemas can be restored.
    """
    # The expression alone takes a microsecond.
    if not key.startswith(_ROOT_NAMES, key.rfind("/") + 1) or key.startswith("branch/"):
        return None
    match = _ROOT.fullmatch(key)
    return match["folder"] if match else None


def _component(key: str) -> str:
    # Java escapes keys and values; earlier Python writers escaped neither. So no value is refused for its letters.
    texts = {escape(key), key} if "/" not in key else {escape(key)}
    return f"{_any_of(map(re.escape, texts))}=[^/]+"


def _any_of(patterns: Iterable[str]) -> str:
    choices = sorted(patterns)
    return f"(?:{'|'.join(choices)})" if choices else _NOTHING


def _is_odd(parts: list[str]) -> bool:
    return parts[0] in METADATA_FOLDERS or "." in parts or ".." in parts
