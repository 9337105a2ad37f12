"""What a compaction rewrites, as text."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
FIRST = 20
"""Partitions that are shown."""


def compaction_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about rewritten data files; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `CompactionReport.to_json`.
        size: Renders a number of bytes.
    """
    yield "table", f"{_counted(commits['all_files'], 'data file')}"
    for each in commits["partitions"][:FIRST]:
        if each["partition"]:
            yield "", f"{each['partition']}: {_files(each, size)}"
    if commits["partition_count"] > FIRST:
        yield "", f"and {commits['partition_count'] - FIRST} more partitions"
    if commits["files"]:
        yield "rewrite" if not commits["made"] else "rewritten", _files(commits, size)
    if commits["waiting_files"]:
        yield "left", f"{_counted(commits['waiting_files'], 'data file')} for the next run, since a run has a limit"
    if commits["busy_files"]:
        yield "busy", f"{_counted(commits['busy_files'], 'data file')} in partitions that are not idle long enough"
    for commit in commits["made"]:
        written = commits["written"]
        attempts = f"; attempt {commit['attempts']}, since others committed first" if commit["attempts"] > 1 else ""
        yield (
            "commit",
            f"snapshot {commit['snapshot_id']}: {_counted(written['files'], 'new file')}, {size(written['bytes'])}, in "
            f"place of {commit['files']}{attempts}",
        )
        yield "files", "none is deleted by a commit; former files stay while a snapshot, tag or branch names them"
    if commits["vain_files"]:
        lost = _counted(commits["vain_files"], "data file")
        yield "given up", f"{lost}: other writers changed or deleted some of them meanwhile"
    if commits["files"] and not commits["made"]:
        yield "catalog", commits["catalog"] or "not declared"


def _files(counts: Document, size: Callable[[int], str]) -> str:
    deleted = counts["deleted_rows"]
    rows = "with deleted rows" if deleted is None else f"{deleted} of {counts['rows']} rows deleted"
    into = _counted(counts["bins"], "file")
    return f"{_counted(counts['files'], 'file')}, {size(counts['bytes'])}, {rows}, into about {into}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
