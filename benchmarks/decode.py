"""Decode a manifest: what retention and a scan need of it, beside fastavro with and without a projection, in one run.

    python -m benchmarks.decode [--runs N] [--entries N]

The Java engine writes the manifest once: one file with statistics of 20 columns in every entry.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.engine import engine_classpath, engine_version, java_version
from benchmarks.results import Bar, bars_json, bars_table, machine, seconds, summary, table, write
from benchmarks.tables import FOLDER
from lakesweep.format.manifest import EntryNames, ManifestEntry, read_manifest, read_names
from lakesweep.format.manifest_fields import ENTRY
from tests.differential.engine import Engine

ENTRIES = 100_000
TYPES = ("INT", "BIGINT", "DOUBLE", "STRING")
COLUMNS = [["dt", "STRING"], *([f"c{number:02}", TYPES[number % 4]] for number in range(1, 20))]
FASTER = 3.0
SOURCE = Path(__file__).with_name("ManifestWriter.java")


def manifest(entries: int) -> Path:
    """Return a manifest of so many entries, after writing it if it is not there."""
    target = FOLDER / f"manifest-{entries}"
    if target.is_file():
        return target
    classpath = engine_classpath()
    work = FOLDER / "manifest.new"
    shutil.rmtree(work, ignore_errors=True)
    print(f"writing a manifest of {entries} entries with the engine", flush=True)
    with Engine(work, classpath) as engine:
        options = {"bucket": "-1", "manifest.target-file-size": "1 gb"}
        engine("create", table="db.wide", columns=COLUMNS, partition_keys=["dt"], options=options)
        root = engine.location("db.wide")
    subprocess.run(["javac", "-nowarn", "-cp", classpath, "-d", str(work), str(SOURCE)], check=True)
    command = ["java", "-Xmx2g", "-cp", f"{work}{os.pathsep}{classpath}", "ManifestWriter", str(root), str(entries)]
    written = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    (name,) = written.stdout.split()
    (root / "manifest" / name).rename(target)
    shutil.rmtree(work)
    return target


def ours(body: bytes) -> Iterator[ManifestEntry]:
    """Read what retention needs."""
    return read_manifest(body, "manifest")


def names(body: bytes) -> Iterator[EntryNames]:
    """Read what a scan for orphan files needs."""
    return read_names(body, "manifest")


def projected(body: bytes) -> Iterator[Any]:
    """Read with fastavro what retention needs."""
    schema = json.loads(fastavro.reader(io.BytesIO(body)).metadata["avro.schema"])
    wanted = {want.name: {field.name for field in want.fields} for want in ENTRY}
    schema["fields"] = [field for field in schema["fields"] if field["name"] in wanted]
    for field in schema["fields"]:
        if inside := wanted[field["name"]]:
            field["type"]["fields"] = [each for each in field["type"]["fields"] if each["name"] in inside]
    return fastavro.reader(io.BytesIO(body), reader_schema=schema)


def everything(body: bytes) -> Iterator[Any]:
    """Read every field with fastavro."""
    return fastavro.reader(io.BytesIO(body))


def timed(decode: Callable[[bytes], Iterable[object]], body: bytes) -> tuple[float, float]:
    """Decode to the end and return wall and processor seconds."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    deque(decode(body), maxlen=0)
    return time.perf_counter() - start, time.process_time() - cpu


def check_equal(body: bytes) -> int:
    """Compare every value of every entry with what fastavro reads; return how many entries there are."""
    count = 0
    for mine, full in zip_longest(ours(body), everything(body)):
        if mine is None or full is None or mine != _entry(full):
            raise SystemExit(f"entry {count} differs: {mine} and {full}")
        count += 1
    return count


def _entry(full: dict[str, Any]) -> ManifestEntry:
    file = full["_FILE"]
    return ManifestEntry(
        is_add=full["_KIND"] == 0,
        partition=full["_PARTITION"],
        bucket=full["_BUCKET"],
        level=file["_LEVEL"],
        file_name=file["_FILE_NAME"],
        file_size=file["_FILE_SIZE"],
        extra_files=tuple(file["_EXTRA_FILES"]),
        embedded_index=file["_EMBEDDED_FILE_INDEX"],
        external_path=file["_EXTERNAL_PATH"],
        file_source=file["_FILE_SOURCE"],
        row_count=file["_ROW_COUNT"],
    )


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Decode a manifest beside fastavro.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--entries", type=int, default=ENTRIES, help=f"other than {ENTRIES} writes to build/")
    asked = parser.parse_args()
    setting = machine()
    classpath = engine_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    body = manifest(asked.entries).read_bytes()
    count = check_equal(body)  # both have run once now: caches and generated code are there
    readers = {
        "Lakesweep, for retention": ours,
        "Lakesweep, names for a scan": names,
        "fastavro, projected": projected,
        "fastavro, everything": everything,
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for _ in range(asked.runs):
        for name, decode in readers.items():  # in turn, so that both meet the same load
            times[name].append(timed(decode, body))
    walls = {name: summary([wall for wall, _ in values]) for name, values in times.items()}
    cpus = {name: summary([cpu for _, cpu in values]) for name, values in times.items()}
    full, mine = cpus["fastavro, everything"], cpus["Lakesweep, for retention"]
    ratio = full["median"] / mine["median"]
    bars = [Bar("times less CPU than fastavro's full decode", f"at least {FASTER}", f"{ratio:.2f}", ratio >= FASTER)]
    rows = [
        (name, asked.runs, seconds(walls[name]), seconds(cpus[name]), f"{count / walls[name]['median']:,.0f}")
        for name in readers
    ]
    document = {
        "entries": count,
        "bytes": len(body),
        "rows": [{"who": name, "wall_s": walls[name], "cpu_s": cpus[name]} for name in readers],
        "bars": bars_json(bars),
    }
    text = (
        f"One manifest that the engine wrote: {count:,} entries with statistics of {len(COLUMNS)} columns, "
        f"{len(body) / 2**20:.1f} MiB on disk, already in memory. All readers run in turn in one process, each to the "
        "last entry, and keep none. Before that all values that Lakesweep reads were compared with fastavro's on every "
        "entry: they are equal.",
        bars_table(bars),
        table(("", "runs", "wall s", "CPU s", "entries a second"), rows),
    )
    write("decode", "Decode a manifest", setting, document, text, is_whole=asked.entries == ENTRIES)


if __name__ == "__main__":
    main()
