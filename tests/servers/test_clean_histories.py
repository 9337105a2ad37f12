"""Whatever the Java engine, pypaimon and Lakesweep do to one table one after the other sets off no alarm.

Each cycle has all of it: commits, rollbacks, fast-forwards, branches, expiry, undo, and a snapshot that somebody
restores. Events come in any order, some twice and some late, and a sweep follows now and then.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.servers.watch import Watch, engine_of
from tests.support.s3_server import S3Server
from tests.support.sampling import is_sampled
from tests.support.unlocked_writer import TABLE, append

CYCLES = 1 if is_sampled() else 84
OF_A_CYCLE = {"pypaimon": 4, "java": 4, "drop-partition": 1, "compact-manifest": 1, "as-latest": 1, "on a branch": 1}
"""Commits by those who make them: 12, so 1 008 in all cycles."""
APART_S = 2.2
"""Without versions, what happens within a second looks like a race."""
DECLARED = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


class Cycle:
    """What the writers and the operator do in one cycle."""

    def __init__(self, watch: Watch, java: Any, number: int) -> None:
        self.watch, self.java, self.number = watch, java, number
        self.commits: Counter[str] = Counter()

    @property
    def newest(self) -> int:
        return int(self.watch.table.snapshot_manager().get_latest_snapshot().id)

    def run(self) -> None:
        self.by_pypaimon("a"), self.by_java(), self.by_java()
        self.told(late=0.5)
        self.ours("compact-manifest")
        self.ours("drop-partition", "--partition", f"dt=a-{self.number}")
        self.told()
        self.back(self.watch.table.rollback_to)
        self.by_pypaimon("b")
        self.told(late=0.5)
        self.back(lambda to: self.java("rollback", table=TABLE, snapshot=to))
        self.by_java()
        self.told()
        self.moved("as-latest", "rollback", "--version", str(self.newest - 1), "--as-latest", *DECLARED)
        run_id = self.moved("", "rollback", "--version", str(self.newest - 2), "--execute")
        self.told(late=0.5)
        self.moved("", "undo", run_id, "--execute")
        self.told()
        self.moved("", "rollback", "--version", str(self.newest - 1), "--execute")
        self.by_pypaimon("c")
        self.told()
        self.branched()
        self.by_pypaimon("d")
        self.expired()
        self.told()

    def back(self, roll_back: Any) -> None:
        """Go back by an engine, and let some time pass."""
        time.sleep(APART_S)
        roll_back(self.newest - 1)
        time.sleep(APART_S / 2)

    def branched(self) -> None:
        """Make a branch, commit to it, fast-forward by one of the two, and delete it."""
        name, tag = f"b{self.number}", f"t{self.number}"
        if self.number % 2:
            self.by_java()
        self.moved("", "create-tag", tag, "--snapshot", str(self.newest), "--execute")
        self.moved("", "create-branch", name, "--tag", tag, "--execute")
        self.java("write", table=TABLE, branch=name, n=1, seed=self.number, keys=[0, 9], parts=[["branch"]])
        self.commits["on a branch"] += 1
        if not self.number % 2:
            self.by_java()
        self.told(late=0.5)
        time.sleep(APART_S)
        if self.number % 2:  # takes nothing from main: docs/commits.md says what else that would look like
            self.watch.table.branch_manager().fast_forward(name)
            self.watch.note()
        else:
            self.moved("", "fast-forward", name, "--execute")
        self.told(late=0.5)
        self.moved("", "delete-branch", name, "--execute")
        self.moved("", "delete-tag", tag, "--execute")
        self.told()

    def expired(self) -> None:
        """Expire by Lakesweep. Somebody restores the document of an expired snapshot, and deletes it again."""
        client, bucket = self.watch.server.client, self.watch.bucket
        names = (each.key.removeprefix("snapshot/snapshot-") for each in self.watch.lake.store.list("snapshot/"))
        key = f"warehouse/db.db/t/snapshot/snapshot-{min(int(name) for name in names if name.isdecimal())}"
        body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        self.moved("", "expire-snapshots", "--retain-max", "4", "--retain-min", "2", "--execute")
        client.put_object(Bucket=bucket, Key=key, Body=body)
        self.watch.note()
        self.told()
        client.delete_object(Bucket=bucket, Key=key)

    def by_pypaimon(self, name: str) -> None:
        append(self.watch.table, f"{name}-{self.number}")
        self.commits["pypaimon"] += 1
        self.watch.note()

    def by_java(self) -> None:
        self.java("write", table=TABLE, n=1, seed=self.commits.total(), keys=[0, 9], parts=[["java"]])
        self.commits["java"] += 1
        self.watch.note()

    def ours(self, operation: str, *words: str) -> None:
        self.moved(operation, operation, *words, *DECLARED)

    def moved(self, commit: str, command: str, *words: str) -> str:
        """Run a command of Lakesweep; it must have done something. Return its run."""
        document = self.watch.lake.call(command, *words).document
        assert document["status"] == "done", (document["status"], document.get("refusal"), document.get("error"))
        if commit:
            self.commits[commit] += 1
        self.watch.note()
        return str(document["run_id"])

    def told(self, *, late: float = 0.0) -> None:
        self.watch.deliver(is_last=True, late=late)
        self.watch.sweep()


@pytest.mark.slow
@pytest.mark.timeout(5400)  # all cycles take half an hour
def test_a_clean_history_of_all_writers(versitygw: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    watch = Watch(versitygw, versioned=False)
    for number in range(6):
        append(watch.table, f"first-{number}")
    java = engine_of(request, tmp_path, watch, versitygw.endpoint)
    made: Counter[str] = Counter()
    for number in range(CYCLES):
        cycle = Cycle(watch, java, number)
        cycle.run()
        made += cycle.commits
        assert (watch.lost, watch.doubts) == ([], []), number
    assert made == {name: count * CYCLES for name, count in OF_A_CYCLE.items()}
    print(f"{made.total()} commits: {dict(made)}; {watch.looks} looks")
