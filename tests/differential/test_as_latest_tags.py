"""Why the second tag of a rollback as latest has to stay, and who may take it away: the engine's expiry tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.differential.as_latest_case import by_ours
from tests.differential.engine import Engine
from tests.differential.ours import Answer, operate
from tests.differential.stage import Stage

pytestmark = pytest.mark.differential

PREFIX = "rollback-to-as-latest-"


def rolled_back(stage: Stage) -> Answer:
    """Commit an older version on top, or again what is the newest."""
    answer = by_ours(stage.location, {"snapshot": "2"}, "main", stage.work / "control" / stage.name)
    assert answer.exit_code == 0, answer
    return answer


def begun(engine: Engine, work: Path, name: str) -> Stage:
    """Snapshot 3 takes a file out, a tag is made there, and snapshot 4 takes the file back."""
    stage = Stage(engine, work, name)
    stage.create()
    stage.add("a")
    stage.add("b")
    stage.replace("a")
    stage("tag", name="between", snapshot=3)
    rolled_back(stage)
    return stage


def tags(stage: Stage) -> list[str]:
    """Return the names of the tags of rollbacks."""
    return sorted(path.name.removeprefix("tag-") for path in (stage.location / "tag").glob(f"tag-{PREFIX}*"))


def broken(stage: Stage) -> set[str]:
    """Return the versions that the engine cannot read."""
    found: Mapping[str, object] = stage.read()
    return {version for version, rows in found.items() if isinstance(rows, str)}


def outlived(stage: Stage) -> set[str]:
    """Let the file leave again and let the engine expire; return what it cannot read then."""
    stage.replace("a")
    stage.add("c")
    stage.expire(retain_max=1, retain_min=1)
    return broken(stage)


def test_the_second_tag_of_a_dead_run(engine: Engine, tmp_path: Path) -> None:
    """Without it the engine breaks the first one; the same call makes it."""
    stage = begun(engine, tmp_path, "dead")
    first, second = tags(stage)
    (stage.location / "tag" / f"tag-{second}").unlink()
    without = stage.copy("_without")
    assert rolled_back(stage).document["status"] == "nothing_to_do"
    assert tags(stage) == [first, second]
    assert (outlived(without), outlived(stage)) == ({f"main/tag-{first}"}, set())


def test_a_fast_forward_of_the_engine_deletes_the_second_tag(engine: Engine, tmp_path: Path) -> None:
    """The branch was made from another tag of its snapshot. Without the tag the engine's expiry breaks the first."""
    stage = begun(engine, tmp_path, "forward")
    first, second = tags(stage)
    stage("tag", name="theirs", snapshot=4)
    stage("branch", name="b", tag="theirs")
    control = tmp_path / "control" / "forward"
    answer = operate(stage.location, "fast-forward", {"branch": "b"}, branch="main", control=control)
    assert (answer.document["refusal"]["code"], tags(stage)) == ("tag_protected", [first, second])
    stage("branch", op="fast_forward", name="b")
    assert tags(stage) == [first]
    for what in ("tag", "branch"):
        stage(what, op="delete", name={"tag": "theirs", "branch": "b"}[what])
    without = stage.copy("_without")
    stage("tag", name=second, snapshot=4)
    assert f"main/tag-{first}" in outlived(without)
    assert outlived(stage) == set()


def test_a_fast_forward_to_a_branch_of_the_second_tag_keeps_it(engine: Engine, tmp_path: Path) -> None:
    stage = begun(engine, tmp_path, "kept")
    first, second = tags(stage)
    stage("branch", name="b", tag=second)
    stage.add("c", branch="b")
    stage("branch", op="fast_forward", name="b")
    assert tags(stage) == [first, second]


@pytest.mark.parametrize("has_tag", [True, False])
def test_a_branch_that_has_what_comes_back(engine: Engine, tmp_path: Path, has_tag: bool) -> None:
    """Its expiry asks the last tag of main below the id at which it deletes the file, by the ids of the branch."""
    stage = Stage(engine, tmp_path, f"branch_{has_tag}".lower())
    stage.create()
    stage.add("a")
    stage("tag", name="v", snapshot=1)
    stage("branch", name="b", tag="v")
    stage.add("c", branch="b")
    stage.replace("a")
    if has_tag:
        stage("tag", name="between", snapshot=2)
    control = tmp_path / "control" / stage.name
    answer = by_ours(stage.location, {"snapshot": "1"}, "main", control)
    if has_tag:
        assert answer.document["refusal"]["code"] == "shared_files"
        with patch("lakesweep.operations.branches.rules.lives.Lives.unsafe_on_branch", lambda *_: False):
            answer = by_ours(stage.location, {"snapshot": "1"}, "main", control)
    assert answer.exit_code == 0, answer
    stage.replace("a", branch="b")
    stage.add("c", branch="b")
    stage.expire(retain_max=1, retain_min=1, branch="b")
    assert ("main/snapshot-3" in broken(stage)) is has_tag


def test_a_branch_that_is_made_of_a_version_before(engine: Engine, tmp_path: Path) -> None:
    """The same as if it had been there before: the engine's expiry of the branch takes what main took back."""
    stage = begun(engine, tmp_path, "after")
    stage("branch", name="b", tag=tags(stage)[0])
    stage.add("c", branch="b")
    stage.replace("a", branch="b")
    stage.add("c", branch="b")
    stage.expire(retain_max=1, retain_min=1, branch="b")
    assert "main/snapshot-4" in broken(stage)
