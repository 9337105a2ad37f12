"""Which manifests a compaction rewrites. Source: Paimon `ManifestFileMerger#tryFullCompaction`."""

from collections.abc import Sequence

from lakesweep.format.manifest import ManifestMeta


def must_change(meta: ManifestMeta, target_bytes: int) -> bool:
    """Tell whether a manifest has DELETE entries, or is smaller than manifests should be."""
    return meta.deleted_count > 0 or meta.file_size < target_bytes


def entries_to_read(metas: Sequence[ManifestMeta], target_bytes: int, *, is_partitioned: bool) -> int:
    """Return how many entries a compaction reads at least.

    If files are deleted, it also looks for them in large manifests: without partitions in all of them, else in those
    that may name a partition of such a file, which are not counted here.
    """
    has_deletes = any(meta.deleted_count for meta in metas)
    reads_all = has_deletes and not is_partitioned
    return sum(meta.added_count + meta.deleted_count for meta in metas if reads_all or must_change(meta, target_bytes))


def is_worthwhile(metas: Sequence[ManifestMeta], target_bytes: int) -> bool:
    """Tell whether a compaction may change anything: there are DELETE entries, or two small manifests."""
    return any(meta.deleted_count for meta in metas) or sum(must_change(meta, target_bytes) for meta in metas) > 1
