"""Random histories of tags, each step of them done by the engine and by Lakesweep.

`LAKESWEEP_TAG_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.engine import Engine
from tests.differential.judged_step import engine_as_maintainer
from tests.differential.ours import Answer, operate
from tests.differential.tag_case import run_tag_history
from tests.differential.tag_steps import Step
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_TAG_HISTORIES") or 4)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED")
WITHOUT_BRANCHES = 20260102
"""A seed whose table has none: there the engine agrees with itself."""


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tags")


def act(location: Path, step: Step, control: Path) -> Answer:
    """Let Lakesweep do a step."""
    return operate(location, step.operation, step.ours or {}, branch=step.branch, control=control)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_same_tags_survive(
    engine: Engine, record_property: Callable[[str, object], None], work: Path, seed: int
) -> None:
    verdict = run_tag_history(engine, work, seed, act)
    record_property("tags", verdict.summary())
    assert not verdict.problems, str(verdict)


def test_the_engine_agrees_with_itself(engine: Engine, tmp_path: Path) -> None:
    """The comparison is silent where nothing differs."""
    verdict = run_tag_history(engine, tmp_path, WITHOUT_BRANCHES, engine_as_maintainer(engine), "itself")
    assert not verdict.problems, str(verdict)
    assert not verdict.explained


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("tag", "only the engine has tag/tag-"),
        ("data", "LOST: "),
        ("document", "differs:"),
    ],
)
def test_harm_is_noticed(engine: Engine, tmp_path: Path, harm: str, problem: str) -> None:
    """A tag that is missing, files that went, a document with another word in it."""
    theirs = engine_as_maintainer(engine)

    def act_and_harm(location: Path, step: Step, control: Path) -> Answer:
        answer = theirs(location, step, control)
        tags = [path for path in sorted((location / "tag").glob("tag-*")) if path.is_file()]
        if harm == "tag" and tags:
            tags[0].unlink()
        if harm == "data" and step.name == "delete":
            for path in location.glob("p=*/bucket-*/data-*"):  # any single one may be needed by nothing any more
                path.unlink()
        if harm == "document" and tags:
            tags[0].write_text(tags[0].read_text().replace('"version" : 3', '"version" :  3'))
        return answer

    found: list[str] = []
    for seed in range(WITHOUT_BRANCHES, WITHOUT_BRANCHES + 5):
        found = run_tag_history(engine, tmp_path, seed, act_and_harm, harm).problems
        if found:
            break
    assert any(problem in text for text in found), found
