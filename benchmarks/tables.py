"""The tables that are measured. The engine writes each of them once; they are kept in `build/bench/tables`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import engine_classpath
from benchmarks.servers import PROJECT
from tests.differential.engine import RETAIN_EVERYTHING, Engine

FOLDER = PROJECT / "build" / "bench" / "tables"
COLUMNS = [["dt", "STRING"], ["id", "INT"], ["v", "STRING"]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An append table of Avro files that is overwritten again and again: each snapshot kills the files of the last."""

    name: str
    commits: int
    rows: int
    """Of one commit."""
    partitions: tuple[str, ...]
    retention: Mapping[str, str]
    """Options of its schema, stated after the last commit, that both sides obey."""
    expired: int
    """Snapshots that go."""

    @property
    def describe(self) -> str:
        """Say it in one sentence."""
        return (
            f"{self.commits} INSERT OVERWRITE commits over {len(self.partitions)} partitions (append table, Avro, one "
            f"file a partition and commit), {self.expired} snapshots expire"
        )


def _keep(count: int, limit: int) -> dict[str, str]:
    return {
        "snapshot.num-retained.min": str(count),
        "snapshot.num-retained.max": str(count),
        "snapshot.time-retained": "1 ms",
        "snapshot.expire.limit": str(limit),
    }


P1 = Recipe("p1", 100, 200, tuple(f"2024-01-{day:02}" for day in range(1, 21)), _keep(50, 50), 50)
P3 = Recipe("p3", 1000, 20, ("2024-01-01", "2024-01-02"), _keep(1, 100_000), 999)
RECIPES = {recipe.name: recipe for recipe in (P1, P3)}


def table_folder(recipe: Recipe) -> Path:
    """Return the table's folder, after writing it if it is not there. Copy it before changing anything."""
    folder = FOLDER / recipe.name
    if folder.is_dir():
        return folder
    print(f"writing table {recipe.name} with the engine: {recipe.describe}", flush=True)
    work = FOLDER / f"{recipe.name}.new"
    shutil.rmtree(work, ignore_errors=True)
    with Engine(work, engine_classpath()) as engine:
        table = f"db.{recipe.name}"
        options = {**RETAIN_EVERYTHING, "file.format": "avro", "write-only": "true", "bucket": "-1"}
        engine("create", table=table, columns=COLUMNS, partition_keys=["dt"], options=options)
        parts = [[day] for day in recipe.partitions]
        engine("write", table=table, n=recipe.rows, commits=recipe.commits, seed=1, parts=parts, overwrite={})
        engine("alter", table=table, set=dict(recipe.retention))
        engine.location(table).rename(folder)
    shutil.rmtree(work)
    return folder
