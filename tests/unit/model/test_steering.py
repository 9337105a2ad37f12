"""The facts of a plan that steer its execution: one document, read strictly, and part of the plan's hash."""

import ast
from pathlib import Path
from typing import Any

import pytest

import lakesweep
from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.plan import Delete, content_hash, joined_hash
from lakesweep.model.steering import Steering, Target, Undone, steering_of

DELETE = Delete("data", "data", "bucket-0/data-1.parquet", 1, "why", etag="e")
FULL = Steering(
    complete_roots=("snapshot/snapshot-5",),
    incomplete_roots=("tag/tag-t",),
    target=Target(5, "t", 1_800_000),
    undone=Undone("run", "plan", "rollback"),
    is_damaged=True,
)
READERS = {
    "model/report.py": "shows them",
    "aws/scans/result.py": "shows how many objects a scan listed",
    "operations/orphans/costs.py": "records what a scan counted, from which the cost of later scans is estimated",
    "operations/undo/undo.py": "shows those of the undone plan",
}
"""Modules that read the findings of a plan, and what for. None of them decides anything by what it reads."""
_NO_PLANS = frozenset({"self", "head", "matched", "_judge", "_judging", "table"})
"""Names of values whose findings are not those of a plan."""


def test_what_is_written_is_what_is_read() -> None:
    for steering in (Steering(), FULL, Steering(complete_roots=()), Steering(incomplete_roots=())):
        assert steering_of(steering.to_json(), "p") == steering


def test_an_empty_steering_adds_nothing_to_the_hash() -> None:
    assert Steering().digest == 0
    assert content_hash([DELETE], Steering()) == content_hash([DELETE])
    assert content_hash([DELETE]) == "374734cbf58469f183409d7f2a764d0dad98b2001c8be7583cd5c3ba953de96b"


@pytest.mark.parametrize(
    "steering",
    [
        FULL,
        Steering(complete_roots=()),
        Steering(complete_roots=("snapshot/snapshot-5",)),
        Steering(incomplete_roots=()),
        Steering(incomplete_roots=("snapshot/snapshot-5",)),
        Steering(target=Target(5, None, 1_800_000)),
        Steering(target=Target(5, "t", 1_800_000)),
        Steering(target=Target(6, None, 1_800_000)),
        Steering(target=Target(5, None, 1_800_001)),
        Steering(undone=Undone("run", "plan", "rollback")),
        Steering(undone=Undone("run", "other", "rollback")),
        Steering(is_damaged=True),
    ],
    ids=str,
)
def test_each_fact_changes_the_hash(steering: Steering) -> None:
    digest = content_hash([DELETE], steering)
    assert digest != content_hash([DELETE])
    assert digest == joined_hash([content_hash([DELETE])], steering)
    others = {FULL, Steering(is_damaged=True), Steering(complete_roots=()), Steering(incomplete_roots=())} - {steering}
    assert digest not in {content_hash([DELETE], other) for other in others}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "x",
        {"complete_roots": None},
        {"complete_roots": "snapshot/snapshot-5"},
        {"complete_roots": [5]},
        {"incomplete_roots": {}},
        {"target": None},
        {"target": {}},
        {"target": {"snapshot": 5, "tag": None}},
        {"target": {"snapshot": "5", "tag": None, "time_ms": 1}},
        {"target": {"snapshot": True, "tag": None, "time_ms": 1}},
        {"target": {"snapshot": 1 << 64, "tag": None, "time_ms": 1}},
        {"target": {"snapshot": 5, "tag": 5, "time_ms": 1}},
        {"undone": []},
        {"undone": {"run_id": "r", "plan_id": "../x", "operation": "rollback"}},
        {"undone": {"run_id": "r", "operation": "rollback"}},
        {"is_damaged": 1},
        {"is_damaged": None},
    ],
    ids=str,
)
def test_a_fact_of_another_type_is_damage(document: Any) -> None:
    with pytest.raises(FormatError, match="expected"):
        steering_of(document, "p")


@pytest.mark.parametrize(
    "document",
    [{"keep_roots": []}, {"target": {"snapshot": 5, "tag": None, "time_ms": 1, "branch": "b"}}],
    ids=str,
)
def test_a_fact_that_this_version_does_not_know_refuses_the_plan(document: Any) -> None:
    """Another version can execute the plan, so the plan is not called damaged."""
    with pytest.raises(RefusedError, match="another version of Lakesweep wrote") as caught:
        steering_of(document, "p")
    assert caught.value.code == "unsupported_plan"


def test_no_module_reads_findings_to_decide() -> None:
    """A stored plan's hash does not cover its findings."""
    package = Path(lakesweep.__file__).parent
    readers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "findings" and not _has_none(node)
    }
    assert readers == READERS.keys()


def _has_none(node: ast.Attribute) -> bool:
    """Tell whether these are no findings of a plan, but those of `check` or of a part of a scan."""
    value = node.value
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return name in _NO_PLANS
