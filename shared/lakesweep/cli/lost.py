"""The effects of creating, moving or deleting a branch, as text. Losses come before everything else."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakesweep.errors import some_of

NAMED = 5
"""Most names of each kind that are shown."""


def lost_lines(findings: Mapping[str, Any], counted_bytes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a word and a sentence for each effect on the branch.

    Args:
        findings: Findings of the plan: `undone`, `branch`, `target`, `lost` and `newly_orphaned`, if present.
        counted_bytes: In words. `time`: when the target was committed. `newly_orphaned`: the size of these files.
    """
    target, lost, branch = findings.get("target"), findings.get("lost") or {}, findings.get("branch") or {}
    if undone := findings.get("undone"):
        yield "undo", f"{undone['operation'].replace('_', ' ')}, run {undone['run_id']}"
    if target:
        yield "target", f"{_target(target, branch, counted_bytes['time'])} becomes the newest"
    elif branch:
        yield "branch", _branch(branch)
    goes = branch if "objects" in branch else {}
    of = f" of branch {goes['name']}" if goes else ""
    for what in ("snapshots", "changelogs"):
        if ids := lost.get(what):
            users = lost.get("commit_users") if what == "snapshots" else None
            by = f", committed by {_names(users)}" if users else ""
            yield "lose", f"{_ids(what, ids)}{of}{by}"
    if schemas := lost.get("schemas"):
        yield "lose", _ids("schemas", schemas)
    if tags := lost.get("tags"):
        yield "lose", f"tag{'s'[: len(tags) != 1]} {_names(tags)}{of}"
    rows = lost.get("rows")
    if rows or (rows == 0 and lost.get("snapshots") and not goes):
        yield "rows", f"{rows} that only these commits added" if goes else _rows(rows, lost.get("snapshots"))
    orphaned, size = findings.get("newly_orphaned"), counted_bytes["newly_orphaned"]
    if orphaned and orphaned["files"]:
        kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in orphaned["by_kind"].items())
        yield (
            "orphan",
            f"{orphaned['files']} file{'s'[: orphaned['files'] != 1]}, {size}, that no version "
            f"needs any more ({kinds}); remove-orphan-files finds them",
        )


def _target(target: Mapping[str, Any], branch: Mapping[str, Any], time: str) -> str:
    """Return the name of the version that becomes the newest; in a fast-forward with the branch that has it."""
    if branch:
        return f"snapshot {target['snapshot']} of branch {branch['name']}, of {time},"
    held = f", which tag {target['tag']} holds," if target.get("tag") is not None else ""
    return f"snapshot {target['snapshot']}{held} of {time}"


def _branch(branch: Mapping[str, Any]) -> str:
    if "objects" in branch:
        return f"{branch['name']} is deleted"
    if branch.get("snapshot") is None:
        return f"{branch['name']} begins empty"
    held = f", which tag {branch['tag']} names" if branch.get("tag") is not None else ""
    return f"{branch['name']} begins with snapshot {branch['snapshot']}{held}"


def _rows(rows: int, going: Sequence[int] | None) -> str:
    than = f"snapshot {going[-1]} has" if going else "before"
    if rows == 0:
        return f"as many as {than}"
    return f"{abs(rows)} {'fewer' if rows > 0 else 'more'} than {than}"


def _ids(what: str, ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"{what[:-1]} {ids[0]}"
    return f"{what} {ids[0]} to {ids[-1]} ({len(ids)})"


def _names(names: Sequence[str]) -> str:
    return some_of(names, NAMED)
