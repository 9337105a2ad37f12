"""Fresh copies of one table, on S3 or on the local disk, and the requests of one run on each."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import S3

BUCKET = "bench"
NAME = "t"
LISTS = ("manifest-list-", "index-manifest-")


@dataclass(frozen=True, slots=True)
class Copy:
    """A fresh copy of a table, and an empty place for control documents."""

    table: str
    warehouse: str
    """What the engine's catalog opens."""
    control: str
    endpoint: str | None
    folder: Path | None
    """Of a local copy."""

    def words(self, command: str, *words: str) -> list[str]:
        """Return a command line."""
        where = ["--control", self.control, *(["--endpoint-url", self.endpoint] if self.endpoint else [])]
        return [command, self.table, *words, *where]


@dataclass(frozen=True, slots=True)
class Requests:
    """What one run asked S3 for, in order: kind and path, which begins with the bucket."""

    log: tuple[tuple[str, str], ...]
    prefix: str
    """Of the table."""

    def count(self, kind: str | None = None) -> int:
        """Count requests of a kind, or all."""
        return sum(kind in (None, each) for each, _ in self.log)

    def puts(self, *, in_table: bool) -> int:
        """Count PUTs to the table, or to the control location."""
        return sum(kind == "PUT" and path.startswith(self.prefix) == in_table for kind, path in self.log)

    @property
    def manifests(self) -> int:
        """How many manifests were written."""
        names = {path.rpartition("/")[2] for kind, path in self.log if kind == "PUT"}
        return sum(name.startswith("manifest-") and not name.startswith(LISTS) for name in names)

    @property
    def to_visible(self) -> int:
        """Requests after the last file below `manifest/` was put, until the snapshot was: it is among them."""
        puts = [(index, path) for index, (kind, path) in enumerate(self.log) if kind == "PUT"]
        prepared = max((index for index, path in puts if path.startswith(f"{self.prefix}manifest/")), default=-1)
        visible = max((index for index, path in puts if path.startswith(f"{self.prefix}snapshot/snapshot-")), default=0)
        return visible - prepared


@dataclass(frozen=True, slots=True)
class Place:
    """Where copies of one table are made."""

    source: Path
    s3: S3 | None
    latency_ms: int
    scratch: Path

    def copies(self, count: int) -> Iterator[Copy]:
        """Yield fresh copies, one after the other."""
        for number in range(count):
            if self.s3 is not None:
                place = f"{self.source.name}-{time.time_ns()}-{number}"
                self.s3.upload(self.source, BUCKET, f"{place}/db.db/{NAME}")
                at = f"s3://{BUCKET}/{place}"
                yield Copy(f"{at}/db.db/{NAME}", at, f"{at}-control", self.s3.proxied, None)
                continue
            with tempfile.TemporaryDirectory(dir=self.scratch) as made:
                root = Path(made, "warehouse", "db.db", NAME)
                shutil.copytree(self.source, root)
                yield Copy(str(root), str(root.parents[1]), f"{made}/control", None, root)

    def begin(self) -> None:
        """Count from now on, and hold requests back."""
        if self.s3 is not None:
            self.s3.reset(self.latency_ms)

    def end(self, copy: Copy) -> Requests | None:
        """Return the requests since `begin`; from now on nothing is held back."""
        if self.s3 is None:
            return None
        found = Requests(tuple(self.s3.log()), copy.table.removeprefix("s3://") + "/")
        self.s3.reset(0)
        return found
