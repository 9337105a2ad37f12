"""The process that writes with the Java engine, in a JVM that it starts and feeds by `EngineDriver`.

The rows come from the engine's own random numbers, so what a snapshot must hold is what the engine read of it right
after it was committed. The tables are `write-only`: the engine expires nothing and compacts when it is told to.
"""

import os
import time
from pathlib import Path
from typing import Any

from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.support.system.writer_loop import Made, run
from tests.support.system.written import REGION, Assignment, Table

ROWS = 20
KEYS = 200
_COLUMNS = [["id", "BIGINT"], ["amount", "BIGINT"], ["note", "STRING"]]
_KEYED: dict[str, Any] = {"primary_keys": ["id"]}
_UPSERTS = {"bucket": "2", "write-only": "true", "changelog-producer": "input"}
_LONGER_CHANGELOGS = {
    "changelog.num-retained.min": "6",
    "changelog.num-retained.max": "8",
    "changelog.time-retained": "1 ms",
}
_VECTORS = {"bucket": "-1", "write-only": "true", "deletion-vectors.enabled": "true"}
_KEEPING = {
    **RETAIN_EVERYTHING,
    "changelog.num-retained.min": "100000",
    "changelog.num-retained.max": "100000",
    "changelog.time-retained": "10000 d",
}
"""For a compaction, which must not be `write-only` and so would expire what it finds old."""
SHAPES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "upserts": (_KEYED, _UPSERTS),
    "streamed": (_KEYED, _UPSERTS | _LONGER_CHANGELOGS),
    "vectors": ({}, _VECTORS),
}
"""Shape -> further arguments of `create`, and options. A primary key with changelog files, the same with changelogs
that outlive their snapshots, and deletion vectors on a table without a key."""


class Java:
    """Tables in one warehouse."""

    def __init__(self, assignment: Assignment) -> None:
        work = Path(os.environ["LAKESWEEP_WRITER_FOLDER"]) / f"{assignment.writer}-jvm"
        self._engine = Engine(work, os.environ["LAKESWEEP_ENGINE_CLASSPATH"], heap="512m")
        options = {
            "s3.endpoint": assignment.endpoint,
            "s3.access-key": os.environ["AWS_ACCESS_KEY_ID"],
            "s3.secret-key": os.environ["AWS_SECRET_ACCESS_KEY"],
            "s3.path.style.access": "true",
            "s3.endpoint.region": REGION,
            "s3.connection.ssl.enabled": "false",
        }
        self._engine("open", warehouse=assignment.warehouse, options=options, tmp=str(work / "spill"))
        self._numbers: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def create(self, table: Table) -> None:
        arguments, options = SHAPES[table.shape]
        self._engine("create", table=table.name, columns=_COLUMNS, options=options | table.schema_options, **arguments)
        self._numbers[table.name] = self._latest[table.name] = 0

    def commit(self, table: Table) -> Made | None:
        number = self._numbers[table.name] = self._numbers[table.name] + 1
        return self._made(table, self._change(table, number), time.time())

    def settle(self, table: Table) -> Made | None:
        found = self._engine("snapshots", table=table.name)["snapshots"]
        return self._made(table, found[-1][0] if found else None, time.time())

    def tag(self, table: Table, name: str, snapshot_id: int) -> None:
        self._engine("tag", table=table.name, name=name, snapshot=snapshot_id)

    def read(self, table: Table, snapshot_id: int | None, tag: str | None) -> tuple[int, str]:
        found = self._engine("scan", table=table.name, snapshot=snapshot_id, tag=tag)
        return int(found["rows"]), f"{found['checksum'] % 2**64:016x}"

    def close(self) -> None:
        """End the JVM."""
        self._engine.close()

    def _made(self, table: Table, latest: int | None, at: float) -> Made | None:
        if latest is None or latest == self._latest[table.name]:
            return None  # a compaction that found nothing to do
        rows, digest = self.read(table, latest, None)
        self._latest[table.name] = latest
        return Made(latest, at, rows, digest)

    def _change(self, table: Table, number: int) -> int | None:
        """Make one commit, and return the latest snapshot's id."""
        name = table.name
        if number % 3 == 0:
            compacted: int | None = self._engine("compact", table=name, options=_KEEPING)
            return compacted
        if table.shape == "vectors" and number % 3 == 2:
            deleted: int | None = self._engine("dv_delete", table=name, n=3)
            return deleted
        keyed = table.shape != "vectors"
        more: dict[str, Any] = {"deletes": 0.1} if keyed else {"overwrite": {}} if number % 6 == 4 else {}
        ids = self._engine("write", table=name, n=ROWS, seed=number, keys=[0, KEYS], **more)
        return int(ids[-1])


if __name__ == "__main__":
    run(Java)
