"""Tables of many partitions, metadata only: what expiring or dropping partitions reads is in the manifests.

    python -m benchmarks.partition_tables FOLDER PARTITIONS MANIFESTS FILES EXPIRED

Every commit added the files of one manifest: nine tenths to the days of its turn, one tenth to the days of the commit
before, as late rows come. The oldest days are long over, the others far in the future, so what expires does not depend
on the day of the measurement. The option `manifest.target-file-size` is below the size of each manifest, so neither
side has reason to merge any. No data file exists.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks.large_table import START_MS, File, Manifest, Writer
from benchmarks.servers import PROJECT, environment
from benchmarks.tables import FOLDER

EXPIRES = {"partition.expiration-time": "365 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
TARGET = "256 kb"
"""No manifest here is smaller."""
OLD, NEW = date(2001, 1, 1), date(2901, 1, 1)
LATE = 10
"""One of so many files belongs to days of the commit before."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a table is."""

    partitions: int
    manifests: int
    files: int
    expired: int
    """Partitions that are long over."""

    @property
    def describe(self) -> str:
        """Say it in one sentence."""
        return (
            f"{self.partitions:,} partitions, {self.files:,} live files, {self.manifests} manifests: "
            f"{self.expired} partitions expire"
        )


class PartitionedWriter(Writer):
    """Writes one table of a shape."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder, 1.0)
        self._shape = shape

    def write(self) -> None:
        """Write everything."""
        self._schema()
        days = days_of(self._shape)
        of_one = self._shape.files // self._shape.manifests
        turn = self._shape.partitions // self._shape.manifests
        manifests: list[Manifest] = []
        rows: list[int] = []
        for number in range(self._shape.manifests):
            own = days[number * turn : (number + 1) * turn]
            before = days[max(number - 1, 0) * turn : max(number, 1) * turn]
            files = [self._of(own, before, index) for index in range(of_one)]
            rows.append(sum(file["_FILE"]["_ROW_COUNT"] for file in files))
            manifests.append(self._manifest(files))
        self._publish(self._shape.manifests, manifests, rows)

    def _of(self, own: Sequence[str], before: Sequence[str], index: int) -> File:
        days = before if index % LATE == 0 else own
        return self._file(days[index // LATE % len(days)])

    def _publish(self, snapshot_id: int, manifests: Sequence[Manifest], rows: Sequence[int]) -> None:
        text = self._snapshot_text(snapshot_id, manifests[:-1], manifests[-1:])
        stated: dict[str, Any] = json.loads(text)
        stated |= {"commitKind": "APPEND", "totalRecordCount": sum(rows), "deltaRecordCount": rows[-1]}
        self._document("snapshot", f"snapshot-{snapshot_id}", json.dumps(stated, indent=2))
        self._document("snapshot", "LATEST", str(snapshot_id))
        self._document("snapshot", "EARLIEST", str(snapshot_id))

    def _schema(self) -> None:
        super()._schema()
        path = self._folder / "schema" / "schema-0"
        stated = json.loads(path.read_text())
        stated["options"] |= {**EXPIRES, "manifest.target-file-size": TARGET, "write-only": "true"}
        stated["timeMillis"] = START_MS
        path.write_text(json.dumps(stated, indent=2))


def days_of(shape: Shape) -> list[str]:
    """Return the partitions' values, oldest first."""
    old = [OLD + timedelta(days=number) for number in range(shape.expired)]
    new = [NEW + timedelta(days=number) for number in range(shape.partitions - shape.expired)]
    return [day.isoformat() for day in old + new]


def table_folder(name: str, shape: Shape) -> Path:
    """Return the folder of a table, after writing it if it is not there. Copy it before changing anything."""
    folder = FOLDER / name
    if not folder.is_dir():
        print(f"writing table {name}: {shape.describe}", flush=True)
        work = FOLDER / f"{name}.new"
        shutil.rmtree(work, ignore_errors=True)
        # In a process of its own: what this one has had in memory would count as its children's peak.
        numbers = [shape.partitions, shape.manifests, shape.files, shape.expired]
        command = [sys.executable, "-m", "benchmarks.partition_tables", str(work), *map(str, numbers)]
        subprocess.run(command, check=True, cwd=PROJECT, env=environment())
        work.rename(folder)
    return folder


if __name__ == "__main__":
    PartitionedWriter(Path(sys.argv[1]), Shape(*map(int, sys.argv[2:6]))).write()
