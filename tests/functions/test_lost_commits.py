"""Two writers without a lock on one table: the functions notice the commit that is lost, and count it once."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.functions.deployment import Answer, Deployment
from tests.support.table_builder import TableBuilder

SWEEP = {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}
RECENT = {"snapshot.num-retained.max": "19"}


class Raced(Deployment):
    """A table that was maintained, to which two writers commit at once. Its passes need no interval."""

    def __init__(self, **words: Any) -> None:
        super().__init__(extra={"LAKESWEEP_MIN_INTERVAL": "0 ms"}, **words)
        self.start_ms = int(datetime.now(UTC).timestamp() * 1000)
        self.builder: TableBuilder = self.table(options=RECENT, start_ms=self.start_ms - 3_600_000)
        self.run(self.created(6))

    def created(self, snapshot_id: int) -> dict[str, Any]:
        """Return the event of a snapshot that was just written."""
        path = f"snapshot/snapshot-{snapshot_id}"
        (entry,) = [each for each in self.store().list("snapshot/") if each.key == path]
        time = datetime.fromtimestamp(entry.modified_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {**self.commit_event(snapshot_id), "time": time}

    def commit(self) -> dict[str, Any]:
        made_ms = int(datetime.now(UTC).timestamp() * 1000)
        newest = self.builder.commit("+New", time_ms=made_ms)
        self.builder.hint("LATEST", newest)
        return self.created(newest)

    def replace_newest(self) -> dict[str, Any]:
        """Put another snapshot in the place of the newest one. It was made before that was written."""
        return self.replace(self.snapshots()[-1])

    def replace(self, snapshot_id: int) -> dict[str, Any]:
        path = f"snapshot/snapshot-{snapshot_id}"
        document = json.loads(self.store().read(path).data)
        document |= {"uuid": "11111111-1111-4111-8111-111111111111", "commitUser": "racer"}
        self.store().put(path, json.dumps(document).encode())
        return self.created(document["id"])


def counted(answers: list[Answer]) -> dict[str, int]:
    """Return what was counted of lost commits."""
    names = ("CommitsLost", "CommitsReplaced")
    found = {name: int(sum(answer.metrics.get(name, 0) for answer in answers)) for name in names}
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("order", ["old, new", "new, old", "old, old, new, new", "old", "new, next, old"])
def test_the_events_of_both_snapshots(order: str) -> None:
    """In one batch, in any order and doubled; the event of the new one may be lost."""
    deployed = Raced()
    events = {"old": deployed.commit(), "new": deployed.replace_newest()}
    events["next"] = deployed.commit() if "next" in order else {}
    answers = deployed.run(*(events[name] for name in order.split(", ")))
    assert counted(answers) == {"CommitsLost": 1}
    line = next(line for answer in answers for line in answer.lines if line.get("run", {}).get("lost_commits"))
    assert (line["level"], line["run"]["status"]) == ("WARNING", "commit_lost")
    assert line["run"]["lost_commits"][0]["now"]["commit_user"] == "racer"
    again = deployed.run(*(events[name] for name in order.split(", ")))
    assert counted(again) == {}
    assert len(again) == 1, "no pass"


@pytest.mark.parametrize("order", ["old, new", "new, old"])
def test_events_in_batches_of_their_own(order: str) -> None:
    """A process remembers what it was told. One that begins anew reads what is there."""
    deployed = Raced()
    events = {"old": deployed.commit(), "new": deployed.replace_newest()}
    first, second = (events[name] for name in order.split(", "))
    answers = deployed.run(first)
    deployed._modules.clear()
    assert counted(answers + deployed.run(second)) == {"CommitsLost": 1}


def test_a_writer_that_comes_late() -> None:
    """The first event was handled, and nothing was due, before the other writer put its snapshot."""
    deployed = Raced()
    (answer,) = deployed.run(deployed.commit())
    assert answer.metrics["GetRequests"] == 4
    assert counted(deployed.run(deployed.replace_newest())) == {"CommitsLost": 1}


def test_a_writer_that_comes_after_the_next_commit() -> None:
    """Also the event of the next commit was handled before, in a batch of its own."""
    deployed = Raced()
    deployed.run(deployed.commit())
    replaced = deployed.snapshots()[-1]
    deployed.run(deployed.commit())
    assert counted(deployed.run(deployed.replace(replaced))) == {"CommitsLost": 1}


def test_the_sweep_notices_what_no_event_told_of() -> None:
    deployed = Raced()
    deployed.builder.alter(options={"note": "so that a pass is due"})
    deployed.run(deployed.commit())
    deployed.replace_newest()
    swept = deployed.send("sweep", SWEEP)
    assert swept.metrics["TablesLagging"] == 1
    assert counted(deployed.run()) == {"CommitsLost": 1}
    assert deployed.send("sweep", SWEEP).metrics["TablesLagging"] == 0


def test_a_commit_of_lakesweep_is_replaced() -> None:
    """It is counted as one of ours: no row is lost, and the work is done again."""
    deployed = Raced()
    drop: dict[str, Any] = {"format_version": 1, "kind": "commit", "hop": 0, "operation": "truncate", "branch": "main"}
    drop |= {"manual": True, "run_id": "r1"}
    declared = {"catalog_type": "filesystem", "catalog_lock": True}
    made = deployed.send("committer", {**drop, "table": deployed.location(), "arguments": declared})
    assert made.metrics["CommitsMade"] == 1
    ours = deployed.created(7)
    deployed.replace_newest()
    assert deployed.send("sweep", SWEEP).metrics["TablesLagging"] == 1
    assert counted(deployed.run()) == {"CommitsReplaced": 1}
    assert counted(deployed.run(ours, deployed.created(7))) == {}


def test_an_observed_table() -> None:
    deployed = Raced(mode="observe")
    assert counted(deployed.run(deployed.commit(), deployed.replace_newest())) == {"CommitsLost": 1}
