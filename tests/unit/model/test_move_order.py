"""The order of a plan that moves a branch, and what its actions have to say."""

from dataclasses import replace

import pytest

from lakesweep.model.plan import Action, Delete, Put, branch_of, content_hash, order_problem

HINT = Put("point", "hint", "snapshot/LATEST", "5", "why", etag="e", former="7")
SEVEN = Delete("withdraw", "snapshot", "snapshot/snapshot-7", 2, "why", "e7", body="{}")
SIX = Delete("withdraw", "snapshot", "snapshot/snapshot-6", 2, "why", "e6", body="{}")
TAG = Delete("withdraw_tags", "tag", "tag/tag-t", 2, "why", "et", body="{}")
NEW = Put("publish", "snapshot", "snapshot/snapshot-6", "{}", "why", if_absent=True)
OVER = Put("replace", "snapshot", "snapshot/snapshot-5", "{}", "why", etag="e5", former="{ }")
FILE = Delete("data", "data", "bucket-0/data-1.parquet", 2, "why")


def test_a_whole_plan_is_fine() -> None:
    assert order_problem((TAG, HINT, SEVEN, SIX, NEW, OVER)) is None


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        ((SEVEN, HINT), "order of their phases"),
        ((SEVEN, TAG), "order of their phases"),
        ((SIX, SEVEN), "descending order"),
        ((SEVEN, FILE), "found both"),
        ((SEVEN, replace(SIX, path="branch/branch-b/snapshot/snapshot-6")), "one branch"),
        ((replace(SEVEN, body=None),), "content of each deleted document"),
        ((replace(NEW, if_absent=False),), "found neither or both"),
        ((replace(OVER, if_absent=True),), "found neither or both"),
        ((replace(SEVEN, phase="vanish"),), "known phase"),
    ],
)
def test_anything_else_is_not(actions: tuple[Action, ...], problem: str) -> None:
    """Such a plan is damaged or forged, or nobody could take it back."""
    found = order_problem(actions)
    assert found is not None and problem in found


def test_the_branch_of_a_document() -> None:
    assert branch_of("snapshot/snapshot-1") == "main"
    assert branch_of("branch/branch-a b/tag/tag-t") == "a b"
    assert branch_of("branch/branch-a/b/snapshot/snapshot-1") == "a/b"
    assert branch_of("branch/branch-a/tag/tag-t/u") == "a"
    assert branch_of("branch/branch-a/snapshot/.snapshot-1.tmp") == "a"


def test_what_was_there_before_counts_in_the_hash() -> None:
    assert content_hash((OVER,)) != content_hash((replace(OVER, former="{}"),))
    assert content_hash((SEVEN,)) != content_hash((replace(SEVEN, body="{ }"),))
