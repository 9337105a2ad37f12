"""Long-lived changelogs: the document that remains of an expired snapshot while its changelog is kept.

The document has a snapshot's fields. Source: Paimon `Changelog`, `ExpireSnapshotsImpl`.
"""

from lakesweep.format.snapshot import Snapshot, parse_snapshot


def parse_changelog(body: bytes, path: str) -> Snapshot:
    """Read a changelog document; its base and delta lists may have been deleted."""
    return parse_snapshot(body, path)
