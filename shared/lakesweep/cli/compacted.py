"""What a compaction rewrites, as text."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
FIRST = 20
"""Partitions or buckets that are shown."""
_STAY = "none is deleted by a commit; former files stay while a snapshot, tag or branch names them"


def compaction_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about rewritten data files; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `CompactionReport.to_json`.
        size: Renders a number of bytes.
    """
    yield "table", f"{_counted(commits['all_files'], 'data file')}"
    if commits.get("buckets") is not None:
        yield from _bucket_lines(commits, size)
        return
    for each in commits["partitions"][:FIRST]:
        if each["partition"]:
            yield "", f"{each['partition']}: {_files(each, size)}"
    if commits["partition_count"] > FIRST:
        yield "", f"and {commits['partition_count'] - FIRST} more partitions"
    if commits["files"]:
        yield "rewrite" if not commits["made"] else "rewritten", _files(commits, size)
    yield from _left(commits, "their partition is not idle long enough")
    for commit in commits["made"]:
        yield "commit", f"{_snapshot(commits, commit, size)}, in place of {commit['files']}{_attempts(commit)}"
        yield "files", _STAY
    yield from _end(commits)


def _bucket_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Return the facts about a table with a primary key."""
    for number, each in enumerate(commits["buckets"][:FIRST]):
        place = f"{each['partition']}/bucket-{each['bucket']}".lstrip("/")
        tasks = f" in {_counted(len(each['jobs']), 'task')}" if len(each["jobs"]) > 1 else ""
        deeper = f"; keys are read of {size(each['deeper_bytes'])} on deeper levels" if each["deeper_bytes"] else ""
        yield (
            "" if number else ("merged" if commits["made"] else "merge"),
            f"{place}: {_counted(each['files'], 'file')}, {size(each['bytes'])}, to level {each['level']}{tasks} "
            f"({each['why']}){deeper}; {'had' if commits['made'] else 'has'} {_counted(each['runs'], 'sorted run')}, "
            f"and {_counted(each['level_0_rows'], 'row')} on level 0",
        )
    if commits["bucket_count"] > FIRST:
        yield "", f"and {commits['bucket_count'] - FIRST} more buckets"
    yield from _left(commits, "no file of level 0 is old enough, or their partition is not idle long enough")
    for commit in commits["made"]:
        moved = _counted(commits["moved_files"], "file")
        yield (
            "commit",
            f"{_snapshot(commits, commit, size)}, in place of {commit['files']}; {moved} moved to another level; "
            f"{_counted(commits['marked_rows'], 'older row')} hidden{_attempts(commit)}",
        )
        yield "files", _STAY
    yield from _end(commits)


def _left(commits: Document, why_busy: str) -> Iterator[tuple[str, str]]:
    if commits["waiting_files"]:
        yield "left", f"{_counted(commits['waiting_files'], 'data file')} for the next run, since a run has a limit"
    if commits["busy_files"]:
        yield "busy", f"{_counted(commits['busy_files'], 'data file')} left: {why_busy}"


def _end(commits: Document) -> Iterator[tuple[str, str]]:
    if commits["vain_files"]:
        lost = _counted(commits["vain_files"], "data file")
        yield "given up", f"{lost}: other writers changed or deleted some of them meanwhile"
    if commits["files"] and not commits["made"]:
        yield "catalog", commits["catalog"] or "not declared"


def _snapshot(commits: Document, commit: Document, size: Callable[[int], str]) -> str:
    written = commits["written"]
    return f"snapshot {commit['snapshot_id']}: {_counted(written['files'], 'new file')}, {size(written['bytes'])}"


def _attempts(commit: Document) -> str:
    return f"; attempt {commit['attempts']}, since others committed first" if commit["attempts"] > 1 else ""


def _files(counts: Document, size: Callable[[int], str]) -> str:
    deleted = counts["deleted_rows"]
    rows = "with deleted rows" if deleted is None else f"{deleted} of {counts['rows']} rows deleted"
    into = _counted(counts["bins"], "file")
    return f"{_counted(counts['files'], 'file')}, {size(counts['bytes'])}, {rows}, into about {into}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
