"""What holds for every history: hypothesis makes the histories."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_root
from tests.support.table_builder import TableBuilder


@dataclass(frozen=True)
class Commit:
    """One step: how many files come, which of the live ones go, move, get tagged, and whether manifests merge."""

    add: int
    drop: tuple[int, ...]
    move: int | None
    merge: bool
    tag: bool
    changelog: bool
    rollback_to: int | None
    branch: bool


commits = st.builds(
    Commit,
    add=st.integers(0, 2),
    drop=st.lists(st.integers(0, 5), max_size=3, unique=True).map(tuple),
    move=st.none() | st.integers(0, 5),
    merge=st.booleans(),
    tag=st.integers(0, 4).map(lambda n: n == 0),
    changelog=st.integers(0, 3).map(lambda n: n == 0),
    rollback_to=st.integers(0, 9).map(lambda n: n if n < 2 else None),
    branch=st.integers(0, 6).map(lambda n: n == 0),
)
histories = st.lists(commits, min_size=2, max_size=10)


def build(store: MemoryStore, steps: list[Commit]) -> TableBuilder:
    table = TableBuilder(store)
    for number, step in enumerate(steps, 1):
        if step.rollback_to is not None and number > 3:
            table.rollback_as_latest(number - 2 - step.rollback_to)
        else:
            _commit(table, number, step)
        if step.tag:
            table.tag(f"t{number}", snapshot=number)
            if step.branch:
                table.branch(f"b{number}", from_tag=f"t{number}")
                table.remove(f"tag/tag-t{number}")
    return table


def _commit(table: TableBuilder, number: int, step: Commit) -> None:
    live = _live(table)
    gone = [live[index] for index in step.drop if index < len(live)]
    entries = [f"-{symbol}@{level}" for symbol, level in gone]
    if step.move is not None and step.move < len(live) and live[step.move] not in gone:
        symbol, level = live[step.move]
        entries += [f"-{symbol}@{level}", f"+{symbol}@{level + 1}"]
    entries += [f"+F{number}x{index}" for index in range(step.add)]
    table.commit(*entries, merge_base=step.merge, changelog=[f"+L{number}"] if step.changelog else ())


def _live(table: TableBuilder) -> list[tuple[str, int]]:
    head = max((root for root in table.roots() if root.startswith("snapshot/")), default=None, key=_id)
    return sorted((file.symbol, file.level) for file in table.model(head).live) if head else []


def _id(root: str) -> int:
    return int(root.rsplit("-", 1)[1])


def _files(store: MemoryStore) -> set[str]:
    return {entry.key for entry in store.list("") if not entry.key.endswith(("EARLIEST", "LATEST"))}


def _fresh(steps: list[Commit]) -> tuple[TableBuilder, Maintainer]:
    store = MemoryStore("memory://bucket/t")
    return build(store, steps), Maintainer(store)


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(histories, st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_longer_retention_never_deletes_more(
    steps: list[Commit], retain_min: int, more: int, longer_min: int, longer_max: int
) -> None:
    _, maintainer = _fresh(steps)
    short = maintainer.plan(retain_min=retain_min, retain_max=retain_min + more + longer_min)
    long = maintainer.plan(retain_min=retain_min + longer_min, retain_max=retain_min + more + longer_min + longer_max)
    assert short.plan is not None and long.plan is not None
    assert {d.path for d in long.plan.deletes} <= {d.path for d in short.plan.deletes}


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(1, 3))
def test_expiring_one_by_one_ends_where_one_run_ends(steps: list[Commit], retain: int) -> None:
    at_once, maintainer = _fresh(steps)
    maintainer.expire(retain, retain)
    stepwise, stepping = _fresh(steps)
    for _ in range(len(steps) + 1):
        stepping.expire(retain, retain, max_deletes=1)
    assert _files(stepwise.store) == _files(at_once.store)
    assert_roots_readable(stepwise)
