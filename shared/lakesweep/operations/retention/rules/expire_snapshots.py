"""Turn the freed files of an expiry into ordered actions.

Documents come first. After the snapshot documents are deleted, no user can tag, branch from, roll back to or open a
snapshot whose files are about to be deleted. The plan itself is stored before, so the next run finishes a run that
died after the documents. (Paimon has no stored plan and deletes data first; the end state is the same.)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.model.document_actions import delete_root
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.paths.stays import Stay, count_stays
from lakesweep.model.plan import PHASES, Delete, Put, to_text
from lakesweep.model.roots import Freed, References, Root, branch_dir

_PHASE_OF = {
    "data": "data",
    "extra": "data",
    "changelog": "changelog",
    "index": "index",
    "index_manifest": "index",
    "manifest": "manifest",
    "manifest_list": "manifest_list",
    "statistics": "statistics",
}

Stayers = Callable[[Iterable[tuple[str, str]]], Mapping[str, Stay]]
"""Takes files (kind and path); returns path -> the reason, for each file outside the table that must be kept."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """Freed files that are kept, by reason: their count, and their bytes where the size is known."""

    count: Mapping[str, int]
    size_bytes: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    """Warnings about kept files outside the table."""


def snapshot_documents(expired: Sequence[Root], why_expired: Callable[[int], str]) -> tuple[Delete, ...]:
    """Return the deletions of snapshot documents.

    Args:
        expired: The snapshots to delete, ascending by id.
        why_expired: Returns for a snapshot id one sentence without a full stop.
    """
    return tuple(delete_root("documents", root, why_expired(root.ref.id)) for root in expired)


def plan_files(freed: Iterable[Freed], references: References, stays: Stayers) -> tuple[tuple[Delete, ...], KeptFiles]:
    """Return the deletions of freed files that no root needs, in order, and the kept files by reason."""
    kept: Counter[str] = Counter()
    kept_bytes: Counter[str] = Counter()
    deletes: list[Delete] = []
    reasons = [(file, _why_kept(file, references)) for file in freed]
    outside = stays((file.kind, file.path) for file, why in reasons if why is None)
    for file, reason in reasons:
        why = outside[file.path].code if reason is None and file.path in outside else reason
        if why is None:
            owner = file.owner if file.owner != file.name else None
            deletes.append(
                Delete(_PHASE_OF[file.kind], file.kind, file.path, file.size_bytes, file.reason, owner=owner)
            )
        else:
            kept[why] += 1
            kept_bytes[why] += file.size_bytes or 0
    deletes.sort(key=lambda delete: (PHASES.index(delete.phase), delete.path))
    warnings = tuple(map(str, count_stays(outside.values())))
    return tuple(deletes), KeptFiles(dict(sorted(kept.items())), dict(sorted(kept_bytes.items())), warnings)


def _why_kept(file: Freed, references: References) -> str | None:
    why = references.reason_to_keep(file)
    return "unknown_name" if why is None and not may_delete(file.kind, file.path) else why


def changelog_documents(branch: str, expired: Sequence[Root]) -> tuple[Put, ...]:
    """Return the actions that turn expiring snapshots into changelogs, and point changelog/LATEST at the last one."""
    folder = f"{branch_dir(branch)}changelog/"
    puts = [
        Put(
            "changelog_documents",
            "changelog_document",
            f"{folder}changelog-{root.snapshot.id}",
            to_text(root.body),
            f"changelogs outlive snapshots, and snapshot {root.snapshot.id} expires",
        )
        for root in expired
    ]
    last = expired[-1].snapshot.id
    hint = Put("changelog_documents", "hint", f"{folder}LATEST", str(last), f"changelog {last} is the newest")
    return (*puts, hint)


def latest_hint(branch: str, hint: int | None, end_id: int, latest_id: int) -> tuple[Put, ...]:
    """Return the action that moves LATEST up, if the hint would otherwise be left behind.

    Readers trust the hint when its successor does not exist. So a hint that lags must not fall below the first snapshot
    to keep.
    """
    if hint is None or hint >= end_id - 1:
        return ()
    path = f"{branch_dir(branch)}snapshot/LATEST"
    return (
        Put("latest", "hint", path, str(latest_id), f"the hint says {hint}, and the run deletes the next snapshot"),
    )


def earliest_hint(branch: str, earliest_id: int) -> Put:
    """Return the action that points EARLIEST at the first snapshot to keep."""
    path = f"{branch_dir(branch)}snapshot/EARLIEST"
    return Put("hints", "hint", path, str(earliest_id), f"snapshot {earliest_id} is the first to keep")
