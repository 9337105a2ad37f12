"""What a run commits, as text: what it takes out or rewrites, who still shows it, and the new snapshots.

A person may drop a partition because its data must vanish. So the text says that a commit deletes no file, and names
the snapshots, tags and branches that keep the files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lakesweep.cli.compacted import compaction_lines
from lakesweep.cli.deleted import row_lines
from lakesweep.cli.erased import erasure_lines
from lakesweep.errors import some_of

Document = Mapping[str, Any]

FIRST_PARTITIONS = 20
"""Partitions that are shown."""
NAMED_PARTITIONS = 6
"""Partitions that are named in one line."""
FIRST_FILES = 20
"""Data files that are shown."""
SHOWN_BY = 6
"""Roots that are named."""
_NAMES_PARTITIONS = {"drop-partition": "such partition", "truncate": "rows"}
"""Operations that take out what the call names, and what is not there if they find nothing."""


def commit_lines(commits: Document, words: Mapping[str, str], size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about the commits; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `CommitsReport.to_json`.
        words: `operation`; `next_due`: when the next partition is due; `time`: when a target was committed.
        size: Renders a number of bytes.
    """
    if "places" in commits:
        return erasure_lines(commits, words)
    if "condition" in commits:
        return row_lines(commits, size)
    if "bins" in commits:
        return compaction_lines(commits, size)
    if "left_files" in commits:
        return _returned_lines(commits, size)
    if "back" in commits:
        return _as_latest_lines(commits, words, size)
    return _partition_lines(commits, words, size) if "partition_count" in commits else _manifest_lines(commits, size)


def _manifest_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    before, after, saved = commits["before"], commits["after"], commits["saved_requests"]
    if commits["exceeds"] is not None:
        yield "due", f"the list of manifests exceeds {commits['exceeds']}"
    yield ("manifests" if after == before else "before"), _manifests(before, size)
    if after is not None and after != before:
        yield "after", _manifests(after, size)
    for commit in commits["made"]:
        reused = "; manifests of an earlier attempt were used again" if commits["reused_attempt"] else ""
        yield "commit", f"snapshot {commit['snapshot_id']}: the same files{_effort(commit)}{reused}"
    if saved is not None:
        yield (
            "saves",
            f"{_counted(saved['reader'], 'request')} of each reader of the whole table, {saved['commit']} of a commit "
            "that looks for conflicts in one partition",
        )
        yield "files", "none is deleted by a commit; former manifests stay while a snapshot, tag or branch names them"
    if not commits["made"] and after != before:
        yield "catalog", commits["catalog"] or "not declared"


def _manifests(figures: Document, size: Callable[[int], str]) -> str:
    entries, deleted = figures["entries"], figures["deleted_entries"]
    return (
        f"{_counted(figures['manifests'], 'manifest')}, {size(figures['bytes'])}, {entries} "
        f"{'entry' if entries == 1 else 'entries'}, {deleted or 'none'} of deleted files"
    )


def _partition_lines(
    commits: Document, words: Mapping[str, str], size: Callable[[int], str]
) -> Iterator[tuple[str, str]]:
    made, count = commits["made"], commits["partition_count"]
    for partition in commits["partitions"][:FIRST_PARTITIONS]:
        yield "", f"{partition['partition'] or 'the whole table'}: {_content(partition, size)}{_why(partition)}"
    if count > FIRST_PARTITIONS:
        yield "", f"and {count - FIRST_PARTITIONS} more"
    if count and not made:
        yield "drop", f"{_counted(count, 'partition')}, {_content(commits, size)} of {commits['live_files']} live ones"
    for commit in made:
        yield (
            "commit",
            f"snapshot {commit['snapshot_id']}: {_counted(commit['partitions'], 'partition')} dropped, "
            f"{_content(commit, size)}{_effort(commit)}",
        )
    if count:
        yield "files", _until(commits["shown_by"])
    elif words["operation"] in _NAMES_PARTITIONS:
        yield "drop", f"none: the newest snapshot has no {_NAMES_PARTITIONS[words['operation']]}"
        if commits["shown_by"] is not None:
            yield "files", _still(commits["shown_by"])
    yield from _rest(commits, words)


def _rest(commits: Document, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if commits["newer_files"]:
        yield "newer", f"{_counted(commits['newer_files'], 'file')} written after the plan was dropped as well"
    if commits["dangling_vectors"]:
        vectors = _counted(commits["dangling_vectors"], "deletion vector")
        yield "vectors", f"{vectors} of files that do not exist any more: left out of the index"
    if commits["due_later"]:
        yield "later", f"{_counted(commits['due_later'], 'more partition')} due, for later runs"
    if commits["not_due"]:
        reasons = (f"{count} ({why.replace('_', ' ')})" for why, count in sorted(commits["not_due"].items()))
        yield "keep", f"partitions: {', '.join(reasons)}"
    if commits["next_due_ms"] is not None:
        yield "due", f"the next partition at {words['next_due']}"
    if commits["partition_count"] and not commits["made"]:
        yield "catalog", commits["catalog"] or "not declared"


def _until(shown_by: Sequence[str] | None) -> str:
    """Say how long the files stay."""
    if shown_by is None:
        return (
            "none is deleted by a commit; they stay while a snapshot, tag or branch shows these rows (drop-partition "
            "without --execute names these)"
        )
    if not shown_by:
        return "none is deleted by a commit; nothing else shows these rows, so the next expiry deletes them"
    return f"none is deleted by a commit; they stay while these show their rows: {some_of(shown_by, SHOWN_BY)}"


def _still(shown_by: Sequence[str]) -> str:
    """Say who shows rows that the newest snapshot does not have."""
    if not shown_by:
        return "no snapshot, tag or branch shows such rows"
    return f"they stay while these show such rows: {some_of(shown_by, SHOWN_BY)}"


def _content(counts: Document, size: Callable[[int], str]) -> str:
    return f"{_counted(counts['rows'], 'row')}, {size(counts['bytes'])}, {_counted(counts['files'], 'file')}"


def _why(partition: Document) -> str:
    """Say why a partition expires. A partition that the call named needs no reason."""
    return f" ({partition['why'].replace('_', ' ')})" if partition["time_ms"] is not None else ""


def _effort(commit: Document) -> str:
    """Say that other writers were in the way, if they were."""
    attempts = f"; attempt {commit['attempts']}, since others committed first" if commit["attempts"] > 1 else ""
    times = "once" if commit["replaced"] == 1 else f"{commit['replaced']} times"
    replaced = f"; another writer replaced it {times}, so it was committed again" if commit["replaced"] else ""
    return attempts + replaced


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _as_latest_lines(
    commits: Document, words: Mapping[str, str], size: Callable[[int], str]
) -> Iterator[tuple[str, str]]:
    target, made = commits["target"], commits["made"]
    held = f", which tag {target['tag']} holds," if target["tag"] is not None else ""
    yield "target", f"snapshot {target['snapshot']}{held} of {words['time']} is committed again as the newest"
    for commit in made:
        yield "commit", f"snapshot {commit['snapshot_id']}{_effort(commit)}"
    for word, part in (("back", commits["back"]), ("gone", commits["gone"])):
        yield word, _part(part, size)
    if commits["index"]:
        yield "index", "the index files of that version, such as deletion vectors, come back"
    if commits["newer_files"]:
        yield "newer", f"{_counted(commits['newer_files'], 'file')} written after the plan are gone as well"
    yield "files", "none is deleted by a commit; older snapshots and tags still show what is gone"
    if tags := commits["kept_by"]:
        named = f"tag{'s'[: len(tags) != 1]} {some_of(tags)}"
        yield "keep", f"{named}, while there are snapshots, changelogs or other tags from before this commit"
    if commits["lost"]["count"]:
        yield "missing", f"{_counted(commits['lost']['count'], 'file')}: {some_of(commits['lost']['first'], 3)}"
    if not made:
        yield "catalog", commits["catalog"] or "not declared"


def _returned_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    undone, left, written = commits["undone"], commits["left"], commits["written"]
    rows, files = _counted(commits["rows"], "row"), _counted(commits["files"], "data file")
    yield "undo", f"run {undone['run_id']}, which deleted rows by snapshot {undone['snapshot_id']}"
    for commit in commits["made"]:
        yield "commit", f"snapshot {commit['snapshot_id']}{_effort(commit)}"
    if commits["rows"]:
        yield "back", f"{rows}, in {files}"
    if commits["there_already"]:
        yield "there", f"{_counted(commits['there_already'], 'row')} that came back before"
    if left["files"]:
        why = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in left["why"].items())
        yield "left", f"{_counted(left['rows'], 'row')} of {_counted(left['files'], 'data file')} ({why})"
    for file in commits["left_files"][:FIRST_FILES]:
        yield "", f"{file['file']}: {_counted(file['rows'], 'row')} ({file['why'].replace('_', ' ')})"
    if written["index_files"]:
        new = _counted(written["index_files"], "new index file")
        yield "index", f"{new} ({size(written['bytes'])}) instead of {commits['index_files']}"
    if commits["rows"] and not commits["made"]:
        yield "catalog", commits["catalog"] or "not declared"


def _part(part: Document, size: Callable[[int], str]) -> str:
    files = f"{_counted(part['files'], 'file')}, {_counted(part['rows'], 'row')}, {size(part['bytes'])}"
    named = [name for name in part["partitions"] if name]
    rest = part["partition_count"] - len(part["partitions"])
    more = f" and {rest} more" if rest and len(named) <= NAMED_PARTITIONS else ""
    return f"{files}, in {some_of(named, NAMED_PARTITIONS)}{more}" if named else files


def in_words(ids: Sequence[int]) -> str:
    """Return snapshots in words, such as `snapshots 42 to 44`."""
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
