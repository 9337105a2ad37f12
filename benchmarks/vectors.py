"""Make and read deletion vectors beside the Java engine: PIP-16's grid, in one run, with the same bytes.

    python -m benchmarks.vectors [--runs N] [--positions N ...]

Both sides get the same ascending positions as one array in memory. *Add* makes a vector of them, *write* its bytes,
*read* a vector of the bytes, and *ask* answers for each row of the file whether it is deleted, as one byte.
"""

from __future__ import annotations

import argparse
import gc
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.engine import engine_classpath, engine_version, java_version
from benchmarks.peer import JavaPeer
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.tables import FOLDER
from lakesweep.format.vectors.vector import Width, collect, encode, read_vector

ROWS = (2_000_000, 20_000_000)
SHARES = (5, 20, 50, 80)
"""Percent. PIP-16 has all but the first, which brings arrays instead of bits."""
WIDTHS: tuple[Width, ...] = (32, 64)
PHASES = ("add", "write", "read", "ask")
BARRED = (("add",), ("write",), ("read",), ("read", "ask"))
WARM = 2
"""Turns of each side before the measured ones, so that the JVM has compiled what it runs."""
BURST = 3
"""Rounds of a turn, one after another: a side that just woke up finds nothing of its own in the caches."""

Times = list[tuple[float, float]]
"""Milliseconds of wall clock and of processor time, for each phase."""


def positions_file(rows: int, share: int) -> Path:
    """Return a file with a share (%) of so many rows, after writing it if it is not there."""
    target = FOLDER / f"positions-{rows}-{share}"
    if not target.is_file():
        FOLDER.mkdir(parents=True, exist_ok=True)
        drawn = np.random.default_rng(rows + share).random(rows) * 100 < share
        np.nonzero(drawn)[0].astype("<u4").tofile(target)
    return target


def ours(positions: array[int], rows: int, width: Width) -> tuple[Times, bytes]:
    """Run the four phases once."""
    times: Times = []

    @contextmanager
    def timed() -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        times.append(((time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3))

    gc.collect()
    with timed():
        bitmaps = collect(positions, width)
    with timed():
        blob = encode(bitmaps, width)
    length = len(blob) - (8 if width == 32 else 0)
    with timed():
        vector = read_vector(blob, length, "a benchmark")
    with timed():
        deleted = np.unpackbits(np.frombuffer(vector.deleted(0, rows), np.uint8), bitorder="little")
    assert vector.cardinality == len(positions) == int(np.count_nonzero(deleted))
    return times, blob


class Peer(JavaPeer):
    """The Java engine's vectors in a JVM with its own defaults."""

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, "VectorPeer", heap="4g")
        self._blob = FOLDER / "blob"

    def make(self, positions: Path, rows: int, width: Width) -> tuple[Times, bytes]:
        """Run the four phases once."""
        numbers = [number / 1e6 for number in self(f"{positions} {rows} {width} {self._blob}")]
        return list(zip(numbers[::2], numbers[1::2], strict=True)), self._blob.read_bytes()


def measure(peer: Peer, rows: int, share: int, width: Width, runs: int) -> dict[str, Any]:
    """Run one case of the grid in turn on both sides, and return its figures."""
    path = positions_file(rows, share)
    positions = array("I")
    positions.frombytes(path.read_bytes())
    rounds: dict[str, list[Times]] = {"lakesweep": [], "engine": []}
    size = 0
    for number in range(WARM + runs):
        mine = [ours(positions, rows, width) for _ in range(BURST)]
        theirs = [peer.make(path, rows, width) for _ in range(BURST)]
        if len({blob for _, blob in (*mine, *theirs)}) != 1:
            raise SystemExit(f"{rows} rows, {share} %, {width} bits: the vectors differ")
        size = len(mine[0][1])
        if number >= WARM:
            rounds["lakesweep"] += [times for times, _ in mine]
            rounds["engine"] += [times for times, _ in theirs]
    figures = {
        phase: {who: figures_of([times[at] for times in found]) for who, found in rounds.items()}
        for at, phase in enumerate(PHASES)
    }
    print(f"{rows} rows, {share} %, {width} bits: done", flush=True)
    return {"rows": rows, "share": share, "width": width, "positions": len(positions), "bytes": size, **figures}


def figures_of(times: Times) -> dict[str, Any]:
    """Return the figures of one phase on one side, in milliseconds."""
    wall, cpu = zip(*times, strict=True)
    least_and_most = [round(min(cpu), 3), round(max(cpu), 3)]
    return {"cpu": round(median(cpu), 3), "cpu_least_and_most": least_and_most, "wall": round(median(wall), 3)}


def ratio(case: dict[str, Any], *phases: str) -> float:
    """Return our CPU time as a multiple of the engine's, by medians."""
    mine, theirs = (sum(case[phase][who]["cpu"] for phase in phases) for who in ("lakesweep", "engine"))
    return mine / theirs


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Make and read deletion vectors beside the Java engine.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="other rows write to build/")
    asked = parser.parse_args()
    setting = machine()
    classpath = engine_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    peer = Peer(classpath)
    try:
        cases = [
            measure(peer, rows, share, width, asked.runs) for width in WIDTHS for rows in asked.rows for share in SHARES
        ]
    finally:
        peer.close()
    bars = []
    for phases in BARRED:
        worst = max((case for case in cases if case["share"] != SHARES[0]), key=lambda case: ratio(case, *phases))
        found = ratio(worst, *phases)
        where = f"{worst['rows'] // 10**6} M rows, {worst['share']} %, {worst['width']} bits"
        bars.append(
            Bar(
                f"{' and '.join(phases)}: times the engine's CPU, worst case of PIP-16's grid",
                "at most 1.0",
                f"{found:.2f} ({where})",
                found <= 1,
            )
        )
    rows = [
        (
            f"{case['rows'] // 10**6} M, {case['share']} %, {case['width']}",
            f"{case['bytes']:,}",
            *(_cell(case, phase) for phase in PHASES),
        )
        for case in cases
    ]
    text = (
        "PIP-16's grid, and 5 %: a share of the rows of a file, drawn at random, ascending, in memory as one array on "
        "both sides. *Add* makes a vector, *write* its bytes, *read* a vector of the bytes, and *ask* answers for each "
        "row as one byte. Lakesweep verifies the CRC when it reads, which the engine does not. The sides take turns of "
        f"{BURST} rounds: {WARM} turns of each case before {asked.runs} measured ones. All vectors of a case have the "
        "same bytes.",
        bars_table(bars),
        "CPU milliseconds of the working thread, Lakesweep / the engine, medians. The JVM's compiler and collector are "
        "not in them. The JSON has wall clock too, which the load of the machine spoils.",
        table(("rows, share, width", "bytes", *PHASES), rows),
    )
    whole = tuple(asked.rows) == ROWS
    write("vectors", "Deletion vectors", setting, {"cases": cases, "bars": bars_json(bars)}, text, is_whole=whole)


def _cell(case: dict[str, Any], phase: str) -> str:
    mine, theirs = (case[phase][who]["cpu"] for who in ("lakesweep", "engine"))
    return f"{mine:.2f} / {theirs:.2f} ({ratio(case, phase):.2f})"


if __name__ == "__main__":
    main()
