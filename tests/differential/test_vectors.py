"""Deletion vectors beside the Java engine: the same bytes for the same rows, and the same rows for its two readers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lakesweep.format.vectors.index_file import IndexFileBytes, write_index_files
from lakesweep.format.vectors.vector import Width, vector_of
from lakesweep.model.roots import TableRef
from lakesweep.operations.inspect.files import list_files
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.support.vector_bytes import some_vectors

pytestmark = pytest.mark.differential


def written_by_engine(engine: Engine, folder: Path, vectors: dict[str, list[int]], **how: Any) -> list[IndexFileBytes]:
    folder.mkdir(exist_ok=True)
    files = engine("dv_write", folder=str(folder), vectors=list(vectors.items()), **how)
    for name, size, count, ranges in files:
        assert (size, count) == ((folder / name).stat().st_size, len(ranges))
    return [
        IndexFileBytes((folder / name).read_bytes(), tuple(tuple(each) for each in ranges))
        for name, _, _, ranges in files
    ]


def written(vectors: dict[str, list[int]], width: Width, target: int | None) -> list[IndexFileBytes]:
    return list(write_index_files(((name, vector_of(each, width)) for name, each in vectors.items()), target))


def found_by_engine(engine: Engine, folder: Path, file: IndexFileBytes) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    (folder / "index-0").write_bytes(file.body)
    return engine("dv_read", folder=str(folder), name="index-0", ranges=[list(each) for each in file.ranges])


@pytest.mark.parametrize("seed", range(20))
def test_the_same_bytes(engine: Engine, tmp_path: Path, seed: int) -> None:
    """1 to 20 vectors, equal lengths among them, both widths, one file and several; both readers find the rows."""
    random_ = random.Random(seed)
    width: Width = random_.choice((32, 64))
    vectors = dict(some_vectors(random_, wide=width == 64))
    target = random_.choice((None, 100, 20_000))
    how = {"bitmap64": width == 64, **({} if target is None else {"target": target})}
    mine = written(vectors, width, target)
    assert mine == written_by_engine(engine, tmp_path / "engine", vectors, **how)
    for file in mine:
        expected = {name: vectors[name] for name, *_ in file.ranges}
        assert found_by_engine(engine, tmp_path / "ours", file) == {"sequential": expected, "seeking": expected}


LIMITS: dict[str, list[int]] = {
    "end of a span": [65_535],
    "start of a span": [65_536],
    "both": [65_535, 65_536],
    "largest array": list(range(0, 8_192, 2)),
    "smallest bits": list(range(0, 8_194, 2)),
    "all rows but one": list(range(65_535)),
    "all rows": list(range(65_536)),
    "one row more": list(range(65_537)),
    "runs as large as bits": [row for first in range(0, 65_536, 32) for row in range(first, first + 31)],
    "runs as large as an array": [row for first in range(0, 8_188, 4) for row in range(first, first + 2)],
    "three containers of runs": [(key << 16) + row for key in range(3) for row in range(9)],
    "four containers of runs": [(key << 16) + row for key in range(4) for row in range(9)],
    "largest position": list(range((1 << 31) - 70_000, 1 << 31)),
    "none": [],
}


@pytest.mark.parametrize("width", [32, 64])
def test_limits_of_containers(engine: Engine, tmp_path: Path, width: Width) -> None:
    """The same bytes where an array, bits and runs take turns, and at both ends of a container."""
    far = {"gaps": [5, 1 << 33, (1 << 34) + 65_535, (1 << 35) - 1, 1 << 35]} if width == 64 else {}
    vectors = LIMITS | far
    (file,) = written(vectors, width, None)
    assert [file] == written_by_engine(engine, tmp_path / "engine", vectors, bitmap64=width == 64)
    assert found_by_engine(engine, tmp_path / "ours", file) == {"sequential": vectors, "seeking": vectors}


def test_two_widths_in_one_file(engine: Engine, tmp_path: Path) -> None:
    """As in a bucket after `deletion-vectors.bitmap64` was switched."""
    vectors = {"A": [1, 2], "B": [3], "C": [1 << 33], "D": [4, 5]}
    widths: dict[str, Width] = {"A": 64, "B": 32, "C": 64, "D": 32}
    (file,) = write_index_files(((name, vector_of(rows, widths[name])) for name, rows in vectors.items()), None)
    assert found_by_engine(engine, tmp_path, file) == {"sequential": vectors, "seeking": vectors}


def test_the_readers_differ_where_the_order_is_wrong(engine: Engine, tmp_path: Path) -> None:
    """The sequential reader takes one vector for another, which shows that the test before can fail."""
    (file,) = written({"A": [1], "B": [2]}, 32, None)
    swapped = IndexFileBytes(file.body, file.ranges[::-1])
    assert found_by_engine(engine, tmp_path, swapped) == {
        "sequential": {"A": [2], "B": [1]},
        "seeking": {"A": [1], "B": [2]},
    }


def test_a_bucket_without_vectors(engine: Engine, tmp_path: Path) -> None:
    """One byte, and no vector."""
    assert written({}, 32, None) == written_by_engine(engine, tmp_path, {})


UNAWARE = {"bucket": "-1", "deletion-vector.index-file.target-size": "60 b"}
KEYED = {"bucket": "2"}


@pytest.mark.parametrize("bitmap64", ["false", "true"])
@pytest.mark.parametrize("beside", ["false", "true"])
@pytest.mark.parametrize("kind", ["unaware", "keyed"])
def test_tables_of_the_engine(engine: Engine, kind: str, beside: str, bitmap64: str) -> None:
    """`files --positions` finds the rows that the engine's readers find, in both places of index files."""
    table = f"vectors.{kind}_{beside}_{bitmap64}"
    options = {
        **RETAIN_EVERYTHING,
        **(UNAWARE if kind == "unaware" else KEYED),
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": bitmap64,
        "index-file-in-data-file-dir": beside,
    }
    columns = [["dt", "STRING"], ["id", "INT"], ["v", "STRING"]]
    keys = ["dt", "id"] if kind == "keyed" else []
    engine("create", table=table, columns=columns, primary_keys=keys, partition_keys=["dt"], options=options)
    parts = [["2026-01-01"], ["2026-01-02"]]
    for seed in range(3):  # later rows of a key mark the row of the first commit, which lies deeper
        compact = kind == "keyed" and seed == 0
        engine("write", table=table, n=40, seed=seed, keys=[0, 60], parts=parts, compact=compact)
    if kind == "unaware":
        engine("dv_delete", table=table, n=5)
        engine("dv_delete", table=table, n=7)
    expected: dict[str, list[int]] = {}
    for _, _, found in engine("dv_dump", table=table):
        assert found["sequential"] == found["seeking"]
        expected |= found["seeking"]
    assert expected
    location = str(engine.location(table))
    store = LocalStore(location)
    opened = Table(TableRef(location, "main"), store, None, LocalStore)
    files: Any = list_files(opened, Version(), with_positions=True).to_json()["files"]
    vectors = {each["path"].rpartition("/")[2]: each["deletion_vector"] for each in files if each["deletion_vector"]}
    assert {name: vector["positions"] for name, vector in vectors.items()} == expected
    width = 64 if bitmap64 == "true" else 32
    assert {vector["width"] for vector in vectors.values()} == {width}
    for vector in vectors.values():
        assert vector["index_file"].startswith("dt=" if beside == "true" else "index/")
        assert vector["cardinality"] == len(vector["positions"])
    plain: Any = list_files(opened, Version(), with_vectors=True).to_json()["files"]
    assert {each["deletion_vector"]["width"] for each in plain if each["deletion_vector"]} == {width}
