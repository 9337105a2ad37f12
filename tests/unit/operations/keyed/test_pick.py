"""Which runs are compacted, and to which level."""

from typing import Any

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.keyed.rules.pick import LevelOptions, Unit, level_options, pick
from tests.support.keyed_tree import keyed_file, random_tree


def new(count: int, size: int = 100) -> list[KeyedFile]:
    """Return files of level 0."""
    return [keyed_file(f"n{number}", 0, 9, sequence=(0, 99 - number), size=size) for number in range(count)]


def old(level: int, size: int, **details: Any) -> KeyedFile:
    return keyed_file(f"l{level}", 0, 9, level=level, size=size, **details)


def picked(
    *files: KeyedFile, full: bool = False, force: bool = False, **options: int
) -> tuple[list[str], int, str] | None:
    unit = unit_of(*files, full=full, force=force, **options)
    return None if unit is None else ([file.name for file in unit.files], unit.level, unit.why)


def unit_of(*files: KeyedFile, full: bool = False, force: bool = False, **options: int) -> Unit | None:
    found = LevelOptions(**options)
    return pick(levels_of(files, found.num_levels), found, full=full, forces_level_0=force)


def test_fewer_runs_than_the_trigger_are_left_alone() -> None:
    assert picked(*new(4)) is None
    larger_by_far = [*new(1), old(3, 1000), old(4, 10_000), old(5, 10**6)]
    assert picked(*larger_by_far, trigger=4) is None
    assert picked() is None


def test_size_amplification() -> None:
    """Exactly the allowed share is allowed."""
    names = ["n0", "n1", "n2", "n3", "l5"]
    why = "size amplification: newer runs have 201 % of the bytes of the oldest one, allowed are 200 %"
    assert picked(*new(4, 201), old(5, 400)) == (names, 5, why)
    found = picked(*new(4, 200), old(5, 400))
    assert found is not None
    assert found[2] == "size ratio: 5 runs of about the same size, of 5"


def test_size_ratio() -> None:
    """The next run may be one percent larger than those before it together."""
    found = picked(*new(2, 100), old(3, 202), old(4, 10_000), old(5, 10**6))
    assert found == (["n0", "n1", "l3"], 3, "size ratio: 3 runs of about the same size, of 5")
    found = picked(*new(2, 100), old(3, 203), old(4, 10_000), old(5, 10**6))
    assert found == (["n0", "n1"], 2, "size ratio: 2 runs of about the same size, of 5")


def test_number_of_runs() -> None:
    sizes = (10, 100, 1000, 10_000, 100_000, 10**6)
    files = [keyed_file("n0", 0, 9, size=10), *(old(level, sizes[level]) for level in range(1, 6))]
    assert picked(*files) == (["n0", "l1"], 1, "number of runs: 6, allowed are 5")
    assert picked(*files, trigger=6) is None


def test_nothing_goes_to_level_0() -> None:
    """The two equal files would, since the next run is on level 0; so runs up to the first other level come along."""
    files = [*new(2, 100), keyed_file("big", 0, 9, size=10_000), old(1, 10**5), old(2, 10**6)]
    found = picked(*files)
    assert found is not None
    assert found[:2] == (["n0", "n1", "big", "l1"], 1)


def test_level_0_is_forced_up() -> None:
    assert picked(*new(1), old(5, 10_000)) is None
    assert picked(*new(1), old(5, 10_000), force=True) == (["n0"], 4, "level 0: 1 file")
    assert picked(*new(2), old(3, 202), old(5, 10_000), force=True) == (["n0", "n1", "l3"], 4, "level 0: 2 files")
    assert picked(*new(2), old(1, 10_000), force=True) == (["n0", "n1", "l1"], 5, "level 0: 2 files")
    assert picked(*new(2), force=True) == (["n0", "n1"], 5, "level 0: 2 files")
    assert picked(old(5, 10_000), force=True) is None


def test_one_file_that_lies_there_already_is_nothing_to_do() -> None:
    """Size amplification without newer runs: only a negative option says so."""
    assert picked(old(5, 100), trigger=1, max_amplification=-1) is None
    assert picked(old(4, 100), trigger=1, max_amplification=-1) is not None


def test_full_compaction() -> None:
    assert picked(*new(1), full=True) == (["n0"], 5, "full compaction: 1 run")
    assert picked(*new(1), old(5, 100), full=True) == (["n0", "l5"], 5, "full compaction: 2 runs")
    assert picked(old(4, 100), full=True) == (["l4"], 5, "full compaction: 1 run")
    assert picked(old(5, 100), full=True) is None
    assert picked(full=True) is None


def test_full_compaction_of_deleted_rows() -> None:
    """Of the last level, only files with a vector are rewritten, each by itself."""
    files = [keyed_file(f"f{n}", 2 * n, 2 * n + 1, level=5, vector=n != 1) for n in range(3)]
    unit = unit_of(*files, full=True)
    assert unit is not None
    assert ([file.name for file in unit.files], unit.level, unit.one_by_one) == (["f0", "f2"], 5, True)
    assert unit.why == "full compaction: 2 files of level 5 with deleted rows"


@pytest.mark.parametrize(
    ("files", "options", "level"),
    [
        ([*new(1, 49), old(4, 50)], {"total_bytes": 100}, 5),
        ([*new(1, 50), old(4, 50)], {"total_bytes": 100}, None),
        ([*new(1, 49)], {"total_bytes": 100}, None),
        ([*new(1, 51), old(4, 50), old(5, 10**6)], {"incremental_bytes": 100}, 5),
        ([*new(1, 50), old(4, 50), old(5, 10**6)], {"incremental_bytes": 100}, None),
    ],
)
def test_early_compactions(files: list[KeyedFile], options: dict[str, int], level: int | None) -> None:
    found = unit_of(*files, **options)
    assert (None if found is None else (len(found.files), found.level)) == (level and (len(files), level))


def test_options() -> None:
    assert level_options({}) == LevelOptions(5, 6, 200, 1, 128 << 20, None, None)
    assert level_options({}).small_bytes == (128 << 20) // 10 * 7
    stated = {
        "num-sorted-run.compaction-trigger": "3",
        "compaction.max-size-amplification-percent": "50",
        "compaction.size-ratio": "7",
        "target-file-size": "19 b",
        "compaction.total-size-threshold": "1 kb",
        "compaction.incremental-size-threshold": "2 kb",
    }
    assert level_options(stated) == LevelOptions(3, 4, 50, 7, 19, 1024, 2048)
    assert level_options(stated).small_bytes == 7
    assert level_options({**stated, "num-levels": "9"}).num_levels == 9


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("num-sorted-run.compaction-trigger", "0"),
        ("num-sorted-run.compaction-trigger", "five"),
        ("num-levels", "1"),
        ("num-levels", ""),
        ("compaction.max-size-amplification-percent", "200 %"),
        ("compaction.size-ratio", "1.5"),
        ("target-file-size", "large"),
        ("compaction.total-size-threshold", "-1"),
    ],
)
def test_bad_options(option: str, text: str) -> None:
    with pytest.raises(RefusedError, match=f"^option {option}: expected ") as refused:
        level_options({option: text})
    assert refused.value.code == "bad_option"


@pytest.mark.parametrize("seed", range(200))
def test_runs_keep_their_order(seed: int) -> None:
    """What is taken is newer than what stays, and no file of the new level stays."""
    options = LevelOptions(trigger=1 + seed % 6, num_levels=2 + seed % 6)
    levels = levels_of(random_tree(seed), options.num_levels)
    for full, force in ((False, False), (False, True), (True, True)):
        unit = pick(levels, options, full=full, forces_level_0=force)
        if unit is None:
            assert not (force and levels.level_0), "level 0 goes up"
        elif not unit.one_by_one:
            assert unit.files == levels.files[: len(unit.files)]
            staying = levels.files[len(unit.files) :]
            assert unit.level >= 1
            assert all(file.level <= unit.level for file in unit.files)
            assert all(file.level > unit.level for file in staying)
