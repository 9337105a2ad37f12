"""Random histories of branches and rollbacks, each step of them done by the engine and by Lakesweep.

`LAKESWEEP_BRANCH_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.differential.branch_case import run_branch_history
from tests.differential.engine import Engine
from tests.differential.files import Listing, listing
from tests.differential.judged_step import engine_as_maintainer
from tests.differential.ours import Answer, operate
from tests.differential.tag_steps import Step
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_BRANCH_HISTORIES") or 6)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED")
UNDONE = ("rollback", "fast-forward", "create-branch", "delete-branch")
HARMLESS = 4
"""A seed of whose table the engine breaks nothing, so it agrees with itself."""


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("branches")


def act(location: Path, step: Step, control: Path) -> Answer:
    """Let Lakesweep do a step."""
    return operate(location, step.operation, step.ours or {}, branch=step.branch, control=control)


def act_twice(location: Path, step: Step, control: Path) -> Answer:
    """Let Lakesweep do a step; what moves a branch it does, takes back and does again."""
    before = listing(location)
    answer = act(location, step, control)
    if step.name not in UNDONE or answer.exit_code or answer.document["status"] != "done":
        return answer
    words = {"run_id": answer.document["run_id"]}
    undone = operate(location, "undo", words, branch=step.branch, control=control)
    assert undone.exit_code == 0, (step, undone)
    after = listing(location)
    assert _without_locks(after) == _without_locks(before), step
    return act(location, step, control)


def _without_locks(found: Listing) -> tuple[set[str], Mapping[str, str]]:
    return {path for path in found.paths if not path.endswith(".lakesweep.lock")}, found.hints


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_same_branches_survive(
    engine: Engine, record_property: Callable[[str, object], None], work: Path, seed: int
) -> None:
    verdict = run_branch_history(engine, work, seed, act_twice if seed % 2 else act)
    record_property("branches", verdict.summary())
    assert not verdict.problems, str(verdict)


def test_the_engine_agrees_with_itself(engine: Engine, tmp_path: Path) -> None:
    """The comparison is silent where nothing differs."""
    verdict = run_branch_history(engine, tmp_path, HARMLESS, engine_as_maintainer(engine), "itself")
    assert not verdict.problems, str(verdict)
    assert not verdict.explained


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("snapshot", "only the engine has snapshot/snapshot-"),
        ("data", "LOST: "),
        ("hint", "snapshot/LATEST says '77'"),
        ("schema", "schema/schema-0 differs"),
    ],
)
def test_harm_is_noticed(engine: Engine, tmp_path: Path, harm: str, problem: str) -> None:
    """A snapshot too few, files that went, a hint that says something else, a schema with another byte in it."""
    theirs = engine_as_maintainer(engine)

    def act_and_harm(location: Path, step: Step, control: Path) -> Answer:
        answer = theirs(location, step, control)
        if step.name != "rollback" or answer.exit_code:
            return answer
        match harm:
            case "snapshot":
                min((location / "snapshot").glob("snapshot-*")).unlink()
            case "data":
                for path in location.glob("p=*/bucket-*/data-*"):
                    path.unlink()
            case "hint":
                (location / "snapshot" / "LATEST").write_text("77")
            case _:
                schema = location / "schema" / "schema-0"
                schema.write_text(schema.read_text() + "\n")
        return answer

    found: list[str] = []
    for seed in range(HARMLESS, HARMLESS + 5):
        found = run_branch_history(engine, tmp_path, seed, act_and_harm, harm).problems
        if found:
            break
    assert any(problem in text for text in found), found
