"""Eight committers of one table: each drops its own partitions, one commit a partition, all of them at once.

What is asked of the outcome is asked of the table: every commit has a snapshot of its own, and deletes what no other
one deletes.
"""

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro

from lakesweep.storage.store import Store
from tests.support.lake import Lake
from tests.support.memory_store import MemoryStore
from tests.support.racing import Racers
from tests.support.table_builder import TableBuilder

AGAIN = frozenset({"lease_held", "commit_conflict"})
"""Codes of runs that committed nothing, and may simply be repeated."""
MOST_ROUNDS = 20
"""For each commit of a committer; then it will never come."""


@dataclass(slots=True)
class Race:
    """How a race went."""

    made: list[dict[str, Any]] = field(default_factory=list)
    """The commits that were reported: id, uuid, attempts."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Code -> runs that ended with it, and were repeated."""


def day(committer: int, number: int) -> str:
    """Return the partition that a committer drops with its commit of a number."""
    return f"c{committer}-{number:03}"


def objects_of(committers: int, commits: int) -> dict[str, bytes]:
    """Return a table with a partition for each commit, of one file each."""
    memory = MemoryStore()
    table = TableBuilder(memory, partition_keys=("dt",))
    parts = {
        f"F{committer}x{number}": (day(committer, number),)
        for committer in range(committers)
        for number in range(commits)
    }
    table.commit(*(f"+{name}" for name in parts), partition=parts)
    table.hint("LATEST", 1)
    return {entry.key: memory.read(entry.key).data for entry in memory.list("")}


def race(racers: Racers, lakes: Sequence[Lake], commits: int) -> Race:
    """Let a committer on each lake, which are views of one table, make its commits; repeat what was told to wait."""
    found, left = Race(), dict.fromkeys(range(len(lakes)), commits)
    for _ in range(MOST_ROUNDS * commits):
        waiting = [committer for committer, count in left.items() if count]
        if not waiting:
            return found
        declared = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")
        lines = [
            lakes[committer].words(
                "drop-partition", "--partition", f"dt={day(committer, left[committer] - 1)}", *declared
            )
            for committer in waiting
        ]
        for committer, finish in zip(waiting, racers.race(lines), strict=True):
            document = finish.document
            if finish.exit_code == 0:
                assert document["status"] == "done", document
                found.made += document["commits"]["made"]
                left[committer] -= 1
                continue
            code = (document.get("refusal") or document.get("error") or {}).get("code")
            assert code in AGAIN, (finish.exit_code, finish.printed, finish.messages)
            found.repeated[code] += 1
    raise AssertionError(f"so many commits never came: {left}; repeated {found.repeated}")


def check(store: Store, made: Sequence[dict[str, Any]], commits: int) -> None:
    """Fail unless the table has exactly the commits that were reported, each of which deleted its own file."""
    documents = {
        int(entry.key.rpartition("-")[2]): json.loads(store.read(entry.key).data)
        for entry in store.list("snapshot/")
        if entry.key.startswith("snapshot/snapshot-")
    }
    ours = {number: document for number, document in documents.items() if number > 1}
    assert sorted(ours) == list(range(2, commits + 2)), "contiguous ids"
    assert {commit["snapshot_id"]: commit["uuid"] for commit in made} == {
        number: document["uuid"] for number, document in ours.items()
    }
    assert len(made) == len({commit["uuid"] for commit in made}) == commits
    assert len({document["commitUser"] for document in ours.values()}) == commits
    gone = Counter(name for document in ours.values() for name in _deleted(store, document))
    assert len(gone) == commits, "none is lost"
    assert set(gone.values()) == {1}, "none is doubled"
    assert documents[commits + 1]["totalRecordCount"] == 0


def _deleted(store: Store, document: dict[str, Any]) -> list[str]:
    manifests = _records(store, document["deltaManifestList"])
    entries = [entry for manifest in manifests for entry in _records(store, manifest["_FILE_NAME"])]
    assert {entry["_KIND"] for entry in entries} == {1}
    return [entry["_FILE"]["_FILE_NAME"] for entry in entries]


def _records(store: Store, name: str) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(store.read(f"manifest/{name}").data)))  # type: ignore[arg-type]
