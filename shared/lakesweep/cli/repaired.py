"""What a repair leaves out of a table, which vectors a cleaning leaves out, and which hints are corrected, as text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lakesweep.errors import some_of

Document = Mapping[str, Any]

FIRST = 20
"""Partitions, files and manifests that are shown."""
NAMED_BY = 6
"""Roots that are named."""


def repair_lines(
    commits: Document, size: Callable[[int], str], time: Callable[[int | None], str]
) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about a repair; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `RepairReport.to_json` and `VectorsReport.to_json`.
        size: Renders a number of bytes.
        time: Renders epoch milliseconds.
    """
    return _vector_lines(commits, size) if "kept_vectors" in commits else _lost_lines(commits, size, time)


def _lost_lines(
    commits: Document, size: Callable[[int], str], time: Callable[[int | None], str]
) -> Iterator[tuple[str, str]]:
    lost = commits["lost"]
    for partition in commits["partitions"][:FIRST]:
        rows, files = _counted(partition["rows"], "row"), _counted(partition["files"], "file")
        yield "", f"{partition['partition'] or 'the whole table'}: {rows}, {size(partition['bytes'])}, {files}"
    if commits["partition_count"] > FIRST:
        yield "", f"and {commits['partition_count'] - FIRST} more"
    if lost["files"]:
        what = f"{_counted(lost['files'], 'file')}, {_counted(lost['rows'], 'row')}, {size(lost['bytes'])}"
        yield "lost", f"{what} of {commits['live_files']} live files"
    for file in commits["lost_files"][:FIRST]:
        what = f"{_counted(file['rows'], 'row')}, {size(file['bytes'])}, level {file['level']}"
        written = (
            "" if file["created_ms"] is None else f", written {time(file['created_ms']).rstrip('Z')} (writer's clock)"
        )
        yield "file", f"{file['path']}: {what}{written}{_restorable(file)}"
    if lost["files"] > FIRST:
        yield "file", f"and {lost['files'] - FIRST} more"
    for manifest in commits["lost_manifests"][:FIRST]:
        yield "lost", f"{manifest['path']}: {_entries(manifest)}{_range(manifest)}{_restorable(manifest)}"
    if lost["manifests"] > FIRST:
        yield "lost", f"and {lost['manifests'] - FIRST} more"
    if lost["statistics"] is not None:
        yield "lost", f"{lost['statistics']}; ANALYZE makes new statistics"
    for doubt in commits["doubts"]:
        yield "doubt", doubt
    yield from _rest(commits)


def _rest(commits: Document) -> Iterator[tuple[str, str]]:
    needing = dict.fromkeys(
        name for found in (*commits["lost_files"], *commits["lost_manifests"]) for name in found["named_by"] or ()
    )
    if needing:
        yield "needed by", f"{some_of(tuple(needing), NAMED_BY)}; these stay incomplete"
    if commits["dangling_vectors"]:
        yield "vectors", f"{_counted(commits['dangling_vectors'], 'deletion vector')} of lost files"
    for commit in commits["made"]:
        left = "" if commits["rows_left"] is None else f", {_counted(commits['rows_left'], 'row')} left"
        yield "commit", f"snapshot {commit['snapshot_id']} without what is lost{left}"
    if not commits["made"] and commits["loss_id"] is not None:
        yield "accept", f"--accept-loss {commits['loss_id']} if all of this is lost for good"
    if not commits["made"] and any(commits["lost"].values()):
        yield "catalog", commits["catalog"] or "not declared"


def _vector_lines(commits: Document, size: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    for file in commits["index_files"][:FIRST]:
        where = f"{file['partition']}, " if file["partition"] else ""
        yield (
            "index",
            f"{file['path']}: {file['dangling']} of {_counted(file['vectors'], 'vector')}, {size(file['bytes'])}, "
            f"{where}bucket {file['bucket']}",
        )
    count = commits["index_file_count"]
    if count > FIRST:
        yield "index", f"and {count - FIRST} more"
    if count:
        what = _counted(commits["dangling_vectors"], "deletion vector")
        files = f"{count} of {_counted(commits['all_index_files'], 'index file')} ({size(commits['bytes'])})"
        yield "vectors", f"{what} of files that are gone, in {files}"
    written = commits["written"]
    if written["index_files"]:
        kept = _counted(commits["kept_vectors"], "vector")
        new = _counted(written["index_files"], "new index file")
        yield "copy", f"the other {kept} of these files, into {new} ({size(written['bytes'])})"
    for commit in commits["made"]:
        attempts = f"; attempt {commit['attempts']}, since others committed first" if commit["attempts"] > 1 else ""
        yield (
            "commit",
            f"snapshot {commit['snapshot_id']}: the same rows, and no vector of a file that is gone{attempts}",
        )
    if count:
        yield "files", "none is deleted by a commit; former index files stay while a snapshot, tag or branch names them"
        if not commits["made"]:
            yield "catalog", commits["catalog"] or "not declared"


def hint_lines(hints: Sequence[Document]) -> Iterator[tuple[str, str]]:
    """Yield a word and a sentence for each hint that a plan corrects."""
    for hint in hints:
        says = "no id" if hint["says"] is None else hint["says"]
        yield "hint", f"{hint['path']}: {says}, becomes {hint['right']} ({hint['why']})"


def _entries(manifest: Document) -> str:
    added, deleted = _counted(manifest["added"], "added file"), _counted(manifest["deleted"], "deleted file")
    return f"{added} and {deleted}, names unknown"


def _range(manifest: Document) -> str:
    low, high = manifest["partition_min"], manifest["partition_max"]
    if not low or not high:
        return ""
    first, last = (", ".join(f"{key}={value}" for key, value in values.items()) for values in (low, high))
    return f", partition {first}" if first == last else f", partitions {first} to {last}"


def _restorable(found: Document) -> str:
    return "; the bucket's versions still have it" if found["is_restorable"] else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
