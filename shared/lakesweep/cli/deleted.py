"""What a run deletes by a condition, as text: rows, files, and who still shows the rows.

A person may delete rows because they must be forgotten. So the text says that a commit deletes no file, and names the
snapshots, tags and branches that still show the rows. The values of the condition are not in it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]

FIRST = 20
"""Partitions and roots that are shown."""


def row_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about deleted rows; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `RowsReport.to_json`.
        size: Renders a number of bytes.
    """
    zone = "" if commits["time_zone"] is None else f"; its times are times of the zone {commits['time_zone']}"
    yield "condition", commits["condition"] + zone
    for each in commits["partitions"][:FIRST]:
        if each["partition"]:
            yield "", f"{each['partition']}: {_in_files(each)}{', so nothing is left' if each['loses_all'] else ''}"
    if commits["partition_count"] > FIRST:
        yield "", f"and {commits['partition_count'] - FIRST} more"
    yield from _found(commits)
    for row in commits.get("sample", ()):
        yield "row", json.dumps(row, ensure_ascii=False)
    for commit in commits["made"]:
        yield "commit", f"snapshot {commit['snapshot_id']}: {_in_files(commits)} deleted{_effort(commits, commit)}"
    yield from _rewritten(commits.get("rewritten"), size)
    if commits["shown_by"] is not None:
        yield from _shown_by(commits["shown_by"])
    elif commits["made"]:
        if commits.get("rewritten") is None:
            kept = "none is deleted or rewritten, so data files keep the rows until a compaction"
        else:
            kept = "none is deleted, so former data files keep the rows until expiry"
        yield (
            "files",
            f"{kept}; older snapshots, tags and branches may show them (delete-rows without --execute names these)",
        )
    if commits["rows"] and not commits["made"]:
        yield "catalog", commits["catalog"] or "not declared"


def _found(commits: Document) -> Iterator[tuple[str, str]]:
    if not commits["made"]:
        yield "delete", _in_files(commits, f" of {commits['all_files']}") if commits["rows"] else "no row"
    ruled_out = commits["all_files"] - commits["searched_files"]
    if ruled_out:
        searched = f"{_counted(commits['searched_files'], 'file')}; metadata tell enough of the other {ruled_out}"
        yield "searched", searched
    if commits["index_files"] or commits["written"]["index_files"]:
        written = commits["written"]["index_files"]
        new = f"{_counted(written, 'new index file')} in place of " if written else "new ones in place of "
        yield "vectors", f"{new}{commits['index_files'] or 'none'}"


def _rewritten(found: Document | None, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """Say which data files are rewritten, since readers apply no deletion vectors."""
    if found is None:
        return
    if found["files"]:
        written = found["written"]
        new = f", into {_counted(written['files'], 'file')} ({size(written['bytes'])})" if written["files"] else ""
        kept = f"{_counted(found['kept_rows'], 'row')} stay{'s' if found['kept_rows'] == 1 else ''}"
        yield "rewrite", f"{_counted(found['files'], 'data file')} ({size(found['bytes'])}){new}: {kept}"


def _shown_by(shown_by: list[Document]) -> Iterator[tuple[str, str]]:
    if not shown_by:
        yield "shown by", "no snapshot, tag or branch that there is now"
    for each in shown_by[:FIRST]:
        last = "it" if each["count"] == 1 else "the last one"
        until = "" if each["until"] is None else f"; {last} stays {each['until']}"
        yield ("shown by" if each["is_certain"] else "may show"), f"{each['roots']}{until}"
    if len(shown_by) > FIRST:
        yield "shown by", f"and {len(shown_by) - FIRST} more"


def _in_files(counts: Document, of: str = "") -> str:
    whole = counts["whole_files"]
    leave = f" (every row of {whole})" if whole else ""
    files = f"{counts['files']}{of} files" if of else _counted(counts["files"], "file")
    return f"{_counted(counts['rows'], 'row')} in {files}{leave}"


def _effort(commits: Document, commit: Document) -> str:
    """Say that other writers were in the way, if they were."""
    attempts = f"; attempt {commit['attempts']}, since others committed first" if commit["attempts"] > 1 else ""
    reused = "; what an earlier attempt had found was used again" if commits["reused_attempt"] else ""
    replaced = "; another writer replaced it, so it was committed again" if commit["replaced"] else ""
    return attempts + reused + replaced


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
