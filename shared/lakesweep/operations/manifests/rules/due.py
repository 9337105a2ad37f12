"""When a pass compacts manifests: when a commit of Paimon would have merged them, and none has.

Each commit of Paimon merges the manifests of the snapshot before, and writes the result as its base list. Other writers
only add manifests to the list. So the base list of the newest snapshot shows whether anybody merges them. Its delta
list does not, since the next commit is the first that could merge what it names.

Source: Paimon `ManifestFileMerger`, `CoreOptions` (`manifest.*`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.values.options import parse_int, parse_memory_bytes
from lakesweep.model.policy import OWNED_BY_FILES
from lakesweep.operations.manifests.rules.choice import must_change

MERGE_MIN_COUNT = "manifest.merge-min-count"
FULL_SIZE = "manifest.full-compaction-threshold-size"
TARGET_SIZE = "manifest.target-file-size"
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on a list is too long."""

    max_count: int = 30
    """A list with more manifests below the target size is due."""
    full_bytes: int = 16 * _MB
    """A list is due if the manifests that a full compaction rewrites have this size together."""
    target_bytes: int = 8 * _MB
    """The size that manifests should have."""


def is_compacted(catalog_type: str | None, policy: Mapping[str, str] | Literal[False]) -> bool:
    """Tell whether passes compact the manifests of a table.

    Args:
        catalog_type: The declared type of its catalog, if any.
        policy: `manifests` of the fleet policy.
    """
    return catalog_type in OWNED_BY_FILES and policy is not False


def stated_for(
    schema: Mapping[str, str], policy: Mapping[str, str] | Literal[False], call: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the table options in force: each of the call, else of the schema, else of the fleet policy."""
    return {**(policy or {}), **schema, **(call or {})}


def thresholds_of(options: Mapping[str, str]) -> Thresholds:
    """Return the thresholds that table options state.

    Raises:
        RefusedError: `bad_option`: a value does not parse.
    """

    def stated(key: str, parse: Callable[[str, str], int], otherwise: int) -> int:
        return max(parse(options[key], key), 1) if key in options else otherwise

    by_default = Thresholds()
    try:
        return Thresholds(
            stated(MERGE_MIN_COUNT, parse_int, by_default.max_count),
            stated(FULL_SIZE, parse_memory_bytes, by_default.full_bytes),
            stated(TARGET_SIZE, parse_memory_bytes, by_default.target_bytes),
        )
    except FormatError as error:
        raise RefusedError(str(error), code=error.code) from error


@dataclass(frozen=True, slots=True)
class ListLength:
    """One base list, beside the thresholds."""

    thresholds: Thresholds
    small: int = 0
    """Manifests below the target size."""
    changing: int = 0
    """Manifests that a full compaction rewrites: they are small, or have entries that delete files."""
    changing_bytes: int = 0
    largest: int = field(default=0, repr=False)
    """Size of the largest manifest among these."""

    @property
    def exceeds(self) -> str | None:
        """Return the option whose threshold the list exceeds, `None` if it is not due."""
        if self.small > self.thresholds.max_count:
            return MERGE_MIN_COUNT
        # A single manifest is left as it is: Paimon would not rewrite it either.
        if self.changing > 1 and self.changing_bytes >= self.thresholds.full_bytes:
            return FULL_SIZE
        return None

    @property
    def commits_left(self) -> int:
        """Return how many commits it takes at least until the list is due; 0: it is.

        A commit adds at most one manifest that is small. How large it is, is a guess: as large as the largest so far.
        """
        if self.exceeds is not None:
            return 0
        by_count = self.thresholds.max_count + 1 - self.small
        if not self.largest:
            return by_count
        by_size = -(-(self.thresholds.full_bytes - self.changing_bytes) // self.largest)
        return max(1, min(by_count, by_size))


def length_in(base: Iterable[ManifestMeta], thresholds: Thresholds) -> ListLength:
    """Return how long a base list is."""
    metas = tuple(base)
    small = sum(meta.file_size < thresholds.target_bytes for meta in metas)
    changing = [meta.file_size for meta in metas if must_change(meta, thresholds.target_bytes)]
    return ListLength(thresholds, small, len(changing), sum(changing), max(changing, default=0))


def first_look(thresholds: Thresholds) -> int:
    """Return the first snapshot whose base list may have too many manifests, if each commit adds one.

    A list that is too large with fewer manifests is found when it reaches this snapshot.
    """
    return thresholds.max_count + 2
