"""Random histories of commits: Lakesweep drops and expires partitions, and the engine goes on.

`LAKESWEEP_COMMIT_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.commit_acts import Act, by_engine, by_ours, engine_as_maintainer, state_of
from tests.differential.commit_case import run_commit_history
from tests.differential.commit_tables import Kind
from tests.differential.engine import Engine
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_COMMIT_HISTORIES") or 3)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 956)
"""The first three expire by patterns, meet a comma, and drop nulls and parts of nested keys."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_engine_goes_on_after_our_commits(
    engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int
) -> None:
    verdict = run_commit_history(engine, tmp_path, seed, by_ours)
    record_property("commits", verdict.summary())
    assert not verdict.problems, str(verdict)


def test_the_engine_agrees_with_itself(engine: Engine, tmp_path: Path) -> None:
    """The judges are silent where nothing differs."""
    verdict = run_commit_history(engine, tmp_path, 20260103, engine_as_maintainer(engine), "itself")
    assert not verdict.problems, str(verdict)


@pytest.mark.parametrize("bucket", ["-2", "2"])
def test_files_that_wait_for_their_bucket(engine: Engine, tmp_path: Path, bucket: str) -> None:
    """They go with their partition only where the table's buckets are all postponed."""
    kind = Kind("primary key", (("p", "STRING"),), (("a",), ("b",)), {"bucket": "-2"}, None)
    act = Act("drop-partition", ({"p": "a"},))
    table, copy = f"d.postponed{bucket}", f"d.postponed{bucket}e"
    engine("create", table=table, **kind.create)
    engine("put", table=table, rows=[["a", "1", "x"], ["b", "1", "x"]])
    location = engine.location(table)
    schema = location / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"bucket" : "-2"', f'"bucket" : "{bucket}"'))
    engine("put", table=table, rows=[["a", "2", "y"], ["b", "2", "y"]])
    shutil.copytree(location, engine.location(copy))
    by_engine(engine, copy, kind, act)

    answer = by_ours(location, kind, act, tmp_path / "control")

    assert answer.exit_code == 0, answer
    left = state_of(engine("live", table=table)).files
    assert left == state_of(engine("live", table=copy)).files
    of_a = {number for partition, number, *_ in left if partition == ("a",)}
    assert of_a == (set() if bucket == "-2" else {-2})
    engine("put", table=table, rows=[["a", "3", "z"]], overwrite=True)
    assert not engine("judge", table=table)["wrong"]
