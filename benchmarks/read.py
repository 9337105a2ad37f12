"""Read a version on Spark beside Spark's own reader, the Java engine and pypaimon, in one run.

    python -m benchmarks.read [--runs N] [--files N]

The table has 10 million rows in 40 Parquet files of 10 row groups, and vectors delete 5 % of them, drawn at random.
Every reader hands on every column of every row. Spark has two threads (`local[2]`), the engine too, pypaimon one.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.engine import HEAP, engine_classpath, engine_version, java_version
from benchmarks.peer import JavaPeer
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.tables import FOLDER
from lakesweep.format.manifest import VectorRange
from lakesweep.format.vectors.index_file import write_index_files
from lakesweep.format.vectors.vector import Width, vector_of
from lakesweep.spark import read_table
from lakesweep.spark.reading import arrow
from lakesweep.spark.reading.routes import choose
from lakesweep.spark.tasks import Access
from lakesweep.storage.local.store import LocalStore
from tests.support import data_bytes, table_files
from tests.support.rows_read import planned
from tests.support.spark import environment
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES, FILE_ROWS, GROUPS, SHARE = 40, 250_000, 10, 0.05
SMALL_FILES = 4
THREADS = 2
WARM = 2
"""Rounds before the measured ones, so that both JVMs have compiled what they run."""
SLOW_RUNS = 2
"""Of readers that no bar is about."""
TYPES = {
    "id": "BIGINT",
    "customer": "BIGINT",
    "amount": "DOUBLE",
    "quantity": "INT",
    "at": "TIMESTAMP(6)",
    "day": "DATE",
    "part": "INT",
}
FILTER = "part = 0"
"""The rows of one row group of each file."""
MAX_PLAIN, MAX_ENGINE, MAX_FILTERED, FLAT = 1.4, 1.0, 0.35, 1.15

Times = dict[str, list[tuple[float, float]]]
"""Seconds of wall clock and of CPU, by reader."""


def table_folder(files: int) -> Path:
    """Return a table of so many files, after writing it if it is not there."""
    folder = FOLDER / "read" / "db.db" / f"t{files}"
    if (folder / "snapshot").is_dir():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    random = np.random.default_rng(files)
    bodies = (_body(number, random) for number in range(files))
    symbols = [f"f{number:04}" for number in range(files)]
    vectors = {symbol: np.nonzero(random.random(FILE_ROWS) < SHARE)[0].tolist() for symbol in symbols}
    store = LocalStore(str(folder))
    with (
        patch.object(data_bytes, "parquet", lambda *_: next(bodies)),
        patch.object(table_files, "encode_vectors", _encode),
    ):
        built = TableBuilder(store, real_rows=True, types=TYPES, options={"deletion-vectors.enabled": "true"})
        built.commit(*(f"+{symbol}" for symbol in symbols), rows=dict.fromkeys(symbols, FILE_ROWS))
        built.commit(index={"vectors": vectors})
    return folder


def _encode(vectors: Mapping[str, Sequence[int]], *, wide: bool) -> tuple[bytes, tuple[VectorRange, ...]]:
    """Return an index file; the builder's own has vectors of short files only."""
    width: Width = 64 if wide else 32
    made = ((name, vector_of(array("I", positions), width)) for name, positions in vectors.items())
    (file,) = write_index_files(made, None)
    return file.body, file.ranges


def _body(number: int, random: np.random.Generator) -> bytes:
    positions = np.arange(FILE_ROWS, dtype="i8")
    ids = number * FILE_ROWS + positions
    rows = {
        "v": pa.array(np.char.add("customer ", random.integers(0, 200_000, FILE_ROWS).astype(str))),
        "id": ids,
        "customer": random.integers(0, 1_000_000, FILE_ROWS),
        "amount": random.random(FILE_ROWS) * 1000,
        "quantity": random.integers(0, 100, FILE_ROWS).astype("i4"),
        "at": pa.array(1_700_000_000_000_000 + ids * 1000, pa.timestamp("us")),
        "day": pa.array((19_000 + ids // 100_000).astype("i4"), pa.date32()),
        "part": (positions // (FILE_ROWS // GROUPS)).astype("i4"),
    }
    target = io.BytesIO()
    parquet.write_table(pa.table(rows), target, compression="zstd", row_group_size=FILE_ROWS // GROUPS)
    return target.getvalue()


class Peer(JavaPeer):
    """The Java engine in a JVM with its own defaults."""

    def __init__(self, classpath: str, location: Path) -> None:
        super().__init__(classpath, "ReadPeer", str(location), str(THREADS))

    def read(self) -> tuple[tuple[int, int], tuple[float, float]]:
        """Read once, and return rows and sum of ids, and the times."""
        rows, total, wall, cpu = self()
        return (rows, total), (wall / 1e9, cpu / 1e9)


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session with two threads in a JVM with its own defaults."""
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.mkdtemp(prefix="lakesweep-read-"))
    os.environ |= environment(scratch)
    builder = SparkSession.builder.master(f"local[{THREADS}]").config("spark.driver.memory", HEAP)
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(key, "127.0.0.1")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    shutil.rmtree(scratch, ignore_errors=True)


def tree_cpu() -> float:
    """Return the CPU seconds of this process and everything below it but peers: the JVM and its Python workers."""
    ticks, left = 0, [os.getpid()]
    while left:
        pid = left.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            children = [each.read_text().split() for each in Path(f"/proc/{pid}/task").glob("*/children")]
        except OSError:  # it has just ended
            continue
        ticks += sum(map(int, fields[11:15]))
        left += [int(child) for found in children for child in found if "Peer" not in _command(int(child))]
    return ticks / os.sysconf("SC_CLK_TCK")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def timed(read: Callable[[], object]) -> tuple[float, float]:
    """Return wall clock and CPU of a call."""
    wall, cpu = time.perf_counter(), tree_cpu()
    read()
    return time.perf_counter() - wall, tree_cpu() - cpu


def hand_on(frame: DataFrame) -> None:
    """Hand on every column of every row."""
    frame.write.format("noop").mode("overwrite").save()


def pypaimon_rows(location: Path) -> Any:
    """Read with pypaimon."""
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": str(location.parents[1])})
    builder = catalog.get_table(f"db.{location.name}").new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def through_arrow(session: SparkSession, location: Path) -> DataFrame:
    """Return the frame that Python workers read alone."""
    plan = planned(LocalStore(str(location)))
    found = arrow.frame(session, Access(plan.table, ""), plan, choose(plan, spark_sees_table=False))
    assert found is not None
    return found


def measure(session: SparkSession, peer: Peer, location: Path, runs: int) -> tuple[Times, dict[str, Any]]:
    """Let the readers take turns, and make sure that they find the same rows."""
    files = [str(path) for path in sorted((location / "bucket-0").glob("*.parquet"))]

    def ours(where: str | None = None) -> DataFrame:
        return read_table(session, str(location), where=where, protect_ms=None)

    times: Times = {name: [] for name in ("plain", "lakesweep", "filtered", "engine", "arrow", "pypaimon")}
    for number in range(WARM + runs):
        found = {
            "plain": timed(lambda: hand_on(session.read.parquet(*files))),
            "lakesweep": timed(lambda: hand_on(ours())),
            "filtered": timed(lambda: hand_on(ours(FILTER))),
        }
        rows, found["engine"] = peer.read()
        if number >= WARM + runs - SLOW_RUNS:
            found["arrow"] = timed(lambda: hand_on(through_arrow(session, location)))
            found["pypaimon"] = timed(lambda: pypaimon_rows(location))
        if number >= WARM:
            for name, took in found.items():
                times[name].append(took)
        print(f"round {number}: " + ", ".join(f"{name} {cpu:.1f} s" for name, (_, cpu) in found.items()), flush=True)
    mine = tuple(ours().selectExpr("count(*)", "sum(id)").collect()[0])
    theirs = pypaimon_rows(location)
    python = theirs.num_rows, pa.compute.sum(theirs["id"]).as_py()
    some = tuple(ours(FILTER).selectExpr("count(*)", "sum(id)").collect()[0])
    same = tuple(ours().where(FILTER).selectExpr("count(*)", "sum(id)").collect()[0])
    if not mine == rows == python or some != same:
        raise SystemExit(f"readers differ: Spark {mine}, engine {rows}, pypaimon {python}; filtered {some}, {same}")
    return times, {"rows": mine[0], "sum_of_ids": mine[1], "filtered_rows": some[0]}


def driver_memory(session: SparkSession, location: Path) -> dict[str, float]:
    """Return the MiB that the driver holds once a frame was read: the JVM's heap, and Python's memory."""
    frame = read_table(session, str(location), protect_ms=None)
    hand_on(frame)
    jvm: Any = session._jvm
    for _ in range(3):
        jvm.System.gc()
    heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    lines = Path("/proc/self/status").read_text().splitlines()
    python = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return {"heap_mib": round(heap / 2**20, 1), "python_mib": round(python / 1024, 1)}


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Read a version on Spark beside other readers.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=FILES, help="another number writes to build/")
    asked = parser.parse_args()
    setting = machine()
    classpath = engine_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    small, location = table_folder(SMALL_FILES), table_folder(asked.files)
    peer = Peer(classpath, location)
    try:
        with spark_session() as session:
            setting["spark"] = session.version
            driver_memory(session, small)  # classes and modules are loaded now
            memory = {"small": driver_memory(session, small), "whole": driver_memory(session, location)}
            times, rows = measure(session, peer, location, asked.runs)
    finally:
        peer.close()
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    cpu = {name: median(took for _, took in found) for name, found in times.items()}
    wall = {name: median(took for took, _ in found) for name, found in times.items()}
    bars = [
        _bar("lakesweep", "plain", MAX_PLAIN, "the same files by `spark.read.parquet`, without vectors", cpu, wall),
        _bar("lakesweep", "engine", MAX_ENGINE, "the engine's generic API in two threads", cpu, wall),
        _bar("filtered", "lakesweep", MAX_FILTERED, f"the read without `{FILTER}`, nine of ten row groups", cpu, wall),
    ]
    growth = max(memory["whole"][name] / memory["small"][name] for name in memory["small"])
    bars.append(Bar("the driver's memory, ten times the rows", f"at most {FLAT}", f"{growth:.2f}", growth <= FLAT))
    held, all_rows = memory["small"], asked.files * FILE_ROWS
    text = (
        f"{rows['rows']:,} rows remain of {all_rows:,} in {asked.files} Parquet files of {GROUPS} row groups. Spark "
        "hands every column of every row to a sink that drops it, and the engine asks for every field. The readers "
        f"take turns, {WARM} rounds before {asked.runs} measured ones. All find the same rows.",
        bars_table(bars),
        "Seconds, medians. CPU is that of all processes of a reader, with the compilers and collectors of the JVMs. "
        "Wall clock depends on the load of the machine.",
        table(
            ("reader", "CPU", "wall clock"),
            [(LABELS[name], f"{cpu[name]:.2f}", f"{wall[name]:.2f}") for name in times],
        ),
        f"The driver holds {held['heap_mib']:.0f} MiB of heap after reading {SMALL_FILES * FILE_ROWS:,} rows, and "
        f"{memory['whole']['heap_mib']:.0f} MiB after reading {all_rows:,}; its Python "
        f"{held['python_mib']:.0f} and {memory['whole']['python_mib']:.0f} MiB. Vectors are broadcast as one "
        "bit for each row.",
    )
    document = {"rows": rows, "times_s": times, "memory": memory, "bars": bars_json(bars)}
    is_whole = asked.files == FILES
    write("read", "Reading a version on Spark", setting, document, text, is_whole=is_whole)


LABELS = {
    "plain": "`spark.read.parquet`, deleted rows too",
    "lakesweep": "Lakesweep on Spark",
    "filtered": f"the same with `{FILTER}`",
    "engine": "the engine",
    "arrow": "Lakesweep on Spark, all files by Python workers",
    "pypaimon": "pypaimon, into one Arrow table",
}


def _bar(mine: str, other: str, most: float, what: str, cpu: dict[str, float], wall: dict[str, float]) -> Bar:
    """Return a bar about CPU time; the load of the machine spoils wall clock."""
    found = cpu[mine] / cpu[other]
    name = "the filtered read" if mine == "filtered" else "reading with vectors"
    return Bar(
        f"{name}: times the CPU of {what}",
        f"at most {most}",
        f"{found:.2f} (wall clock {wall[mine] / wall[other]:.2f})",
        found <= most,
    )


if __name__ == "__main__":
    main()
