"""Where values of erased rows are in tables of the engine, beside a search of every byte of the table.

`LAKESWEEP_ERASURES` says how many random tables, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from lakesweep.model.erasure.places import ErasedFiles, Place
from lakesweep.model.where.where import parse_where
from lakesweep.operations.erasure.places.look import look
from lakesweep.operations.erasure.places.tainted import tainted_files
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.runs.view import begin
from tests.differential.compacted import Compacted
from tests.differential.engine import Engine
from tests.support.erasure_world import is_in
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_ERASURES") or 4)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 1)
MARKER = "marker-77"
STEPS = ("put", "put", "mark", "mark", "delete", "compact", "merge", "tag", "branch", "expire", "rename", "drop")


class Tainted(Compacted):
    """A table of which some rows have the marker."""

    name = "name"

    def begin(self) -> None:
        random = self.random
        self.options = {
            "metadata.stats-mode": random.choice(("truncate(16)", "full", "counts", "none")),
            "file.format": random.choice(("parquet", "parquet", "avro")),
            "write-only": random.choice(("true", "false")),
            **random.choice(({}, {"file-index.bitmap.columns": "name"}, {"file-index.bloom-filter.columns": "name"})),
            "file-index.in-manifest-threshold": random.choice(("500 b", "1 b")),
        }
        self.create([["id", "BIGINT"], ["name", "STRING"]], [["p", "STRING"]])

    def add(self, *names: str) -> None:
        day = self.random.choice("ab")
        rows = []
        for name in names:
            self._number += 1
            rows.append([self._number, name, day])
        self.do("typed_put", rows=rows)

    def act(self, kind: str) -> None:
        self.facts[kind] += 1
        self._number += 1
        match kind:
            case "put":
                self.add("anna", "bert", "zoe")
            case "mark":
                self.add(*self.random.choice((("anna", MARKER, "zoe"), (MARKER, "zoe"), ("adam", "anna", MARKER))))
            case "delete":
                self.do("dv_delete", n=self.random.randint(1, 3))
            case "compact":
                self.do("compact")
            case "merge":
                self.do("compact_manifests")
            case "tag":
                self.do("tag", op="create", name=f"t{self._number}", snapshot=self.newest())
            case "branch":
                self.do("branch", op="create", name=f"b{self._number}")
            case "expire":
                self.do("expire", retain_max=2, retain_min=1, time_retain_s=0)
            case "rename":
                new = f"name{self._number}"
                if self.do("typed_alter", changes=[["rename", [self.name], new]]):
                    self.name = new
            case "drop":
                self.do("drop_partitions", specs=[{"p": self.random.choice("ab")}])

    def look(self) -> tuple[ErasedFiles, tuple[Place, ...]]:
        view = begin(self.opened(), "erase")
        where = parse_where(f"{self.name} = '{MARKER}'", view.schema.fields)
        erased = tainted_files(view, where, LocalEngine(view.table))
        return erased, look(begin(self.opened(), "erase"), erased)

    def grep(self) -> set[str]:
        """Return the paths of all objects with the marker."""
        return {
            str(path.relative_to(self.location))
            for path in self.location.rglob("*")
            if path.is_file() and not path.name.endswith(".crc") and is_in(path.read_bytes(), MARKER.encode())
        }


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_random_tables(engine: Engine, tmp_path: Path, seed: int) -> None:
    """Every object with the marker is in a place, and no place is certain without it."""
    table = Tainted(engine, f"erased.t{seed}", tmp_path, Random(seed))
    table.begin()
    table.act("mark")
    for _ in range(table.random.randint(4, 12)):
        table.act(table.random.choice(STEPS))
    erased, places = table.look()
    marked = table.grep()
    left = [place for place in places if place.state != "gone"]
    named = {path for place in left for path in place.paths}
    full = {place.kind for place in left if place.count > len(place.paths)}
    counts = Counter(place.kind for place in left)
    for path in marked:
        kind = "manifest" if path.startswith("manifest/") else "data_file"
        kind = "file_index" if path.endswith(".index") else kind
        assert path in named or kind in full or (kind == "file_index" and counts[kind]), (path, table.done, places)
    for place in places:
        if place.state == "there" and place.kind == "data_file":
            assert set(place.paths) <= marked, (place, table.done)
    if not marked:
        assert "data_file" not in counts or not erased.holds
