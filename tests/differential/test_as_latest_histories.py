"""Random histories with rollbacks as latest: the engine writes, expires and deletes tags around them.

`LAKESWEEP_COMMIT_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.as_latest_case import History
from tests.differential.engine import Engine
from tests.differential.ours import Answer
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_COMMIT_HISTORIES") or 2)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 364)
"""In the first two, files and vectors of primary-key tables come back, and the engine expires nine times."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_engine_goes_on_after_rollbacks_as_latest(
    engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int
) -> None:
    verdict = History(engine, tmp_path, seed).run()
    record_property("as latest", verdict.summary())
    assert not verdict.problems, str(verdict)


class Careless(History):
    """The tags that Lakesweep makes are deleted at once."""

    def _look(self, answer: Answer) -> None:
        for tag in answer.document["commits"]["kept_by"]:
            (self.location / "tag" / f"tag-{tag}").unlink()
            del self.model.tagged[tag]


def test_without_its_tags_the_engine_deletes_live_files(engine: Engine, tmp_path: Path) -> None:
    """The judges notice it: these are the histories in which the tags matter."""
    verdict = Careless(engine, tmp_path, 319).run()
    assert [problem for problem in verdict.problems if "cannot be read" in problem]
