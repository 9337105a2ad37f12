"""A Python worker does not read the directories of archives again before each task, or look at modules for garbage."""

import gc
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from lakesweep.spark.archives import forget_archives
from lakesweep.spark.tasks import Access, Row, Task, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_imports_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in an archive is found again, also in a package that was imported before."""
    archive = tmp_path / "packed.zip"
    with ZipFile(archive, "w") as packed:
        for name in ("packed_one/__init__", "packed_one/first", "packed_one/second", "packed_two"):
            packed.writestr(f"{name}.py", "VALUE = 1\n")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("packed_one.first")
    assert any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    forget_archives()
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    importlib.invalidate_caches()
    for name in ("packed_one.second", "packed_two"):
        assert importlib.import_module(name).VALUE == 1


def known(task: Task, piece: Row) -> list[Row]:
    """Return, within a task, how many archives the import system knows, and how many objects stay."""
    archives = sum(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    return [{"archives": archives, "kept": gc.get_freeze_count()}]


def test_workers_of_spark(spark: "SparkSession", tmp_path: Path) -> None:
    """After the first task of a worker it forgets the packages of pyspark's own archive, and keeps what is loaded."""
    found = []
    for _ in range(3):
        found += [row for row in run_tasks(spark, Access(str(tmp_path), ""), known, [{}]) if "archives" in row]
    assert found[-1]["archives"] <= 2, found
    assert found[-1]["kept"] > 10_000, found
