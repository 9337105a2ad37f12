"""Sixteen maintainers of one table start at once: one deletes, the others say why they do not.

What is asked of the outcome is asked of the table and of the server, not of our own documents.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers.tables import snapshots, table_of
from tests.support.lake import Lake, lake_in, lake_on
from tests.support.racing import REPOSITORY, Finish, Racers
from tests.support.reader import read_all
from tests.support.s3_server import moto_server
from tests.support.sampling import is_sampled
from tests.support.versitygw import shared_versitygw

RACERS = 16
ROUNDS = {"local": 4, "moto": 1, "versitygw": 4}
"""Moto answers one request at a time."""
COMMITS, KEEP = 8, 3
LEASE_HELD = 5


def make(place: str, folder: Path) -> Lake:
    if place == "local":
        return lake_in(folder, table_of(COMMITS, KEEP))
    return lake_on(moto_server() if place == "moto" else shared_versitygw(), table_of(COMMITS, KEEP), versioned=True)


def check(lake: Lake, before: dict[str, bytes], finishes: Sequence[Finish]) -> str:
    """Check how a race ended, and return the run that won."""
    others = [finish for finish in finishes if finish.exit_code != 0]
    assert {finish.exit_code for finish in others} <= {LEASE_HELD}, [finish.messages for finish in others]
    assert all("lease" in finish.messages for finish in others)
    documents = [finish.document for finish in finishes if finish.exit_code == 0]
    done = [document for document in documents if document["status"] == "done"]
    assert {document["status"] for document in documents} <= {"done", "nothing_to_do"}
    deleted = [document["outcome"]["deleted"] for document in done]

    after = lake.bodies()
    gone = before.keys() - after.keys()
    assert sum(deleted) == len(gone) > 0, "each object that went was deleted once"
    (winner,) = (document for document in done if document["outcome"]["deleted"])
    if lake.server is not None:
        assert lake.versions().markers == dict.fromkeys(gone, 1)
    assert sorted(read_all(lake.store)) == snapshots(COMMITS - KEEP + 1, COMMITS)
    spans = sorted((begin, end, number) for number, finish in enumerate(finishes) for begin, end in finish.deletes)
    for (_, end, one), (begin, _, other) in itertools.pairwise(spans):
        assert one == other or end <= begin, "two processes deleted at once"

    again = lake.call("expire-snapshots", "--execute")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    return str(winner["run_id"])


@pytest.mark.parametrize("place", ROUNDS)
def test_an_overtaken_plan_deletes_nothing(place: str, tmp_path: Path) -> None:
    """The slow half of a race, step by step: planned before another maintainer ran, executed after it."""
    lake = make(place, tmp_path)
    before = lake.bodies()
    plan_ids = [lake.call("expire-snapshots").document["plan_id"] for _ in range(2)]
    first, second = (lake.call("execute", plan_id) for plan_id in plan_ids)
    gone = before.keys() - lake.keys()
    assert (first.exit_code, first.document["outcome"]["deleted"]) == (0, len(gone))
    assert (second.exit_code, second.document["outcome"]["deleted"]) == (0, 0)
    if lake.server is not None:
        assert lake.versions().markers == dict.fromkeys(gone, 1)
        undone = lake.call("undo", first.document["run_id"], "--execute")
        assert (undone.exit_code, undone.document["status"]) == (0, "done"), undone.messages
        assert lake.bodies() == before


@pytest.mark.slow
@pytest.mark.parametrize("place", ROUNDS)
@pytest.mark.long
def test_processes_at_one_gate(place: str, tmp_path: Path) -> None:
    """Round after round, since a race that goes well once says little."""
    settings = make(place, tmp_path / "first").settings if place != "local" else None
    with Racers(tmp_path / "racers", settings) as racers:
        held = []
        for number in range(ROUNDS[place]):
            lake = make(place, tmp_path / str(number))
            before = lake.bodies()
            finishes = racers.race([lake.words("expire-snapshots", "--execute")] * RACERS)
            run_id = check(lake, before, finishes)
            held.append(sum(finish.exit_code == LEASE_HELD for finish in finishes))
    print(f"{place}: so many of {RACERS} found the lease held, by round: {held}")
    if lake.server is not None:  # in a folder a run may be over before the next has planned
        assert any(held), "they never met"
        undone = lake.call("undo", run_id, "--execute")
        assert (undone.exit_code, undone.document["status"]) == (0, "done"), undone.messages
        assert lake.bodies() == before


@pytest.mark.slow
def test_command_lines(tmp_path: Path) -> None:
    """The same with processes that a shell might start: sixteen, or eight in a sample."""
    lake = make("versitygw", tmp_path)
    before = lake.bodies()
    words = [sys.executable, "-m", "lakesweep", *lake.words("expire-snapshots", "--execute")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    processes = [
        subprocess.Popen(
            words, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(RACERS // 2 if is_sampled() else RACERS)
    ]
    ended = [process.communicate(timeout=120) for process in processes]
    check(
        lake,
        before,
        [
            Finish(process.returncode, printed, messages)
            for process, (printed, messages) in zip(processes, ended, strict=True)
        ],
    )
