"""What would take a tag of a rollback as latest away while Paimon's expiry still goes by it."""

import pytest

from tests.unit.operations.branches.as_latest_world import AsLatestWorld

NEEDED = "belongs to a rollback as latest"


def test_the_deletion_of_a_tag_that_is_needed_says_so() -> None:
    world = AsLatestWorld()
    world.back()
    first, second = world.tags()
    for tags in ([first], [second], [first, second]):
        warnings = world.run("delete-tag", tag=tags, execute=False).all_warnings()
        assert [tag for tag in tags if any(f"tag {tag} {NEEDED}" in warning for warning in warnings)] == tags
        assert "from before snapshot 4 is left; there are 3, such as snapshot 1" in warnings[0]


def test_once_nothing_from_before_is_left_it_may_go() -> None:
    world = AsLatestWorld()
    world.back()
    first, second = world.tags()
    world.now_ms += 7_200_000
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    assert world.run("delete-tag", tag=[first], execute=False).all_warnings() == ()
    world.run("create-tag", tag="theirs", from_tag=first, status="done")
    (warning,) = world.run("delete-tag", tag=[second], execute=False).all_warnings()
    assert "there are 1, such as tag theirs" in warning
    assert world.run("delete-tag", tag=[first, second, "theirs"], execute=False).all_warnings() == ()


def test_another_name_or_another_snapshot_of_a_tag_is_warned_of() -> None:
    world = AsLatestWorld()
    world.back()
    first, second = world.tags()
    for operation, words in (("rename-tag", {"target_tag": "t"}), ("replace-tag", {"snapshot": 3})):
        report = world.run(operation, tag=second, execute=False, **words)
        assert [NEEDED in warning for warning in report.all_warnings()].count(True) == 1
    (warning,) = world.run("replace-tag", tag=first, snapshot=1, execute=False).all_warnings()
    assert NEEDED not in warning


def test_of_a_tag_of_another_engine_nobody_knows_the_commit() -> None:
    world = AsLatestWorld()
    world.table.tag("rollback-to-as-latest-1-4d0ec9c2-6b43-4a9e-9d3b-0a0a0a0a0a0a", snapshot=1)
    (warning,) = world.run("delete-tag", tag=world.tags(), execute=False).all_warnings()
    assert "other tag is left; there are 3, such as snapshot 1" in warning


def test_a_fast_forward_that_would_delete_the_second_tag_is_refused() -> None:
    """The branch was made from another tag of that snapshot, as in Paimon's fast-forward, which deletes the tag."""
    world = AsLatestWorld()
    world.back()
    first, second = world.tags()
    world.run("create-tag", tag="theirs", snapshot=4, status="done")
    world.run("create-branch", branch="b", tag="theirs", status="done")
    code, sentence = world.refusal("fast-forward", branch="b")
    assert (code, f"'{second}' (it keeps files" in sentence) == ("tag_protected", True)
    assert world.run("fast-forward", branch="b", lose_tag=[second]).status == "done"
    assert world.tags() == [first, "theirs"]


@pytest.mark.parametrize("source", ["the second tag", "the target", "a later snapshot"])
def test_other_fast_forwards_delete_no_tag_that_is_needed(source: str) -> None:
    world = AsLatestWorld()
    world.run("create-tag", tag="old", snapshot=1, status="done")
    world.back()
    _, first, second = world.tags()
    world.commit_the_same()
    world.run("create-tag", tag="later", snapshot=5, status="done")
    tag = {"the second tag": second, "the target": "old"}.get(source, "later")
    world.run("create-branch", branch="b", tag=tag, status="done")
    world.commit_the_same()
    assert world.run("fast-forward", branch="b").status == "done"
    assert world.tags() == (["old"] if tag == "old" else sorted({tag, "old", first, second}))


def test_a_new_branch_may_have_what_came_back() -> None:
    """A tag of main lies between, which Paimon's expiry of the branch asks."""
    world = AsLatestWorld()
    world.back()
    first, second = world.tags()

    def warned(tag: str) -> bool:
        report = world.run("create-branch", branch="b", tag=tag, execute=False)
        return any("let Lakesweep alone expire branch 'b'" in warning for warning in report.all_warnings())

    assert not warned(first), "no tag lies between"
    world.run("create-tag", tag="between", snapshot=3, status="done")
    assert (warned(first), warned("between"), warned(second)) == (True, False, False)
