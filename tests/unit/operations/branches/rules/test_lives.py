"""Files with several lives, beside a model of how Paimon's expiry and tag deletion take one file."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from lakesweep.operations.branches.rules.lives import Lives


def lives(held: str, *tagged: int, deleted_before: bool = False) -> Lives[str]:
    """Return the lives of F: a mark for each id from 1 on, `x` where it is held."""
    ids = frozenset(number for number, mark in enumerate(held, 1) if mark == "x")
    before = frozenset({"F"} if deleted_before else ())
    return Lives(tuple(range(1, len(held) + 1)), frozenset(tagged), {"F": ids}, before)


@pytest.mark.parametrize(
    ("held", "tagged", "is_safe"),
    [
        ("x.", (1,), True),
        (".xx..", (2,), True),
        (".xx..", (3,), True),
        ("x.x.", (3,), False),
        ("x.x.", (1,), False),
        ("x.x.", (1, 3), True),
        ("xx.xx..", (2, 4), True),
        ("xx.xx.x.", (2, 4), False),
        ("..", (1,), True),
    ],
)
def test_each_life_of_what_comes_back_needs_a_tag(held: str, tagged: tuple[int, ...], is_safe: bool) -> None:
    assert lives(held, *tagged).unsafe(["F"], []) == (set() if is_safe else {"F"})


@pytest.mark.parametrize(
    ("held", "tagged", "is_safe"),
    [(".xx", (), True), ("x.x", (1,), False), ("x.x", (3,), False), ("x.x", (1, 3), True)],
)
def test_what_leaves_needs_them_only_after_a_second_life(held: str, tagged: tuple[int, ...], is_safe: bool) -> None:
    assert lives(held, *tagged).unsafe([], ["F"]) == (set() if is_safe else {"F"})


def test_a_changelog_that_will_delete_it() -> None:
    assert lives("x.", 1, deleted_before=True).unsafe(["F"], []) == {"F"}


@dataclass(frozen=True, slots=True)
class Branch:
    """One file on a branch: in which versions it is, which of these are left, and whether it still exists."""

    held: tuple[bool, ...]
    """By id; the first is not used."""
    earliest: int
    newest: int
    tags: frozenset[int]
    exists: bool = True

    @property
    def is_lost(self) -> bool:
        """Some version that is left has a file that does not exist."""
        roots = {*range(self.earliest, self.newest + 1), *self.tags}
        return not self.exists and any(self.held[each] for each in roots)

    def expired(self, end: int, *, is_index: bool) -> "Branch":
        """Expire the snapshots before an id."""
        taken = self._takes_index(end) if is_index else self._takes_data(end)
        return Branch(self.held, end, self.newest, self.tags, self.exists and not taken)

    def _takes_data(self, end: int) -> bool:
        deletions = (i for i in range(self.earliest + 1, end + 1) if self.held[i - 1] and not self.held[i])
        return any(not self._is_tagged(max((t for t in self.tags if t < i), default=0)) for i in deletions)

    def _takes_index(self, end: int) -> bool:
        if self.held[end] or not any(self.held[self.earliest : end]):
            return False
        tags = sorted(self.tags)
        below = [tag for tag in tags if tag <= self.earliest]
        left = below[-1] if below else min(tags, default=0)
        return not any(self.held[tag] for tag in tags if left <= tag < end)

    def _is_tagged(self, tag: int) -> bool:
        return bool(tag) and self.held[tag]

    def without(self, tag: int) -> "Branch":
        """Delete a tag, and the file with it unless a neighbour has it."""
        left = max((each for each in self.tags if each < tag), default=0)
        right = min([self.earliest, *(each for each in self.tags if each > tag)])
        is_alone = tag < self.earliest and self.held[tag]
        taken = is_alone and not self._is_tagged(left) and not self.held[right]
        return Branch(self.held, self.earliest, self.newest, self.tags - {tag}, self.exists and not taken)

    def then(self, staying: frozenset[int], *, is_index: bool) -> "Iterator[Branch]":
        """Yield what it becomes by one expiry, one deletion of a tag that need not stay, or one new tag."""
        for end in range(self.earliest + 1, self.newest + 1):
            yield self.expired(end, is_index=is_index)
        for tag in self.tags - staying:
            yield self.without(tag)
        for tag in range(self.earliest, self.newest + 1):
            yield Branch(self.held, self.earliest, self.newest, self.tags | {tag}, self.exists)


def first_loss(branch: Branch, staying: frozenset[int], *, is_index: bool) -> Branch | None:
    """Return a state that some order of acts leads to, in which a version has lost the file."""
    seen, left = {branch}, [branch]
    while left:
        state = left.pop()
        if state.is_lost:
            return state
        new = {each for each in state.then(staying, is_index=is_index) if each not in seen}
        seen |= new
        left += new
    return None


@pytest.mark.parametrize("is_index", [False, True])
def test_paimon_takes_no_file_that_is_safe(is_index: bool) -> None:
    """By no order of expiries, deletions of other tags and new tags, whatever others commit on top."""
    random = Random(7)
    safe = 0
    for _ in range(250):
        count = random.randint(2, 5)
        before = [random.random() < 0.5 for _ in range(count)]
        target = random.randint(1, count - 1)
        earliest = random.randint(1, count)
        tags = {tag for tag in range(1, count + 1) if random.random() < 0.3}
        staying = {tag for tag in tags if random.random() < 0.7} | {target}
        tags |= {target}
        ids = tuple(sorted({*range(earliest, count + 1), *tags}))
        comes, goes = before[target - 1] and not before[-1], before[-1] and not before[target - 1]
        if not comes and not goes:
            continue
        known = Lives(ids, frozenset(staying), {"F": frozenset(id for id in ids if before[id - 1])})
        if known.unsafe(["F"] if comes else [], ["F"] if goes else []):
            continue
        if _was_lost(before, earliest, ids, tags, frozenset(staying), is_index=is_index):
            continue  # by what was done before, and not by this rollback
        new = count + 1
        # Others may delete what came back. Nothing but another rollback takes it back once more.
        after = random.choice([(True, True), (True, False), (False, False)]) if comes else (False, False)
        held = (False, *before, comes, *after)
        staying = {*staying, new}
        branch = Branch(held, earliest, new + 2, frozenset({*tags, new}))
        lost = first_loss(branch, frozenset(staying), is_index=is_index)
        assert lost is None, (before, after, target, earliest, tags, staying, lost)
        safe += 1
    assert safe > 60


def _was_lost(
    before: list[bool], earliest: int, ids: tuple[int, ...], tags: set[int], staying: frozenset[int], *, is_index: bool
) -> bool:
    """Tell whether a version could lose the file although nothing more is committed."""
    branch = Branch((False, *before), earliest, len(before), frozenset(tags))
    return first_loss(branch, staying, is_index=is_index) is not None


def test_the_model_loses_what_paimon_loses() -> None:
    """As `tests/differential/test_losses.py` shows of version 1.4.2."""
    held = (False, True, False, True)  # snapshot 1 has it, 2 deleted it, 3 took it back
    assert first_loss(Branch(held, 1, 3, frozenset()), frozenset(), is_index=False) is not None
    assert first_loss(Branch(held, 1, 3, frozenset({1})), frozenset({1}), is_index=False) is None
    again = (*held, False)  # 4 deleted it again, past a tag of 2
    assert first_loss(Branch(again, 1, 4, frozenset({1, 2})), frozenset({1}), is_index=False) is not None
    assert first_loss(Branch(again, 1, 4, frozenset({1, 2, 3})), frozenset({1, 3}), is_index=False) is None


@pytest.mark.parametrize(
    ("asked", "first", "is_unsafe"),
    [
        ((1,), 1, False),
        ((1, 3), 1, True),  # the branch may delete it at 4, past the tag of 3
        ((1, 3), 4, True),
        ((1, 3), 5, False),  # it asks the tag of the new snapshot, or a later one
        ((2,), 1, True),  # it may delete it at 2, where no tag is asked
        ((2,), 2, False),
    ],
)
def test_a_branch_asks_the_last_tag_below(asked: tuple[int, ...], first: int, is_unsafe: bool) -> None:
    known = Lives((1, 2, 3, 4), frozenset(), {"F": frozenset({1, 2})}, asked=frozenset(asked))
    assert known.unsafe_on_branch("F", first) is is_unsafe
