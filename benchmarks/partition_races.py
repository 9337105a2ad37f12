"""Dropping one partition: its requests, those of a second attempt, and eight committers at once.

    python -m benchmarks.partition_races second|committers ENDPOINT

runs a case in a process that has the server's credentials, and prints its figures as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commits import WORDS
from benchmarks.ours import command_line
from benchmarks.partition_copies import Place
from benchmarks.partition_tables import Shape, days_of, table_folder
from benchmarks.results import Bar, mib, seconds, summary, table
from benchmarks.servers import KEY, PROJECT, REGION, S3, environment

SHAPE = Shape(100, 10, 10_000, 0)
LATENCY_MS = 20
REQUESTS, TO_VISIBLE, GETS_AGAIN = 25, 6, 6
COMMITTERS, COMMITS = 8, 25
KINDS = ("GET", "HEAD", "LIST", "PUT", "DELETE")


@dataclass(frozen=True, slots=True)
class Found:
    """What one case leaves."""

    title: str
    text: str
    figures: dict[str, Any]
    bars: list[Bar]


def _at_most(what: str, limit: int, measured: int) -> Bar:
    return Bar(what, f"at most {limit}", str(measured), measured <= limit)


def drop(s3: S3, scratch: Path, runs: int) -> Found:
    """Drop one partition of a table with ten manifests."""
    place = Place(table_folder("drop", SHAPE), s3, LATENCY_MS, scratch)
    walls: list[float] = []
    peak, found = 0, None
    for copy in place.copies(runs):
        place.begin()
        done = command_line(copy.words("drop-partition", "--partition", f"dt={days_of(SHAPE)[5]}", *WORDS))
        found = place.end(copy)
        walls.append(done.seconds)
        peak = max(peak, done.peak_kib)
        if done.document["status"] != "done":
            raise SystemExit(f"drop: expected the status done, found {done.document['status']}")
    assert found is not None
    counts = {kind: found.count(kind) for kind in KINDS}
    cells = [seconds(summary(walls)), mib(peak), found.count(), *counts.values(), found.to_visible]
    head = ["wall s", "peak MiB", "requests", *KINDS, "prepared to visible"]
    what = f"drop one of {SHAPE.partitions} partitions, {SHAPE.manifests} manifests, two of which may name it"
    bars = [
        _at_most(f"{what}: requests", REQUESTS, found.count()),
        _at_most("the same: requests from prepared to visible", TO_VISIBLE, found.to_visible),
    ]
    text = (
        f"{SHAPE.partitions} partitions, {SHAPE.files:,} live files, {SHAPE.manifests} manifests; `lakesweep "
        f"drop-partition` in a fresh process, nothing remembered, S3 with +{LATENCY_MS} ms a request, {runs} runs. By "
        "their statistics, two of the manifests may name the partition; the others are not read. Requests to the "
        "control location count too.\n\n" + table(head, [cells])
    )
    log = [f"{kind} {'table' if path.startswith(found.prefix) else 'control'}" for kind, path in found.log]
    figures = {"wall_s": summary(walls), "requests": counts, "to_visible": found.to_visible, "log": log}
    return Found("drop: one partition", text, figures, bars)


def second(s3: S3, scratch: Path, runs: int) -> Found:
    """Drop one partition while another writer commits first."""
    figures = _in_a_process("second", s3)
    cells = [
        (name.upper(), each["attempts"], *(each["again"].get(kind, 0) for kind in ("get", "list", "put")), each["said"])
        for name, each in figures.items()
        if name != "none"
    ]
    alone = sum(figures["none"]["requests"].values())
    text = (
        "The other writer commits right before the snapshot is put, so the put finds its place taken. Counted is what "
        f"follows, to the end of the run, on a table of {SHAPE.manifests} manifests, each of which names the "
        f"partition. Where nobody else commits, that drop takes {alone} requests, {SHAPE.manifests} of them for "
        "manifests. A manifest never changes, so a second attempt reads only those that are new to it, also where it "
        "is planned anew as a whole.\n\n"
        + table(("the other commit", "attempts", "GET", "LIST", "PUT", "the report says"), cells)
    )
    what = f"drop a partition that each of {SHAPE.manifests} manifests names: requests"
    bars = [
        _at_most(what, REQUESTS, alone),
        _at_most("second attempt after an APPEND: GET", GETS_AGAIN, figures["append"]["again"]["get"]),
    ]
    for name in ("overwrite", "compact"):
        said = bool(figures[name]["said"])
        what = f"second attempt after {name.upper()}: planned anew as a whole, and the report says so"
        bars.append(Bar(what, "yes", "yes" if said else "no", said))
    return Found("second: another writer is first", text, figures, bars)


def committers(s3: S3, scratch: Path, runs: int) -> Found:
    """Let eight processes make 25 commits each."""
    figures = _in_a_process("committers", s3)
    cells = [
        (name, each["commits"], each["attempts"], each["repeated"], f"{each['wall_s']:.0f}")
        for name, each in figures.items()
    ]
    text = (
        f"{COMMITTERS} processes drop {COMMITS} partitions each, all at once. With one control location its lease lets "
        "one publish at a time. With one each, nothing but the condition of the put keeps them apart. A run that "
        "committed nothing, since it found the lease held or never was first, is repeated.\n\n"
        + table(("control locations", "commits", "attempts", "repeated runs", "wall s"), cells)
    )
    whole = COMMITTERS * COMMITS
    bars = [
        Bar(
            f"{COMMITTERS} committers, {COMMITS} commits each, {name}: contiguous ids, lost, doubled",
            f"{whole}, 0, 0",
            f"{each['commits']}, 0, 0",
            each["commits"] == whole,
        )
        for name, each in figures.items()
    ]
    return Found("committers: eight at once", text, figures, bars)


CASES: dict[str, Callable[[S3, Path, int], Found]] = {"drop": drop, "second": second, "committers": committers}


def _in_a_process(case: str, s3: S3) -> Any:
    command = [sys.executable, "-m", "benchmarks.partition_races", case, s3.direct]
    done = subprocess.run(command, cwd=PROJECT, env=environment(), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def _second(endpoint: str) -> dict[str, Any]:
    from tests.support.overtaking import PartitionedTable

    server = _server(endpoint)
    found = {}
    for name in ("none", "append", "overwrite", "compact"):
        table = PartitionedTable(server.settings, server.bucket(), commits=SHAPE.manifests)
        others = None if name == "none" else getattr(table, name)
        run = table.run("drop-partition", partition=[f"dt={table.days[2]}"], others=others)
        assert run.report.status == "done", run.report.refusal
        assert run.report.commits is not None
        (made,) = run.report.commits.made
        said = next((each for each in run.report.warnings if name.upper() in each), "")
        found[name] = {
            "attempts": made.attempts,
            "requests": dict(run.requests),
            "again": dict(run.again),
            "said": said,
        }
    return found


def _committers(endpoint: str) -> dict[str, Any]:
    from dataclasses import replace

    from tests.support import committers as racing
    from tests.support.lake import lake_on
    from tests.support.racing import Racers

    server = _server(endpoint)
    found = {}
    with tempfile.TemporaryDirectory() as folder, Racers(Path(folder), server.settings) as racers:
        for name in ("one", "one each"):
            lake = lake_on(server, racing.objects_of(COMMITTERS, COMMITS))
            shared = name == "one"
            lakes = [lake if shared else replace(lake, control=f"{lake.control}-{n}") for n in range(COMMITTERS)]
            begin = time.perf_counter()
            raced = racing.race(racers, lakes, COMMITS)
            wall_s = time.perf_counter() - begin
            racing.check(lake.store, raced.made, COMMITTERS * COMMITS)
            found[name] = {
                "commits": len(raced.made),
                "attempts": sum(made["attempts"] for made in raced.made),
                "repeated": sum(raced.repeated.values()),
                "codes": dict(raced.repeated),
                "wall_s": wall_s,
            }
    return found


def _server(endpoint: str) -> Any:
    from tests.support.s3_server import S3Server

    return S3Server("versitygw", endpoint, KEY, KEY, REGION, checks_etags_of_many=False, deletes_at_once=False)


if __name__ == "__main__":
    print(json.dumps({"second": _second, "committers": _committers}[sys.argv[1]](sys.argv[2])))
