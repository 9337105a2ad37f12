"""The summary: the figures of a demo, as one JSON document or as lines of text."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from lakesweep.demo.orders import OPTIONS
from lakesweep.demo.proof import Proof
from lakesweep.demo.story import DROPPED, TAG, Story

_PARTICULARS = (
    (re.compile(r"\bsnapshot [0-9]+"), "a snapshot"),
    (re.compile(r"\bbefore [0-9-]+T[0-9:.+]+"), "before the cutoff"),
)
_KEPT_TEXT = {
    "live": "a retained snapshot needs it",
    "tagged": "only a tag needs it",
    "retained": "a snapshot within the table's retention",
    "document": "a tag, the schema, a hint",
    "unknown": "for no known reason",
}
_KINDS = (
    (re.compile(r"snapshot/snapshot-[0-9]+"), "snapshot"),
    (re.compile(r"snapshot/.*"), "hint"),
    (re.compile(r"schema/.*"), "schema"),
    (re.compile(r"tag/.*"), "tag"),
    (re.compile(r"manifest/manifest-list-.*"), "manifest_list"),
    (re.compile(r"manifest/.*"), "manifest"),
)


def document(location: str, story: Story, proof: Proof, left: Mapping[str, int], seconds: float) -> dict[str, object]:
    """Return the document that `--json` prints."""
    deletes = story.deletes()
    return {
        "operation": "demo",
        "status": "differs" if proof.problems else "done",
        "seconds": round(seconds, 1),
        "table": location,
        "options": OPTIONS,
        "commits": story.commits,
        "events": len(story.hints),
        "runs": _counted(report.status for report in story.reports),
        "snapshots": list(proof.snapshots),
        "tag": {"name": TAG, "snapshot": story.tagged_id},
        "dropped": _dropped(story),
        "scheduled_tags": [{"name": name, "snapshot": number} for name, number in story.scheduled().items()],
        "removed": {
            "count": len(deletes),
            "bytes": sum(story.written.get(delete.path, 0) for delete in deletes),
            "by_kind": _counted(delete.kind for delete in deletes),
            "by_reason": _counted(_in_general(delete.reason) for delete in deletes),
        },
        "kept": {
            "count": len(left),
            "bytes": sum(left.values()),
            "by_kind": _counted(map(_kind, left)),
            "by_reason": _counted(proof.kept_because.values()),
        },
        "bytes": {"before": sum(story.written.values()), "after": sum(left.values())},
        "requests": dict(story.requests),
        "read": [
            {"version": reading.version, "rows": reading.rows, "equal": reading.equal} for reading in proof.readings
        ],
        "problems": list(proof.problems),
    }


def lines(location: str, story: Story, proof: Proof, left: Mapping[str, int], seconds: float) -> Iterator[str]:
    """Yield the same figures as lines of text."""
    deletes = story.deletes()
    runs = _counted(report.status for report in story.reports)
    yield f"{story.commits} commits, {len(story.hints)} events, a run of maintain after each: {_listed(runs)}"
    if dropped := story.dropped:
        yield (
            f"Then drop-partition committed snapshot {story.newest_id}, without the {dropped.rows:,} rows of "
            f"region={DROPPED}; its event caused the last run"
        )
    yield ""
    removed_bytes: Counter[str] = Counter()
    for delete in deletes:
        removed_bytes[delete.kind] += story.written.get(delete.path, 0)
    kept_bytes: Counter[str] = Counter()
    for key, size in left.items():
        kept_bytes[_kind(key)] += size
    removed, kept = _counted(delete.kind for delete in deletes), _counted(map(_kind, left))
    yield f"{'':15}{'removed':>9}{'bytes':>11}{'kept':>9}{'bytes':>11}"
    for kind in sorted(removed.keys() | kept.keys()):
        gone, stays = removed.get(kind, 0), kept.get(kind, 0)
        yield f"{kind:15}{gone:>9,}{removed_bytes[kind]:>11,}{stays:>9,}{kept_bytes[kind]:>11,}"
    yield f"{'all':15}{len(deletes):>9,}{removed_bytes.total():>11,}{len(left):>9,}{kept_bytes.total():>11,}"
    yield ""
    yield "Removed because"
    for reason, count in _counted(_in_general(delete.reason) for delete in deletes).items():
        yield f"{count:>9,}  {reason}"
    yield "Kept because"
    for word, count in _counted(proof.kept_because.values()).items():
        yield f"{count:>9,}  {_KEPT_TEXT[word]}"
    yield ""
    before, after = sum(story.written.values()), sum(left.values())
    yield f"Without retention {before:,} bytes would lie here; {after:,} do ({after / before:.0%})"
    per_commit = sum(story.requests.values()) / story.commits
    yield f"Requests of Lakesweep: {_listed(story.requests)}; {per_commit:.0f} per commit"
    yield ""
    yield "Read again by pypaimon"
    for reading in proof.readings:
        yield f"  {reading.version:20}{reading.rows:>8,} rows, {'as written' if reading.equal else 'NOT as written'}"
    yield ""
    readable = {reading.version for reading in proof.readings if reading.equal}
    for name, snapshot_id in story.scheduled().items():
        if snapshot_id not in proof.snapshots and f"tag {name}" in readable:
            yield f"Tag {name} was made on time, of snapshot {snapshot_id}, which has expired; it is still readable"
    if proof.problems:
        yield "This is wrong:"
        yield from (f"  {problem}" for problem in proof.problems)
    else:
        yield f"Every needed object is there, and no other, after {seconds:.0f} s on {location}"


def _dropped(story: Story) -> dict[str, object]:
    commits = story.dropped
    snapshots = [commit.snapshot_id for commit in commits.made] if commits else []
    return {"partition": f"region={DROPPED}", "snapshots": snapshots, "rows": commits.rows if commits else 0}


def _counted(words: Iterable[str]) -> dict[str, int]:
    """Count words, the most frequent first."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {word.replace('_', ' ')}" for word, count in counts.items() if count)


def _in_general(reason: str) -> str:
    """Return a reason without its numbers, so that equal reasons can be counted."""
    for pattern, general in _PARTICULARS:
        reason = pattern.sub(general, reason)
    return reason


def _kind(key: str) -> str:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(key)), "data")
