"""What holds for every history: hypothesis makes the histories."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.histories import Commit, build, histories
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_root
from tests.support.sampling import examples
from tests.support.table_builder import TableBuilder


def _files(store: MemoryStore) -> set[str]:
    return {entry.key for entry in store.list("") if not entry.key.endswith(("EARLIEST", "LATEST"))}


def _fresh(steps: list[Commit]) -> tuple[TableBuilder, Maintainer]:
    store = MemoryStore("memory://bucket/t")
    return build(store, steps), Maintainer(store)


@settings(max_examples=examples(150), deadline=None)
@given(histories, st.integers(1, 4), st.integers(0, 4))
def test_deleted_and_live_are_disjoint_and_nothing_is_left_to_do(
    steps: list[Commit], retain_min: int, more: int
) -> None:
    table, maintainer = _fresh(steps)
    limits = {"retain_min": retain_min, "retain_max": retain_min + more}
    planned = maintainer.plan(**limits)
    assert planned.plan is not None
    going = {delete.path for delete in planned.plan.deletes}
    documents = {delete.path for delete in planned.plan.deletes if delete.kind == "snapshot"}
    for root in set(all_roots(table.store)) - documents:
        needs = read_root(table.store, root)
        needed = needs.paths if not root.startswith("tag/") else table.referenced(root, with_changelog=False)
        assert not going & needed, root

    before = _files(table.store)
    done = maintainer.expire(**limits)
    assert done.status in ("done", "nothing_to_do")
    assert before - _files(table.store) == going, "executing does what the plan says, no more and no less"
    assert_roots_readable(table)
    assert maintainer.plan(**limits).status == "nothing_to_do"
    assert maintainer.expire(**limits).status == "nothing_to_do"


@settings(max_examples=examples(100), deadline=None)
@given(histories, st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_longer_retention_never_deletes_more(
    steps: list[Commit], retain_min: int, more: int, longer_min: int, longer_max: int
) -> None:
    _, maintainer = _fresh(steps)
    short = maintainer.plan(retain_min=retain_min, retain_max=retain_min + more + longer_min)
    long = maintainer.plan(retain_min=retain_min + longer_min, retain_max=retain_min + more + longer_min + longer_max)
    assert short.plan is not None and long.plan is not None
    assert {d.path for d in long.plan.deletes} <= {d.path for d in short.plan.deletes}


@settings(max_examples=examples(60), deadline=None)
@given(histories, st.integers(1, 3))
def test_expiring_one_by_one_ends_where_one_run_ends(steps: list[Commit], retain: int) -> None:
    at_once, maintainer = _fresh(steps)
    maintainer.expire(retain, retain)
    stepwise, stepping = _fresh(steps)
    for _ in range(len(steps) + 1):
        stepping.expire(retain, retain, max_deletes=1)
    assert _files(stepwise.store) == _files(at_once.store)
    assert_roots_readable(stepwise)
