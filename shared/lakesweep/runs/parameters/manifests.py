"""The operation that compacts manifests, and its parameters."""

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.parameter import OPTIONS, Signature

MANIFEST_OPTIONS = frozenset({"manifest.target-file-size", "manifest.compression", "file.compression.zstd-level"})
"""Table options that decide how manifests are written."""
OF_A_PASS = MANIFEST_OPTIONS | {"manifest.merge-min-count", "manifest.full-compaction-threshold-size"} | COMMIT_OPTIONS
"""Table options about manifests that a call of a pass may set."""
COMPACT_MANIFEST = Signature(
    "compact-manifest", (CATALOG_TYPE, CATALOG_LOCK, OPTIONS), MANIFEST_OPTIONS | COMMIT_OPTIONS, commits=True
)
