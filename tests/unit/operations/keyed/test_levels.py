"""Which files of a bucket make a sorted run, and which runs are newer."""

import pytest

from lakesweep.errors import RefusedError
from lakesweep.operations.keyed.rules.facts import BucketFacts, bucket_facts
from lakesweep.operations.keyed.rules.levels import Levels, levels_of
from lakesweep.operations.keyed.rules.pick import Unit
from tests.support.keyed_tree import keyed_file as file


def names(levels: Levels) -> list[list[str]]:
    return [[each.name for each in run] for run in levels.runs]


def test_each_new_file_is_a_run_and_each_level_is_one() -> None:
    levels = levels_of(
        [
            *(file("e", 5, 9, level=5), file("d", 0, 4, level=5), file("c", 3, 3, level=2)),
            *(file("old", 0, 9, sequence=(0, 3)), file("new", 0, 9, sequence=(1, 4))),
        ],
        num_levels=6,
    )
    assert names(levels) == [["new"], ["old"], ["c"], ["d", "e"]]
    assert [each.name for each in levels.level_0] == ["new", "old"]
    assert (levels.highest, levels.last) == (5, 5)
    assert names(Levels(levels.below(1), 5)) == [["c"], ["d", "e"]]
    assert names(Levels(levels.below(2), 5)) == [["d", "e"]]


def test_equal_sequence_numbers() -> None:
    """The first number decides, then the time, then the name."""
    files = [
        file("b", 0, 9, sequence=(2, 9), created_ms=5),
        file("a", 0, 9, sequence=(2, 9), created_ms=5),
        file("c", 0, 9, sequence=(2, 9), created_ms=4),
        file("d", 0, 9, sequence=(1, 9), created_ms=6),
    ]
    assert names(levels_of(files, 6)) == [["d"], ["c"], ["a"], ["b"]]


def test_overlapping_files_of_a_level() -> None:
    assert names(levels_of([file("b", 5, 9, level=1), file("a", 0, 4, level=1)], 6)) == [["a", "b"]]
    with pytest.raises(RefusedError, match=r"level 1 .* found bucket-0/a and bucket-0/b") as refused:
        levels_of([file("b", 4, 9, level=1), file("a", 0, 4, level=1)], 6)
    assert refused.value.code == "overlapping_files"
    levels_of([file("b", 4, 9, level=2), file("a", 0, 4, level=1)], 6)


def test_files_above_the_number_of_levels() -> None:
    """Whoever reduces the option leaves them there."""
    levels = levels_of([file("a", 0, 4, level=7), file("b", 0, 4)], num_levels=4)
    assert (levels.highest, levels.last) == (7, 7)
    assert levels_of([file("b", 0, 4)], num_levels=4).last == 3
    assert (levels_of([], 4).highest, levels_of([file("b", 0, 4)], 4).highest) == (-1, 0)


def test_facts() -> None:
    upper = (file("a", 0, 9, rows=7, size=20, created_ms=5), file("b", 0, 9, rows=8, size=30, created_ms=4))
    levels = levels_of([*upper, file("c", 0, 9, level=5, size=1000)], 6)
    assert bucket_facts(levels, None) == BucketFacts(3, 3, 1050, 2, 15, 4)
    unit = Unit(upper, 4, "level 0: 2 files")
    assert bucket_facts(levels, unit) == BucketFacts(3, 3, 1050, 2, 15, 4, "level 0: 2 files")
    unknown = levels_of([*upper, file("c", 0, 9, created_ms=None)], 6)
    assert bucket_facts(unknown, None).level_0_from_ms is None
    assert bucket_facts(levels_of([], 6), None) == BucketFacts(0, 0, 0, 0, 0, None)
