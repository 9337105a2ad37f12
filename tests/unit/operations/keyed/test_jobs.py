"""What is merged together, and what only changes its level."""

from itertools import combinations, pairwise
from typing import Any

import pytest

from lakesweep.model.keyed import KeyedFile, MergeJob, MergeRules
from lakesweep.operations.keyed.rules.jobs import BucketWork, work_of
from lakesweep.operations.keyed.rules.levels import Levels, levels_of
from lakesweep.operations.keyed.rules.pick import LevelOptions, Unit, pick
from tests.support.keyed_tree import keyed_file, random_tree

PLAIN = MergeRules(("id",), has_vectors=False)
VECTORS = MergeRules(("id",), has_vectors=True)


def work(levels: Levels, level: int, rules: MergeRules = PLAIN, **given: Any) -> BucketWork:
    """Return what is done with the runs of a bucket that lie above a level, or on it."""
    files = tuple(file for file in levels.files if file.level <= level)
    return work_of(levels, Unit(files, level, "told so"), rules, 70, **given)


def tree(*files: KeyedFile) -> Levels:
    return levels_of(files, 6)


def shown(found: BucketWork) -> tuple[list[list[list[str]]], list[str]]:
    """Return the names of each job's runs, and those of the moved files."""
    return [[[file.name for file in run] for run in job.runs] for job in found.jobs], [
        file.name for file in found.moved
    ]


def test_overlapping_files_are_merged() -> None:
    found = work(tree(keyed_file("a", 0, 5), keyed_file("b", 5, 9)), 5)
    assert shown(found) == ([[["a"], ["b"]]], [])
    assert found.jobs[0].size_bytes == 200
    assert (found.jobs[0].level, found.jobs[0].drops_deletes, found.jobs[0].is_upgrade) == (5, True, False)


def test_large_files_move_and_small_ones_are_merged_with_their_neighbours() -> None:
    sizes = (69, 40, 70, 69, 69)
    files = [keyed_file(f"f{n}", 2 * n, 2 * n + 1, level=4, size=size) for n, size in enumerate(sizes)]
    assert shown(work(tree(*files), 5)) == ([[["f0", "f1"]], [["f3", "f4"]]], ["f2"])
    assert shown(work(tree(*files[:1], *files[2:4]), 5)) == ([], ["f0", "f2", "f3"]), "each of them is alone"


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("rules", [PLAIN, VECTORS])
def test_a_file_moves_to_no_level_on_which_it_was_deleted(rules: MergeRules, level: int) -> None:
    """Its ADD there would have the identity of the DELETE, so no reader would see it."""
    file = keyed_file("a", 0, 1, level=level, size=99)._replace(deleted_on=frozenset((5,)))
    found = work(tree(file), 5, rules)
    assert (shown(found), found.jobs[0].is_upgrade) == (([[["a"]]], []), False)
    elsewhere = work(tree(file), 4, rules)
    assert shown(elsewhere) == (([[["a"]]], []) if level == 0 else ([], ["a"]))
    assert all(job.is_upgrade for job in elsewhere.jobs)


def test_files_of_the_new_level_stay() -> None:
    large = keyed_file("a", 0, 1, level=5), keyed_file("b", 2, 3, level=5, size=40)
    upper = keyed_file("n", 7, 8, level=4)
    assert shown(work(tree(*large, upper), 5)) == ([], ["n"])


def test_sections_go_into_the_same_runs() -> None:
    """Each section keeps the order of its runs."""
    files = [keyed_file("a", 0, 9), keyed_file("b", 0, 3), keyed_file("c", 20, 29), keyed_file("d", 21, 23)]
    files += [keyed_file("e", 22, 25), keyed_file("f", 40, 41, size=69)]
    found = work(tree(*files), 5)
    assert shown(found) == ([[["b", "d", "f"], ["a", "c"], ["e"]]], [])


def test_jobs_are_closed_before_they_get_too_large() -> None:
    files = [keyed_file(f"f{n}", 2 * n, 2 * n + 1, level=4, size=50) for n in range(5)]
    assert shown(work(tree(*files), 5, max_bytes=150)) == ([[["f0", "f1", "f2"]], [["f3", "f4"]]], [])
    assert shown(work(tree(*files), 5, max_bytes=149)) == ([[["f0", "f1"]], [["f2", "f3"]]], ["f4"])
    assert shown(work(tree(*files[:2]), 5, max_bytes=49)) == ([], ["f0", "f1"])
    pair = keyed_file("x", 0, 9), keyed_file("y", 0, 9)
    assert shown(work(tree(*pair), 5, max_bytes=1)) == ([[["y"], ["x"]]], []), "a section is never divided"


def test_a_new_file_moves_only_after_a_look_at_its_keys() -> None:
    for rules in (PLAIN, VECTORS):
        found = work(tree(keyed_file("a", 0, 5)), 5, rules)
        assert (shown(found), found.jobs[0].is_upgrade) == (([[["a"]]], []), True)


@pytest.mark.parametrize(
    ("level", "to", "deletes", "rules", "is_upgrade"),
    [
        (0, 5, 1, PLAIN, False),
        (0, 5, None, PLAIN, False),
        (0, 4, 1, PLAIN, True),
        (0, 4, None, PLAIN, True),
        (0, 4, 0, VECTORS, True),
        (0, 4, 1, VECTORS, False),
        (0, 4, None, VECTORS, False),
        (0, 4, 0, MergeRules(("id",), has_vectors=True, sequence=("v",)), False),
        (0, 5, 0, MergeRules(("id",), has_vectors=True, sequence=("v",)), True),
        (3, 5, 1, PLAIN, False),
        (3, 5, None, VECTORS, False),
        (5, 5, 1, PLAIN, False),
        (3, 4, 1, VECTORS, True),
    ],
)
def test_files_with_rows_that_delete(
    level: int, to: int, deletes: int | None, rules: MergeRules, is_upgrade: bool
) -> None:
    """They do not get to the last level, nor from level 0 to where readers see them."""
    below = [keyed_file("deep", 0, 9, level=5)] if to == 4 else []
    found = work(tree(keyed_file("a", 0, 5, level=level, deletes=deletes), *below), to, rules)
    assert [job.is_upgrade for job in found.jobs] == [is_upgrade]


def test_rows_that_delete_stay_while_older_rows_may_lie_below() -> None:
    files = [keyed_file("a", 0, 5), keyed_file("b", 5, 9), keyed_file("deep", 50, 59, level=5)]
    assert not work(tree(*files), 4).jobs[0].drops_deletes
    assert work(tree(*files), 4, VECTORS).jobs[0].drops_deletes, "they mark them instead"
    assert work(tree(*files[:2]), 4).jobs[0].drops_deletes
    assert work(tree(*files), 5).jobs[0].drops_deletes


def test_deeper_files() -> None:
    """Those whose keys overlap a section of the job, from the upper level on; a file in a gap has none of its keys."""
    files = [keyed_file("a", 0, 5, size=40), keyed_file("b", 20, 25, size=40)]
    deep = [keyed_file(f"x{low}", low, high, level=4) for low, high in ((-9, -1), (0, 0), (6, 19), (25, 30), (31, 40))]
    deeper = [keyed_file("y", 5, 20, level=5)]
    found = work(tree(*files, *deep, *deeper), 3, VECTORS)
    assert [[file.name for file in run] for run in found.jobs[0].deeper] == [["x0", "x25"], ["y"]]
    assert work(tree(*files, *deep, *deeper), 3, PLAIN).jobs[0].deeper == ()


def test_an_upper_file_is_looked_at_only_if_deeper_ones_may_have_its_keys() -> None:
    deep = keyed_file("deep", 9, 12, level=5)
    assert shown(work(tree(keyed_file("a", 0, 8, level=2), deep), 4, VECTORS)) == ([], ["a"])
    found = work(tree(keyed_file("a", 0, 9, level=2), deep), 4, VECTORS)
    assert (shown(found), found.jobs[0].is_upgrade) == (([[["a"]]], []), True)
    assert found.jobs[0].deeper == ((deep,),)
    assert shown(work(tree(keyed_file("a", 0, 9, level=2), deep), 4, PLAIN)) == ([], ["a"])


def full(*files: KeyedFile) -> BucketWork:
    levels = tree(*files)
    unit = pick(levels, LevelOptions(), full=True, forces_level_0=True)
    assert unit is not None
    return work_of(levels, unit, VECTORS, 70)


def test_a_full_compaction_leaves_no_vector() -> None:
    """Of the last level alone, each file is rewritten by itself: files between them stay."""
    files = [keyed_file(f"f{n}", 2 * n, 2 * n + 1, level=5, vector=n != 1) for n in range(3)]
    assert shown(full(*files)) == ([[["f0"]], [["f2"]]], [])
    more = keyed_file("n", 9, 9, size=40), keyed_file("s", 11, 12, level=5, size=40)
    assert shown(full(*files, *more)) == ([[["f0"]], [["f2", "n", "s"]]], [])
    found = full(*files[:1], keyed_file("n", 9, 9))
    assert (shown(found), [job.is_upgrade for job in found.jobs]) == (([[["f0"]], [["n"]]], []), [False, True])


@pytest.mark.parametrize("seed", range(300))
def test_every_file_has_one_place_and_new_files_do_not_overlap(seed: int) -> None:
    options = LevelOptions(trigger=1 + seed % 4)
    levels = levels_of(random_tree(seed), options.num_levels)
    rules = (PLAIN, VECTORS)[seed % 2]
    for is_full in (False, True):
        unit = pick(levels, options, full=is_full, forces_level_0=rules.has_vectors)
        if unit is None:
            continue
        found = work_of(levels, unit, rules, 70, max_bytes=300)
        taken = [file.name for job in found.jobs for file in job.files] + [file.name for file in found.moved]
        there = {file.name for file in unit.files}
        assert len(taken) == len(set(taken))
        assert there >= set(taken)
        left = [file for file in levels.files if file.name not in taken]
        assert all(file.level == unit.level for file in left if file.name in there), "they lie there already"
        _check_apart(found, [file for file in left if file.level == unit.level])
        for job in found.jobs:
            _check_job(levels, unit, rules, job)
        if is_full and rules.has_vectors:
            assert all(file.file.vector is None for file in (*left, *found.moved))


def _check_apart(found: BucketWork, left: list[KeyedFile]) -> None:
    ends = [(min(f.low for f in job.files), max(f.high for f in job.files)) for job in found.jobs]
    ends += [(file.low, file.high) for file in (*found.moved, *left)]
    assert all(one[1] < other[0] or other[1] < one[0] for one, other in combinations(ends, 2))


def _check_job(levels: Levels, unit: Unit, rules: MergeRules, job: MergeJob) -> None:
    assert all(before.high < after.low for run in job.runs for before, after in pairwise(run))
    below = [file for file in levels.files if file.level > unit.level]
    deeper = [file.name for run in job.deeper for file in run]
    must = [
        file.name
        for file in below
        if any(file.low <= own.high and own.low <= file.high for own in job.files) and rules.has_vectors
    ]
    assert set(must) <= set(deeper) <= {file.name for file in below}
    assert job.drops_deletes == (rules.has_vectors or not below)
    assert not job.is_upgrade or len(job.files) == 1
