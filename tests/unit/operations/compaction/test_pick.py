"""Which files are rewritten, and which together."""

import pytest

from lakesweep.errors import FormatError
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.compaction.rules.pick import PickOptions, bins_of, pick_options

OPTIONS = PickOptions(target_bytes=1000, min_files=5, deleted_share=0.2)


def file(number: int, size: int = 100, *, deleted: int | None = 0, partition: bytes = b"p") -> ReadFile:
    """Return a file of 100 rows."""
    vector = None if deleted == 0 else LocatedVector("index/i", 100, f"f{number}", 1, 10, 32, deleted)
    return ReadFile(f"f{number}", size, 100, "parquet", 0, 0, 0, partition, vector, min_sequence=number)


def picked(*files: ReadFile, force: bool = False) -> list[list[str]]:
    return [[each.path for each in found.files] for found in bins_of(files, OPTIONS, force=force)]


def test_five_small_files_are_worth_it_and_four_are_not() -> None:
    assert picked(*map(file, range(4))) == []
    assert picked(*map(file, range(5))) == [["f0", "f1", "f2", "f3", "f4"]]


def test_few_files_are_worth_it_if_they_fill_one() -> None:
    assert picked(file(0, 400), file(1, 400)) == [["f0", "f1"]]
    assert picked(file(0, 400), file(1, 100)) == []
    assert picked(file(0, 699)) == [], "one file stays one file"


@pytest.mark.parametrize("least", [1, 0, -1])
def test_one_file_is_not_rewritten_again_and_again(least: int) -> None:
    """Whatever number of files is asked for: it would become the same file in each run."""
    options = PickOptions(target_bytes=1000, min_files=least, deleted_share=0.2)
    assert bins_of([file(0)], options) == ()
    assert len(bins_of([file(0), file(1)], options)) == 1


def test_large_files_stay() -> None:
    assert picked(*(file(number, 700) for number in range(6))) == []


def test_bins_are_closed_before_they_get_larger_than_the_target() -> None:
    assert picked(*(file(number, 300) for number in range(6))) == [["f0", "f1", "f2"], ["f3", "f4", "f5"]]


def test_many_deleted_rows_are_worth_it_alone() -> None:
    assert picked(file(0, 5000, deleted=21)) == [["f0"]]
    assert picked(file(0, 5000, deleted=20)) == []
    assert picked(file(0, 5000, deleted=None)) == [["f0"]], "unknown counts as many"


def test_deleted_rows_take_no_room() -> None:
    assert picked(file(0, 900, deleted=90), file(1, 900, deleted=90)) == [["f0", "f1"]]


def test_partitions_are_apart_and_rows_keep_their_order() -> None:
    files = [file(number, partition=b"ab"[number % 2 :][:1]) for number in reversed(range(10))]
    assert picked(*files) == [["f0", "f2", "f4", "f6", "f8"], ["f1", "f3", "f5", "f7", "f9"]]


def test_force() -> None:
    assert picked(file(0, 5000), file(1, 100), force=True) == []
    assert picked(file(0, 500), file(1, 100), force=True) == [["f0", "f1"]]
    assert picked(file(0, 5000, deleted=1), force=True) == [["f0"]]
    assert picked(file(0, 5000), force=True) == []


@pytest.mark.parametrize("share", ["-1", "1.1", "much", "nan"])
def test_a_share_that_cannot_be(share: str) -> None:
    with pytest.raises(FormatError):
        pick_options({"compaction.delete-ratio-threshold": share})
