"""Histories of a table by lot."""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support.memory_store import MemoryStore
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
