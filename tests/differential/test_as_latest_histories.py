"""Random histories with rollbacks as latest: the engine writes, expires and deletes tags around them.

`LAKESWEEP_COMMIT_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from lakesweep.storage.local.store import LocalStore
from tests.differential.as_latest_case import PREFIX, History
from tests.differential.commit_model import Contents
from tests.differential.engine import Engine
from tests.differential.ours import Answer
from tests.differential.writing import branch_root, snapshot_ids
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
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


class Dying(History):
    """A run dies at any request; then others go on, and the same call or another one follows."""

    def _draw_target(self) -> tuple[dict[str, object], Contents]:
        words, expected = super()._draw_target()
        root = branch_root(self.location, self.kind.branch)
        before = snapshot_ids(root)
        self._die(words)
        for tag in self._tags():
            self.model.tagged.setdefault(tag, self.deleted.get(tag, expected))
        if snapshot_ids(root) != before:
            self.verdict.facts["died after the commit"] += 1
            newest = max(snapshot_ids(root))
            self.model.contents = expected
            self.model.committed(newest)
            user = json.loads((root / "snapshot" / f"snapshot-{newest}").read_text())["commitUser"]
            run_id = user.removeprefix("lakesweep-").rpartition("-")[0]
            self.deleted[f"{PREFIX}{newest}-{run_id}"] = expected  # if the next call makes it
            self.writers.put(self.writers._some())
        return super()._draw_target()

    def _die(self, words: Mapping[str, object]) -> None:
        """Roll back, and let the process end before or after some request, most often near the commit."""
        switch = Switch(self.random.randint(30, 90), self.random.choice(["death", "death_after"]))
        stores = (FaultyStore(LocalStore(str(each)), switch, str(each)) for each in (self.location, self.control))
        self.control.mkdir(parents=True, exist_ok=True)
        maintainer = Maintainer(next(stores), self.kind.branch, control=next(stores))
        given = {name: int(str(value)) if name == "snapshot" else value for name, value in words.items()}
        self.writers.done.append(f"ROLLBACK AS LATEST {words}, which dies at request {switch.at}")
        with suppress(ProcessDeathError), patch("lakesweep.commit.loop.SEEN_AGAIN_S", 0.0):
            maintainer.run("rollback", as_latest=True, catalog_type="filesystem", catalog_lock=True, **given)
        for path in self.control.glob("tables/*/lease.json"):  # time passes
            path.write_text(json.dumps({**json.loads(path.read_text()), "expires_at_ms": 0}))


@pytest.mark.parametrize("seed", [2003, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3000, 3030))])
def test_the_engine_goes_on_after_runs_that_died(engine: Engine, tmp_path: Path, seed: int) -> None:
    verdict = Dying(engine, tmp_path, seed).run()
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
