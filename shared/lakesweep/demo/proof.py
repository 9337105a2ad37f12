"""The proof: it compares what an independent reader finds with what was written and what was reported.

The proof uses no code of Lakesweep. pypaimon reads every version that must be readable and names the files it needs.
Together with the documents these must be exactly the objects that are left.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.demo.orders import RETAIN_MAX, RETAIN_MIN, Orders, Row, Version
from lakesweep.demo.story import TAG, TAG_FOLDER, Story

_SNAPSHOT = re.compile(r"snapshot/snapshot-([0-9]+)")
_DOCUMENTS = frozenset({"schema/schema-0", "snapshot/LATEST", "snapshot/EARLIEST"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One version, as it was read again."""

    version: str
    rows: int
    equal: bool
    """Whether the rows are the rows that were written."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The findings."""

    snapshots: tuple[int, ...]
    readings: tuple[Reading, ...]
    kept_because: Mapping[str, str]
    """Key -> `retained` (a snapshot), `document` (tag, schema, hint), `live` (a snapshot needs it), `tagged` (only
    tags do), `unknown`."""
    problems: tuple[str, ...]
    """One sentence for each problem; empty if everything is right."""


def prove(orders: Orders, story: Story, left: Mapping[str, int]) -> Proof:
    """Read everything again and compare.

    Args:
        orders: The table, and the rows that were written to it.
        story: The reports of the maintenance.
        left: Key -> size in bytes of the objects that are left.
    """
    ids = tuple(sorted(int(match[1]) for match in map(_SNAPSHOT.fullmatch, left) if match))
    problems: list[str] = []
    readings: list[Reading] = []

    def read(version: str, expected: tuple[Row, ...], reader: Callable[[], Version]) -> frozenset[str]:
        try:
            found = reader()
        except Exception as error:  # noqa: BLE001 - the proof looks for any failure of the reader
            problems.append(f"{version} cannot be read: {type(error).__name__}: {error}")
            readings.append(Reading(version, 0, False))
            return frozenset()
        equal = found.rows == expected
        readings.append(Reading(version, len(found.rows), equal))
        if not equal:
            problems.append(f"{version} holds {len(found.rows)} rows; expected the {len(expected)} that were written")
        return found.files

    newest = orders.expected[-1]
    read("the table", newest, lambda: Version(orders.read_latest(), frozenset()))
    live: set[str] = set()
    for snapshot_id in reversed(ids):
        expected = orders.expected[snapshot_id - 1]
        live |= read(f"snapshot {snapshot_id}", expected, lambda wanted=snapshot_id: orders.read_snapshot(wanted))  # type: ignore[misc]
    tags = {TAG: story.tagged_id, **story.scheduled()}
    tagged: set[str] = set()
    for name, snapshot_id in tags.items():
        tagged |= read(f"tag {name}", orders.expected[snapshot_id - 1], lambda wanted=name: orders.read_tag(wanted))  # type: ignore[misc]

    documents = _DOCUMENTS | {TAG_FOLDER + name for name in tags}
    kept_because = {key: _why(key, live, tagged, documents) for key in left}
    problems += _drop_problems(story)
    problems += _retention_problems(ids, story)
    problems += _deletion_problems(story, left)
    if all(reading.equal for reading in readings):  # otherwise it is not known which files are needed
        problems += (f"{key} is left over: nothing needs it" for key, why in kept_because.items() if why == "unknown")
    return Proof(ids, tuple(readings), kept_because, tuple(problems))


def _why(key: str, live: set[str], tagged: set[str], documents: frozenset[str]) -> str:
    if key in live:
        return "live"
    if key in tagged:
        return "tagged"
    if _SNAPSHOT.fullmatch(key):
        return "retained"
    return "document" if key in documents else "unknown"


def _drop_problems(story: Story) -> Iterator[str]:
    drop = story.drop
    if drop.status != "done":
        yield f"the drop of a partition ended as {drop.status}{f': {drop.refusal.message}' if drop.refusal else ''}"
    made = [commit.snapshot_id for commit in drop.commits.made] if drop.commits else []
    if made != [story.newest_id]:
        yield f"the drop of a partition committed snapshots {made}; expected snapshot {story.newest_id}"


def _retention_problems(ids: tuple[int, ...], story: Story) -> Iterator[str]:
    newest = story.newest_id
    if not RETAIN_MIN <= len(ids) <= RETAIN_MAX or ids != tuple(range(newest - len(ids) + 1, newest + 1)):
        yield f"snapshots {list(ids)} are left; expected the newest {RETAIN_MIN} to {RETAIN_MAX} of {newest}"
    if story.tagged_id in ids:
        yield f"snapshot {story.tagged_id}, which is tagged, is left; expected only its tag to be left"
    if 1 not in story.scheduled().values():
        yield "snapshot 1 has no tag; expected the tag of yesterday, as the table's options ask"
    if sorted(hint.snapshot_id for hint in story.hints) != list(range(1, newest + 1)):
        yield f"{len(story.hints)} events arrived; expected one for each of {newest} commits"


def _deletion_problems(story: Story, left: Mapping[str, int]) -> Iterator[str]:
    for report in story.reports:
        if report.status not in ("done", "nothing_to_do"):
            yield f"a run ended as {report.status}{f': {report.refusal.message}' if report.refusal else ''}"
    reported = {delete.path for delete in story.deletes()}
    vanished = story.written.keys() - left.keys()
    for key in sorted(reported ^ vanished):
        yield f"{key} was reported as deleted, but exists" if key in reported else f"{key} vanished without a report"
    if not any(delete.kind == "data" for delete in story.deletes()):
        yield "no data file was deleted; expected the deletion of data files of replaced partitions"
