"""Commits of several processes to one table on a real server.

Lakesweep creates a snapshot only if there is none of its number, so what it commits beside others that do so too is
neither lost nor doubled. A writer that looks first and then writes without a condition may replace a snapshot of
Lakesweep, which Lakesweep notices. Nothing of the writer is ever replaced.
"""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.support import committers
from tests.support.lake import Lake, lake_on
from tests.support.overtaking import PartitionedTable, When
from tests.support.racing import Racers
from tests.support.reader import read_all
from tests.support.s3_server import S3Server
from tests.support.sampling import is_sampled

COMMITTERS, COMMITS = 8, 25
DAY = "dt=2024-01-03"
DROPS, LEAST = 4, 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "shared", [pytest.param(True, marks=pytest.mark.long), False], ids=["one control location", "one each"]
)
def test_eight_committers(versitygw: S3Server, tmp_path: Path, shared: bool) -> None:
    """With a control location each, nothing but the condition of the put keeps them apart."""
    commits = 1 if is_sampled() else COMMITS
    lake = lake_on(versitygw, committers.objects_of(COMMITTERS, commits))
    with Racers(tmp_path / "racers", versitygw.settings) as racers:
        found = committers.race(racers, views(lake, shared=shared), commits)
    committers.check(lake.store, found.made, COMMITTERS * commits)
    attempts = sum(commit["attempts"] for commit in found.made)
    print(f"{len(found.made)} commits in {attempts} attempts; repeated runs: {dict(found.repeated)}")
    assert attempts > len(found.made) or found.repeated, "they never met"
    assert not read_all(lake.store)[f"snapshot/snapshot-{COMMITTERS * commits + 1}"].live


def views(lake: Lake, *, shared: bool) -> list[Lake]:
    return [lake if shared else replace(lake, control=f"{lake.control}-{number}") for number in range(COMMITTERS)]


@pytest.mark.parametrize(
    ("when", "has_lock"), [("after", True), ("after", False), ("waiting", False)], ids=["lock", "at once", "later"]
)
def test_a_writer_that_replaces_our_snapshot(versitygw: S3Server, when: When, has_lock: bool) -> None:
    """It looked before we put our snapshot, and puts its own after. We see that, and drop the partition once more."""
    table = PartitionedTable(versitygw.settings, versitygw.bucket(), commits=3)
    run = table.run("drop-partition", partition=[DAY], catalog_lock=has_lock, others=table.append, when=when)
    assert run.report.commits is not None
    (made,) = run.report.commits.made
    assert (made.snapshot_id, made.replaced) == (5, 1)
    found = read_all(table.store)
    assert found["snapshot/snapshot-4"].document["commitUser"] == "builder", "the writer's commit stays"
    newest = found["snapshot/snapshot-5"].live
    lost = table.builder.live("main", 4) - newest
    assert newest < table.builder.live("main", 4)
    assert {path.partition("/")[0] for path in lost} == {DAY}
    assert len(lost) == 4, "the file of the writer's commit as well"


@pytest.mark.slow
@pytest.mark.long
def test_an_unlocked_writer_that_goes_on(versitygw: S3Server) -> None:
    """pypaimon appends to one partition while others are dropped: each of its rows is there once at the end."""
    bucket, control = versitygw.bucket(), versitygw.bucket()
    writer = Writer(versitygw, bucket)
    writer.append([f"old-{number}" for number in range(DROPS)])
    appending = threading.Thread(target=writer.go_on)
    appending.start()
    lake = Lake(f"s3://{bucket}/warehouse/db.db/t", f"s3://{control}/c", versitygw, bucket)
    words = ("--catalog-type", "filesystem", "--execute")
    answers = [lake.call("drop-partition", "--partition", f"dt=old-{number}", *words) for number in range(DROPS)]
    writer.is_over.set()
    appending.join()
    assert writer.error is None
    assert [(answer.exit_code, answer.document["status"]) for answer in answers] == [(0, "done")] * DROPS
    replaced = sum(made["replaced"] for answer in answers for made in answer.document["commits"]["made"])
    print(f"{writer.commits} commits of the writer, {replaced} snapshots of ours replaced")
    assert sorted(writer.read()) == [(number, "live") for number in range(writer.commits)]


@pytest.mark.slow
@pytest.mark.long
def test_an_unlocked_writer_beside_compactions(versitygw: S3Server) -> None:
    """pypaimon may replace the snapshot of a compaction, which then is made anew. Each of its rows stays."""
    bucket, control = versitygw.bucket(), versitygw.bucket()
    writer = Writer(versitygw, bucket)
    writer.append(["old"])
    appending = threading.Thread(target=writer.go_on)
    appending.start()
    lake = Lake(f"s3://{bucket}/warehouse/db.db/t", f"s3://{control}/c", versitygw, bucket)
    answers = [lake.call("compact-manifest", "--catalog-type", "filesystem", "--execute") for _ in range(DROPS)]
    writer.is_over.set()
    appending.join()
    assert writer.error is None
    assert {answer.document["status"] for answer in answers} <= {"done", "nothing_to_do", "stale", "partial"}
    commits = [answer.document["commits"] for answer in answers if answer.document["status"] == "done"]
    replaced = sum(made["replaced"] for each in commits for made in each["made"])
    reused = sum(each["reused_attempt"] for each in commits)
    print(f"{writer.commits} commits of the writer, {len(commits)} compactions, {replaced} replaced, {reused} reused")
    assert commits
    rows = [(-1, "old"), *((number, "live") for number in range(writer.commits))]
    assert sorted(writer.read()) == rows
    assert lake.call("compact-manifest", "--catalog-type", "filesystem", "--execute").exit_code == 0
    assert sorted(writer.read()) == rows


@pytest.mark.slow
def test_two_compactors_among_committers(versitygw: S3Server, tmp_path: Path) -> None:
    """Two drop partitions and two compact manifests, all at once, each with a control location of its own."""
    rounds = 2 if is_sampled() else 10
    first = lake_on(versitygw, committers.objects_of(2, rounds))
    lakes = [replace(first, control=f"{first.control}-{number}") for number in range(4)]
    declared = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")
    made: dict[int, dict[str, Any]] = {}
    with Racers(tmp_path / "racers", versitygw.settings) as racers:
        for number in range(rounds):
            lines = [
                lakes[each].words("drop-partition", "--partition", f"dt={committers.day(each, number)}", *declared)
                for each in range(2)
            ]
            lines += [lake.words("compact-manifest", *declared) for lake in lakes[2:]]
            for finish in racers.race(lines):
                document = finish.document
                assert finish.exit_code == 0, (finish.printed, finish.messages)
                for commit in document["commits"]["made"]:
                    made[commit["snapshot_id"]] = {**commit, "operation": document["operation"]}
    assert sorted(made) == list(range(2, len(made) + 2)), "none is lost, and none has the id of another"
    compactions = [each for each, commit in made.items() if commit["operation"] == "compact-manifest"]
    found = read_all(first.store)
    for each, commit in made.items():
        before, after = (found[f"snapshot/snapshot-{id}"].live for id in (each - 1, each))
        assert len(before - after) == (0 if each in compactions else 1) and after <= before
        assert found[f"snapshot/snapshot-{each}"].document["uuid"] == commit["uuid"]
    assert not found[f"snapshot/snapshot-{len(made) + 1}"].live
    print(f"{len(made)} commits, {len(compactions)} of them compactions")
    assert compactions


class Writer:
    """pypaimon, which tests whether a snapshot exists and then writes it; one row a commit."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        from pypaimon import CatalogFactory, Schema

        options = {
            "warehouse": f"s3://{bucket}/warehouse",
            "s3.endpoint": server.endpoint,
            "s3.region": server.region,
            "s3.access-key": server.access_key,
            "s3.secret-key": server.secret_key,
            "s3.path-style-access": "true",
        }
        catalog = CatalogFactory.create(options)
        catalog.create_database("db", False)
        self._columns = pyarrow.schema([("id", pyarrow.int64()), ("dt", pyarrow.string())])
        schema = Schema.from_pyarrow_schema(self._columns, partition_keys=["dt"], options={"bucket": "-1"})
        catalog.create_table("db.t", schema, False)
        self._table: Any = catalog.get_table("db.t")
        self.commits = 0
        self.is_over = threading.Event()
        self.error: Exception | None = None

    def append(self, partitions: list[str], first: int = -1) -> None:
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        ids = pyarrow.array([first] * len(partitions), pyarrow.int64())
        write.write_arrow(pyarrow.table([ids, pyarrow.array(partitions)], schema=self._columns))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def go_on(self) -> None:
        """Append until it is over, and at least some times."""
        try:
            while self.commits < LEAST or not self.is_over.is_set():
                self.append(["live"], self.commits)
                self.commits += 1
        except Exception as error:
            self.error = error

    def read(self) -> list[tuple[int, str]]:
        builder = self._table.new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pydict()
        return list(zip(rows["id"], rows["dt"], strict=True))
