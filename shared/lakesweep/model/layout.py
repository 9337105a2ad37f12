"""Layout: what all schemas of all branches together say about where files lie and what they are called.

Options and partition keys differ between branches and change over time, while files stay, so every value that any
schema ever had counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakesweep.format.file_names import BUCKET
from lakesweep.format.partition_path import escape
from lakesweep.format.schema import TableSchema

DATA_PREFIX = "data-"
CHANGELOG_PREFIX = "changelog-"

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
    """All places and prefixes that data files of a table can have."""

    data_prefixes: frozenset[str] = frozenset((DATA_PREFIX,))
    changelog_prefixes: frozenset[str] = frozenset((CHANGELOG_PREFIX,))
    partition_keys: frozenset[tuple[str, ...]] = frozenset(((),))
    path_directories: frozenset[str] = frozenset()
    """As `data-file.path-directory` gives them. The table itself always counts."""
    index_beside_data: bool = False
    """Index files may lie in bucket directories."""

    def bucket_of(self, folder: str) -> str | None:
        """Return the bucket whose directory `folder` is: `3`, `postpone`; `None` when it is none."""
        match = BUCKET.fullmatch(folder[folder.rfind("/") + 1 :])
        if match is None:
            return None
        for parts in self._parts_below_bases(folder):
            if any(_fit(parts[:-1], keys) and len(parts) - 1 == len(keys) for keys in self.partition_keys):
                return match[1]
        return None

    def is_partition(self, folder: str) -> bool:
        """Tell whether `folder` is a partition's directory, or one on the way to it."""
        return any(
            _fit(parts, keys) for parts in self._parts_below_bases(folder) for keys in self.partition_keys if parts
        )

    def _parts_below_bases(self, folder: str) -> Iterator[list[str]]:
        yield folder.split("/")
        for directory in self.path_directories:
            base = [part for part in directory.split("/") if part]
            parts = folder.split("/")
            if base and parts[: len(base)] == base and not _is_odd(base):
                yield parts[len(base) :]


def layout_of(schemas: Iterable[TableSchema]) -> Layout:
    """Gather what `schemas` say; without any there is no place for data.

    The default prefixes always count: some writers take no notice of the options.
    """
    schemas = tuple(schemas)

    def values(key: str) -> frozenset[str]:
        return frozenset(schema.options[key] for schema in schemas if key in schema.options)

    return Layout(
        data_prefixes=values("data-file.prefix") | {DATA_PREFIX},
        changelog_prefixes=values("changelog-file.prefix") | {CHANGELOG_PREFIX},
        partition_keys=frozenset(schema.partition_keys for schema in schemas),
        path_directories=values("data-file.path-directory"),
        # A value that means nothing puts no file anywhere, so it only leaves more names unknown.
        index_beside_data="true" in {text.lower() for text in values("index-file-in-data-file-dir")},
    )


def _fit(parts: list[str], keys: tuple[str, ...]) -> bool:
    return len(parts) <= len(keys) and all(_has_key(part, key) for part, key in zip(parts, keys, strict=False))


def _has_key(part: str, key: str) -> bool:
    # Java escapes keys and values; earlier Python writers did neither, so no value is refused for its letters.
    return any(part.startswith(f"{text}=") and len(part) > len(text) + 1 for text in (escape(key), key))


def _is_odd(base: list[str]) -> bool:
    return base[0] in METADATA_FOLDERS or "." in base or ".." in base
