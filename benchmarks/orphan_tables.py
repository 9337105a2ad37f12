"""Tables with orphan files: one that the engine writes, and synthetic ones of any size with files that are empty.

    python -m benchmarks.orphan_tables FOLDER OBJECTS PARTITIONS ROOTS

writes a synthetic one. Its metadata is as the engine would leave it: each commit adds its files to every partition in
a manifest of its own, and thirty that are not full are merged. The newest snapshots are there, the older ones expired.
Each hundredth file is named by none of them. All files were written long ago.

Files carry the attribute in which versitygw keeps ETags, so that its folders can be filled with hard links to them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import engine_classpath
from benchmarks.large_table import COMMIT_MS, FILES_OF_A_MANIFEST, MERGED, START_MS, File, Manifest, Writer
from benchmarks.servers import PROJECT, environment
from benchmarks.tables import COLUMNS, FOLDER
from tests.differential.engine import RETAIN_EVERYTHING, Engine

ORPHANS_IN = 100
"""One of so many files is an orphan."""
COMMITS = 100
"""At least. A table with more roots has more."""
ENGINE_ORPHANS = 1000
ENGINE_PARTITIONS = 100
ENGINE_COMMITS = 100
_ETAG = "user.etag"
_ETAG_OF_NOTHING = hashlib.md5(b"").hexdigest()
_WRITERS_A_COMMIT = 10
_ROWS_A_WRITER = 300


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a synthetic table."""

    objects: int
    """Data files, orphans included."""
    partitions: int
    roots: int = 100

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return f"scan-{self.objects}-{self.partitions}-{self.roots}"

    @property
    def orphans(self) -> int:
        """Return how many files no root names."""
        return self.objects // ORPHANS_IN


class ScannedTable(Writer):
    """Writes one synthetic table below a folder."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder, shape.objects / 1_000_000)
        self._shape = shape
        self._created = 0
        self._named: set[str] = set()

    def write(self) -> None:
        """Write everything, oldest first."""
        shape = self._shape
        self._schema()
        for partition in range(shape.partitions):
            (self._folder / _bucket(partition)).mkdir(parents=True)
        live, commits = shape.objects - shape.orphans, max(shape.roots, COMMITS)
        full: list[Manifest] = []
        small: list[Manifest] = []
        for commit in range(1, commits + 1):
            count = live * commit // commits - live * (commit - 1) // commits
            if len(small) == MERGED:
                merged = list(self._merge(small))
                small = [manifest for manifest in merged if manifest.entries]
                full += [manifest for manifest in merged if not manifest.entries]
            delta = self._manifest(self._added(count), keep=True)
            if commit > commits - shape.roots:
                self._root(commit, [*full, *small], delta)
            small.append(delta)
        for path in (self._folder / "manifest").iterdir():
            if path.name not in self._named:  # it went with the snapshots that expired
                path.unlink()
        for number in range(shape.orphans):
            self._create(number % shape.partitions, f"data-{self._uuid()}-0.parquet")
        self._document("snapshot", "LATEST", str(commits))
        self._document("snapshot", "EARLIEST", str(commits - shape.roots + 1))
        for folder in ("snapshot", "schema", "manifest"):
            for path in (self._folder / folder).iterdir():
                note_etag(path)
                os.utime(path, (START_MS / 1000, START_MS / 1000))

    def _added(self, count: int) -> Iterator[File]:
        """Create the files of one commit: each partition's writer counts its own."""
        writers = [self._uuid() for _ in range(self._shape.partitions)]
        for _ in range(count):
            number, partition = divmod(self._created, self._shape.partitions)
            self._created += 1
            file = self._file(_value(partition))
            file["_FILE"]["_FILE_NAME"] = f"data-{writers[partition]}-{number}.parquet"
            self._create(partition, file["_FILE"]["_FILE_NAME"])
            yield file

    def _create(self, partition: int, name: str) -> None:
        path = f"{self._folder}/{_bucket(partition)}/{name}"
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.setxattr(file, _ETAG, f'"{_ETAG_OF_NOTHING}"'.encode())
        os.close(file)
        os.utime(path, (START_MS / 1000, START_MS / 1000))

    def _merge(self, small: Sequence[Manifest]) -> Iterator[Manifest]:
        """Write manifests of full size, and one with what is left, of which the entries are kept."""
        entries = [entry for manifest in small for entry in manifest.entries]
        for start in range(0, len(entries), FILES_OF_A_MANIFEST):
            part = entries[start : start + FILES_OF_A_MANIFEST]
            yield self._manifest(part, keep=len(part) < FILES_OF_A_MANIFEST)

    def _root(self, snapshot_id: int, base: Sequence[Manifest], delta: Manifest) -> None:
        base_name, base_size = self._list(base)
        delta_name, delta_size = self._list([delta])
        self._named |= {base_name, delta_name, *(manifest.line["_FILE_NAME"] for manifest in (*base, delta))}
        document = {
            "version": 3,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": base_name,
            "baseManifestListSize": base_size,
            "deltaManifestList": delta_name,
            "deltaManifestListSize": delta_size,
            "commitUser": str(uuid.UUID(int=1)),
            "commitIdentifier": 9223372036854775807,
            "commitKind": "APPEND",
            "timeMillis": START_MS + snapshot_id * COMMIT_MS,
        }
        self._document("snapshot", f"snapshot-{snapshot_id}", json.dumps(document, indent=2))


def _value(partition: int) -> str:
    return f"p{partition:05}"


def _bucket(partition: int) -> str:
    return f"dt={_value(partition)}/bucket-0"


def synthetic_table(folder: Path, shape: Shape) -> Path:
    """Return the folder of a synthetic table below `folder`, after writing it if it is not there."""
    found = folder / shape.name
    if not found.is_dir():
        print(f"writing {shape.name}: {shape.objects:,} files in {shape.partitions:,} partitions", flush=True)
        work = FOLDER / f"{shape.name}.new"
        shutil.rmtree(work, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        # In a process of its own: what this one has had in memory would count as its children's peak.
        sizes = [str(size) for size in (shape.objects, shape.partitions, shape.roots)]
        command = [sys.executable, "-m", "benchmarks.orphan_tables", str(work), *sizes]
        subprocess.run(command, check=True, cwd=PROJECT, env=environment())
        work.rename(found)
    return found


def engine_table() -> Path:
    """Return the folder of the table that the engine writes, after writing it if it is not there."""
    folder = FOLDER / "o100k"
    if folder.is_dir():
        return folder
    print("writing table o100k with the engine, which takes some minutes", flush=True)
    work = FOLDER / "o100k.new"
    shutil.rmtree(work, ignore_errors=True)
    with Engine(work, engine_classpath(), heap="3g") as engine:
        options = {**RETAIN_EVERYTHING, "file.format": "avro", "write-only": "true", "bucket": "-1"}
        engine("create", table="db.o100k", columns=COLUMNS, partition_keys=["dt"], options=options)
        parts = [[f"p{number:03}"] for number in range(ENGINE_PARTITIONS)]
        for seed in range(10):
            engine(
                "write",
                table="db.o100k",
                n=_ROWS_A_WRITER,
                rounds=_WRITERS_A_COMMIT,
                commits=ENGINE_COMMITS // 10,
                seed=seed,
                parts=parts,
            )
        written = engine.location("db.o100k")
    for key in planted():
        (written / key).write_bytes(b"x" * 1000)
    for path in written.rglob("*"):
        if path.is_file():
            note_etag(path)
    written.rename(folder)
    shutil.rmtree(work)
    return folder


def note_etag(path: Path) -> None:
    """Note the ETag of a file as versitygw does."""
    os.setxattr(path, _ETAG, f'"{hashlib.md5(path.read_bytes()).hexdigest()}"'.encode())


def planted() -> list[str]:
    """Return the keys of the orphans in the table that the engine writes."""
    return [
        f"dt=p{number % ENGINE_PARTITIONS:03}/bucket-0/data-{number:08x}-0000-4000-8000-{number:012x}-0.avro"
        for number in range(ENGINE_ORPHANS)
    ]


if __name__ == "__main__":
    ScannedTable(Path(sys.argv[1]), Shape(*map(int, sys.argv[2:5]))).write()
