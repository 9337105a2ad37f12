"""What the engine loses and Lakesweep keeps: histories in which the engine's own expiry breaks a version that stays.

Each table is written by the engine and copied. On copy A the engine acts, on copy B Lakesweep does, called alike; then
the engine reads every version of both. A version counts when its document is there after Lakesweep's run: the retention
keeps it. Every test holds the row of `docs/safety.md` that tells of it against what it saw.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.engine import Engine
from tests.differential.stage import Losses, Stage

pytestmark = pytest.mark.differential

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "safety.md"


@pytest.fixture
def stage(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    return Stage(engine, tmp_path, request.node.name.removeprefix("test_"))


def check(losses: Losses, case: str, expected: int) -> None:
    """Ours lost nothing, the engine as many as expected, and the documentation says so."""
    lost, kept = len(losses.by_engine), len(losses.kept)
    print(f"{case}: engine loses {lost} of {kept} versions, ours keeps all")
    assert not losses.by_ours, {version: losses.after_ours[version] for version in losses.by_ours}
    for version in losses.by_engine:
        found = losses.after_engine[version]
        assert found.startswith("failed: ") if isinstance(found, str) else not found["rows"], f"{version}: {found}"
    assert (lost, kept) == (expected, kept), dict(losses.after_engine)
    row = f"| {case} | {lost} of {kept} | 0 of {kept} |"
    assert row in DOCUMENTATION.read_text().splitlines(), f"docs/safety.md lacks: {row}"


def test_hint_ahead(stage: Stage) -> None:
    """The engine counts from the hint, finds every snapshot too old, deletes data and keeps all documents."""
    stage.create()
    for _ in range(8):
        stage.replace("a")
    (stage.location / "snapshot" / "LATEST").write_text("9999")
    losses = stage.lose(retain_max=3, retain_min=3)
    check(losses, "`LATEST` says 9999, the newest of 8 snapshots is 8; expire to 3", 2)


def test_hint_behind(stage: Stage) -> None:
    """The engine does not trust a hint that names a snapshot with a successor."""
    stage.create()
    for _ in range(8):
        stage.replace("a")
    (stage.location / "snapshot" / "LATEST").write_text("5")
    losses = stage.lose(retain_max=3, retain_min=3)
    check(losses, "`LATEST` says 5, the newest of 8 snapshots is 8; expire to 3", 0)


def test_earliest_ahead(stage: Stage) -> None:
    """The engine starts at the hint: the older snapshots stay for ever, and lose files that it deletes nonetheless."""
    stage.create()
    for _ in range(8):
        stage.replace("a")
    (stage.location / "snapshot" / "EARLIEST").write_text("4")
    losses = stage.lose(retain_max=3, retain_min=3)
    assert (stage.location.with_name(f"{stage.name}_a") / "snapshot" / "snapshot-1").exists()
    assert not (stage.location.with_name(f"{stage.name}_b") / "snapshot" / "snapshot-1").exists()
    check(losses, "`EARLIEST` says 4, the oldest of 8 snapshots is 1; expire to 3", 0)


def test_tag_only_on_branch(stage: Stage) -> None:
    """The engine asks main's tags whatever branch it expires."""
    stage.create()
    stage.replace("a")
    stage("tag", name="t")
    stage("branch", name="b", tag="t")
    stage.replace("a", branch="b")
    stage("tag", name="on_branch", branch="b")
    for _ in range(3):
        stage.replace("a", branch="b")
    losses = stage.lose(branch="b", retain_max=1, retain_min=1)
    check(losses, "A tag exists only on a branch; the branch expires", 1)


def test_branch_without_its_tag(stage: Stage) -> None:
    """The engine's expiry of main does not see that a branch began there."""
    stage.create()
    stage.add("a")
    stage.add("b")
    stage("tag", name="t")
    stage("branch", name="b", tag="t")
    stage.add("c", branch="b")
    stage("tag", op="delete", name="t")
    stage.replace("a")
    stage.replace("b")
    losses = stage.lose(retain_max=1, retain_min=1)
    check(losses, "A branch was made from a tag of main, then that tag was deleted; main expires", 3)


def test_fast_forwarded_branch(stage: Stage) -> None:
    """After a fast-forward main and the branch have copies of the same snapshots; either one's expiry breaks both."""
    stage.create()
    stage.add("a")
    stage("tag", name="t")
    stage("branch", name="b", tag="t")
    stage.replace("a", branch="b")
    stage.replace("a", branch="b")
    stage("branch", op="fast_forward", name="b")
    stage("tag", op="delete", name="t")
    stage.replace("a")
    losses = stage.lose(retain_max=1, retain_min=1)
    check(losses, "Main was fast-forwarded to a branch whose tag was deleted; main expires", 4)


def test_rollback_as_latest_without_its_tag(stage: Stage) -> None:
    """The delta that deleted the file is in the range, and no tag of an earlier snapshot objects."""
    stage.create()
    stage.add("a")
    stage.add("b")
    stage.replace("a")
    stage("rollback_as_latest", to=2)
    stage.add("c")
    losses = stage.lose(retain_max=2, retain_min=2)
    check(losses, "A rollback as latest brought a deleted file back, its tag was deleted; main expires", 2)


def test_rollback_as_latest_with_a_tag_in_between(stage: Stage) -> None:
    """The engine asks only the tag nearest below the second delete, which is the wrong one."""
    stage.create()
    stage.add("a")
    stage.add("b")
    stage("tag", name="rb", snapshot=2)
    stage.replace("a")
    stage.add("c")
    stage("tag", name="user", snapshot=4)
    stage("rollback_as_latest", to=2)
    stage.replace("a")
    stage.add("d")
    losses = stage.lose(retain_max=1, retain_min=1)
    check(losses, "A file that a rollback as latest brought back is deleted again, past a second tag; main expires", 1)


def test_tag_of_a_rollback_as_latest_deleted_after_expiry(stage: Stage) -> None:
    """The engine deletes what neither the older tag nor the oldest snapshot holds; newer snapshots hold it again.

    Lakesweep has no tag deletion to compare yet: on its side the tag's document goes and it expires once more.
    """
    stage.create()
    stage.add("a")
    stage.add("b")
    stage("tag", name="rb", snapshot=2)
    stage.replace("a")
    stage.add("c")
    stage.add("d")
    stage("rollback_as_latest", to=2)
    stage.add("e")

    def engines(copy: Stage) -> None:
        copy.expire(retain_max=4, retain_min=4)
        copy("tag", op="delete", name="rb")

    def ours(copy: Stage) -> None:
        copy.expire_ours(retain_max=4, retain_min=4)
        copy.delete_tag_ours("rb")

    losses = stage.act(engines, ours)
    check(losses, "A rollback as latest, and its tag is deleted after the tagged snapshot has expired", 2)


def test_index_of_a_rollback_as_latest(stage: Stage) -> None:
    """The engine's second run asks only the tag below its range, and that one has other deletion vectors."""
    stage.create(**{"deletion-vectors.enabled": "true"})
    stage.add("a")
    stage("dv_delete", n=1)
    stage("tag", name="t1", snapshot=2)
    stage("dv_delete", n=2)
    stage("dv_delete", n=3)
    stage("tag", name="t3", snapshot=4)
    stage("rollback_as_latest", to=2)
    stage("dv_delete", n=4)

    def engines(copy: Stage) -> None:
        copy.expire(retain_max=2, retain_min=2)
        copy.expire(retain_max=1, retain_min=1)

    def ours(copy: Stage) -> None:
        copy.expire_ours(retain_max=2, retain_min=2)
        copy.expire_ours(retain_max=1, retain_min=1)

    losses = stage.act(engines, ours)
    check(losses, "A rollback as latest brought deletion vectors back, past a second tag; main expires twice", 1)


def test_manual_expiry_of_a_decoupled_table(stage: Stage) -> None:
    """The engine's procedure does not know that changelogs outlive snapshots here, and makes a hole.

    A streaming reader that comes to the hole gets nothing, and no error either.
    """
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    options |= {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "6", "snapshot.time-retained": "1 ms"}
    options |= {"changelog.num-retained.min": "1", "changelog.num-retained.max": "50"}
    options |= {"changelog.time-retained": "1000 d"}
    columns = [["k", "INT"], ["v", "STRING"]]
    stage("create", columns=columns, primary_keys=["k"], options=options)
    for number in range(8):
        stage("write", n=5, seed=number + 1, keys=[number * 100, number * 100 + 90])
    stage("expire", via="commit", options={"snapshot.num-retained.min": "6"})
    assert sorted(path.name for path in (stage.location / "changelog").glob("changelog-*")) == [
        "changelog-1",
        "changelog-2",
    ]

    losses = stage.lose(retain_max=3, retain_min=3, read=lambda copy: copy.read_changes(8))
    check(losses, "Changelogs outlive snapshots by the table's options; `expire-snapshots` is called by hand", 3)


def test_tag_deleted_while_its_changes_are_kept(stage: Stage) -> None:
    """Without a changelog producer the changes of a commit are the files it added; the tag takes them along.

    As in F15 the tag's document goes on our side, and then it expires once more.
    """
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "write-only": "true"}
    options |= {"changelog.num-retained.min": "1", "changelog.num-retained.max": "50"}
    options |= {"changelog.time-retained": "1000 d"}
    stage.create(**options)
    for number in range(1, 4):
        stage.replace("a") if number == 2 else stage.add("a")
        if number == 1:
            stage("tag", name="t")
    stage("expire", via="commit", options={"snapshot.time-retained": "1 ms"})
    assert [path.name for path in (stage.location / "snapshot").glob("snapshot-*")] == ["snapshot-3"]

    def engines(copy: Stage) -> None:
        copy("tag", op="delete", name="t")

    def ours(copy: Stage) -> None:
        copy.delete_tag_ours("t")

    losses = stage.act(engines, ours, read=lambda copy: copy.read_changes(3))
    check(losses, "Changelogs outlive snapshots, and a tag is deleted whose snapshot is a changelog by now", 1)


def test_tag_deleted_that_a_branch_began_with(stage: Stage) -> None:
    """The engine's deletion of a tag asks the neighbours on main, and no branch."""
    stage.create()
    stage.add("a")
    stage.add("b")
    stage("tag", name="t")
    stage("branch", name="b", tag="t")
    stage.add("c", branch="b")
    stage.replace("a")
    stage.replace("b")
    stage.expire(retain_max=1, retain_min=1)
    losses = stage.act(lambda copy: copy("tag", op="delete", name="t"), lambda copy: copy.delete_tag_ours("t"))
    check(losses, "A branch was made from a tag, its snapshot expired on main, then the tag is deleted", 3)
