"""Names of root documents: the exact names of snapshots, changelogs, schemas, tags and branches.

Only exact names are roots. Writers leave temp files beside them with similar names (`snapshot-9<uuid>.tmp`), which are
never roots. An id has no leading zeros, so each id has one name.

Source: Paimon `SnapshotManager`, `ChangelogManager`, `SchemaManager`, `TagManager`, `ConsumerManager`, `BranchManager`.
"""

import re

EARLIEST = "EARLIEST"
LATEST = "LATEST"

_ID = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_MAX_ID = (1 << 63) - 1


def snapshot_id_of(name: str) -> int | None:
    """Return the id in `snapshot-<id>`, or None for any other name."""
    return _id_after("snapshot-", name)


def changelog_id_of(name: str) -> int | None:
    """Return the id in `changelog-<id>`, or None for any other name."""
    return _id_after("changelog-", name)


def schema_id_of(name: str) -> int | None:
    """Return the id in `schema-<id>`, or None for any other name."""
    return _id_after("schema-", name)


def tag_name_of(name: str) -> str | None:
    """Return the tag in `tag-<name>`, or None for any other name."""
    return _rest_after("tag-", name)


def consumer_id_of(name: str) -> str | None:
    """Return the consumer in `consumer-<id>`, or None for any other name."""
    return _rest_after("consumer-", name)


def branch_name_of(name: str) -> str | None:
    """Return the branch in `branch-<name>`, or None for any other name."""
    return _rest_after("branch-", name)


def _id_after(prefix: str, name: str) -> int | None:
    if not name.startswith(prefix):
        return None
    digits = name[len(prefix) :]
    if not _ID.fullmatch(digits):
        return None
    number = int(digits)
    return number if number <= _MAX_ID else None


def _rest_after(prefix: str, name: str) -> str | None:
    if not name.startswith(prefix) or "/" in name:
        return None
    return name[len(prefix) :] or None
