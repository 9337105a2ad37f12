"""Tables of many small manifests, metadata only: what compacting manifests reads and writes.

    python -m benchmarks.manifest_tables FOLDER MANIFESTS ENTRIES

Every commit added files to the day of its turn, and one tenth of its entries deletes files of the commit before, as a
compaction of data does. No data file exists.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from benchmarks.large_table import START_MS, File, Manifest, Writer
from benchmarks.servers import PROJECT, environment
from benchmarks.tables import FOLDER

DAY = date(2025, 1, 1)
COMMITS_A_DAY = 10
DELETED = 10
"""One of so many entries deletes a file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a table is."""

    manifests: int
    entries: int
    """Of all manifests."""

    @property
    def describe(self) -> str:
        """Say it in one sentence."""
        return (
            f"{self.manifests:,} manifests with {self.entries:,} entries, of which one in {DELETED} deletes a file of "
            f"the commit before; {self.manifests // COMMITS_A_DAY} partitions"
        )


class SmallManifestsWriter(Writer):
    """Writes one table of a shape."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder, 1.0)
        self._shape = shape

    def write(self) -> None:
        """Write everything."""
        self._schema()
        of_one = self._shape.entries // self._shape.manifests
        manifests: list[Manifest] = []
        before: list[File] = []
        rows = 0
        for number in range(self._shape.manifests):
            day = (DAY + timedelta(days=number // COMMITS_A_DAY)).isoformat()
            gone = [{**file, "_KIND": 1} for file in before[: of_one // DELETED]]
            added = [self._file(day) for _ in range(of_one - len(gone))]
            delta = _rows(added) - _rows(gone)
            rows += delta
            manifests.append(self._manifest([*gone, *added]))
            before = added
        text = self._snapshot_text(self._shape.manifests, manifests[:-1], manifests[-1:])
        stated = json.loads(text) | {"totalRecordCount": rows, "deltaRecordCount": delta}
        self._document("snapshot", f"snapshot-{self._shape.manifests}", json.dumps(stated, indent=2))
        for hint in ("LATEST", "EARLIEST"):
            self._document("snapshot", hint, str(self._shape.manifests))

    def _schema(self) -> None:
        super()._schema()
        path = self._folder / "schema" / "schema-0"
        stated = json.loads(path.read_text())
        path.write_text(json.dumps(stated | {"timeMillis": START_MS}, indent=2))


def _rows(files: list[File]) -> int:
    return sum(file["_FILE"]["_ROW_COUNT"] for file in files)


def day_of(shape: Shape) -> str:
    """Return a partition in the middle of a table."""
    return (DAY + timedelta(days=shape.manifests // COMMITS_A_DAY // 2)).isoformat()


def table_folder(shape: Shape) -> Path:
    """Return the folder of a table, after writing it if it is not there. Copy it before changing anything."""
    folder = FOLDER / f"manifests-{shape.manifests}-{shape.entries}"
    if not folder.is_dir():
        print(f"writing table {folder.name}: {shape.describe}", flush=True)
        work = FOLDER / f"{folder.name}.new"
        shutil.rmtree(work, ignore_errors=True)
        # In a process of its own: what this one has had in memory would count as its children's peak.
        command = [sys.executable, "-m", "benchmarks.manifest_tables", str(work)]
        subprocess.run([*command, str(shape.manifests), str(shape.entries)], check=True, cwd=PROJECT, env=environment())
        work.rename(folder)
    return folder


if __name__ == "__main__":
    SmallManifestsWriter(Path(sys.argv[1]), Shape(*map(int, sys.argv[2:4]))).write()
