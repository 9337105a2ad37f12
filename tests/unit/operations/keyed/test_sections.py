"""Files whose keys overlap, apart from all others."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.keyed.rules.sections import Section, sections_of
from tests.support.keyed_tree import keyed_file

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=14)


def files_of(ranges: list[tuple[int, int]]) -> list[KeyedFile]:
    return [keyed_file(f"f{number}", low, low + more) for number, (low, more) in enumerate(ranges)]


def names(sections: tuple[Section, ...]) -> list[list[list[str]]]:
    return [[[each.name for each in run] for run in section] for section in sections]


def overlap(one: KeyedFile, other: KeyedFile) -> bool:
    return one.low <= other.high and other.low <= one.high


def test_files_that_touch_are_one_section() -> None:
    assert names(sections_of(files_of([(0, 4), (5, 4)]))) == [[["f0"]], [["f1"]]]
    assert names(sections_of(files_of([(0, 5), (5, 4)]))) == [[["f0"], ["f1"]]]


def test_a_large_file_holds_small_ones_together() -> None:
    """And the small ones are one run."""
    assert names(sections_of(files_of([(0, 20), (1, 2), (4, 2), (21, 1)]))) == [[["f1", "f2"], ["f0"]], [["f3"]]]


def test_no_files() -> None:
    assert sections_of([]) == ()


@given(RANGES)
def test_sections_beside_every_pair(ranges: list[tuple[int, int]]) -> None:
    """Two files are in one section exactly if a chain of overlapping files joins them."""
    files = files_of(ranges)
    sections = sections_of(files)
    place = {file.name: number for number, section in enumerate(sections) for run in section for file in run}
    assert len(place) == sum(len(run) for section in sections for run in section) == len(files)
    joined = {file.name: {file.name} for file in files}
    for one in files:
        for other in files:
            if overlap(one, other) and joined[one.name] is not joined[other.name]:
                both = joined[one.name] | joined[other.name]
                joined.update(dict.fromkeys(both, both))
    assert all((place[one] == place[other]) == (other in joined[one]) for one in place for other in place)
    ends = [(min(f.low for r in each for f in r), max(f.high for r in each for f in r)) for each in sections]
    assert all(before[1] < after[0] for before, after in pairwise(ends))


@given(RANGES)
def test_runs_are_disjoint_and_as_few_as_possible(ranges: list[tuple[int, int]]) -> None:
    """So many as files share one key."""
    for section in sections_of(files_of(ranges)):
        assert all(before.high < after.low for run in section for before, after in pairwise(run))
        files = [file for run in section for file in run]
        assert len(section) == max(sum(each.low <= file.low <= each.high for each in files) for file in files)
