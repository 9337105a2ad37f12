"""Writers without a lock race on a real server, in processes of their own: each replaced snapshot is noticed.

The bucket keeps versions, so that this test knows which snapshots were replaced. Lakesweep does not see them, unless a
test says so. It gets the events that S3 would send, in any order and some twice, and looks at the table by sweeps.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.differential.engine import EngineError
from tests.servers.watch import Watch, engine_of
from tests.support.late_puts import LatePuts
from tests.support.s3_server import S3Server
from tests.support.sampling import is_sampled
from tests.support.unlocked_writer import TABLE, UnlockedWriter, append

MOST_S = 120.0 if is_sampled() else 600.0
CYCLES = 5 if is_sampled() else 40
DROPS = 2 if is_sampled() else 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "with_java", [pytest.param(True, id="and Java"), pytest.param(False, id="pypaimon", marks=pytest.mark.long)]
)
def test_a_race_of_writers_without_a_lock(
    versitygw: S3Server, tmp_path: Path, with_java: bool, request: pytest.FixtureRequest
) -> None:
    """Two writers append, and Lakesweep drops partitions. What became of each snapshot, the bucket's versions tell."""
    watch = Watch(versitygw)
    for number in range(DROPS):
        append(watch.table, f"old-{number}")
    ways = [LatePuts(versitygw, seed) for seed in range(2)]
    for way in ways:
        request.addfinalizer(way.close)
    over = threading.Event()
    java = java_writer(request, tmp_path, watch, over, ways[0].endpoint) if with_java else None
    of_pypaimon = ways[1:] if with_java else ways
    writers = [UnlockedWriter(versitygw, watch.bucket, f"w{n}", way.endpoint) for n, way in enumerate(of_pypaimon)]
    for writer in writers:
        request.addfinalizer(writer.close)
    for writer in writers:
        writer.wait_for_start()
    for writer in writers:
        writer.begin()
    if java is not None:
        java.start()
    replaced = 0
    end_s = time.monotonic() + MOST_S
    for number in range(DROPS):
        words = ("--partition", f"dt=old-{number}", "--catalog-type", "filesystem", "--catalog-lock", "--execute")
        made = (watch.lake.call("drop-partition", *words).document.get("commits") or {}).get("made", ())
        replaced += sum(commit["replaced"] for commit in made)
        watch.deliver()
    while not watch.has_enough(with_java=with_java) and time.monotonic() < end_s:
        watch.deliver()
        watch.sweep()
        time.sleep(0.2)
    over.set()
    commits = sum(writer.end() for writer in writers)
    if java is not None:
        java.join()
    watch.deliver(is_last=True)
    watch.sweep()

    gone, told = watch.gone(), [each.lost.key for each in watch.lost]
    print(f"{len(watch.versions())} snapshots, {commits} of pypaimon; {len(gone)} replaced: {dict(watch.pairs())}")
    print(f"{replaced} of ours noticed by their commit")
    assert watch.has_enough(with_java=with_java), "they rarely met"
    assert len(set(told)) == len(told), "each once"
    assert set(told) <= gone, "no other one"
    assert len(gone) == len(told) + replaced
    assert watch.doubts == []
    for each in watch.lost:
        assert each.is_ours == each.lost.commit_user.startswith("lakesweep-") or not each.lost.commit_user
        assert json.loads(watch.lake.store.read(each.path).data)["commitUser"] == each.now.commit_user


def java_writer(
    request: pytest.FixtureRequest, folder: Path, watch: Watch, over: threading.Event, endpoint: str
) -> threading.Thread:
    """Return a thread that lets the Java engine append through an endpoint; its JVM is started, and ends after it."""
    engine = engine_of(request, folder, watch, endpoint)
    user = {"commit.user-prefix": "java"}

    def run() -> None:
        seed = 0
        while not over.is_set():
            seed += 1
            with suppress(EngineError):  # others always came first
                engine("write", table=TABLE, n=1, seed=seed, keys=[0, 9], parts=[["java"]], options=user)

    def stop() -> None:
        over.set()
        if thread.ident is not None:  # the test did not fail before it began
            thread.join()

    thread = threading.Thread(target=run)
    request.addfinalizer(stop)
    return thread


def roll_back(watch: Watch) -> None:
    """Go back by pypaimon, and commit again at once."""
    newest = watch.table.snapshot_manager().get_latest_snapshot().id
    watch.table.rollback_to(newest - 1)
    append(watch.table, "again")


def roll_back_slowly(watch: Watch) -> None:
    newest = watch.table.snapshot_manager().get_latest_snapshot().id
    watch.table.rollback_to(newest - 2)
    time.sleep(2.2)  # so that the commit times of both are apart by more than the server tells
    append(watch.table, "again")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "sees_versions"),
    [(roll_back, True), pytest.param(roll_back_slowly, False, marks=pytest.mark.long)],
    ids=["versions", "times"],
)
def test_rollbacks_of_one_writer_set_off_nothing(
    versitygw: S3Server, act: Callable[[Watch], None], sees_versions: bool
) -> None:
    watch = Watch(versitygw, sees_versions=sees_versions)
    for _ in range(3):
        append(watch.table, "first")
    for cycle in range(CYCLES if sees_versions else CYCLES // 4):
        append(watch.table, f"c{cycle}")
        if cycle % 2:
            watch.deliver()
            watch.sweep()
        act(watch)
        watch.deliver()
        watch.sweep()
    assert watch.lost == []
    if sees_versions:
        assert watch.doubts == []
