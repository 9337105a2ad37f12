"""When a list of manifests is too long: the thresholds of Paimon's commits, at their boundaries."""

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.operations.manifests.rules.due import (
    FULL_SIZE,
    MERGE_MIN_COUNT,
    TARGET_SIZE,
    Thresholds,
    first_look,
    length_in,
    thresholds_of,
)

MB = 1 << 20
PAIMON = Thresholds()


def metas(*sizes: int, deleted: int = 0) -> list[ManifestMeta]:
    return [
        ManifestMeta(f"manifest-{number}", size, 1, deleted, 0, None, None, ()) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(("count", "is_due"), [(0, False), (30, False), (31, True)])
def test_too_many_small_manifests(count: int, is_due: bool) -> None:
    assert length_in(metas(*[1000] * count), PAIMON).exceeds == (MERGE_MIN_COUNT if is_due else None)


@pytest.mark.parametrize(("size", "small"), [(8 * MB - 1, 31), (8 * MB, 0)])
def test_a_manifest_of_the_target_size_is_not_small(size: int, small: int) -> None:
    found = length_in(metas(*[size] * 31), PAIMON)
    assert (found.small, found.changing) == (small, small)


@pytest.mark.parametrize(
    ("sizes", "is_due"),
    [((8 * MB - 1, 8 * MB), False), ((8 * MB - 1, 8 * MB - 1, 2), True), ((8 * MB - 1,) * 2, False)],
)
def test_a_full_compaction_that_is_worth_it(sizes: tuple[int, ...], is_due: bool) -> None:
    """Manifests without deletions that have their size already do not count."""
    assert length_in(metas(*sizes), PAIMON).exceeds == (FULL_SIZE if is_due else None)


@pytest.mark.parametrize(("deleted", "is_due"), [(0, False), (1, True)])
def test_deletions_make_a_large_manifest_count(deleted: int, is_due: bool) -> None:
    assert (length_in(metas(8 * MB, 8 * MB, deleted=deleted), PAIMON).exceeds is not None) is is_due


def test_a_single_manifest_is_left_as_it_is() -> None:
    """Paimon merges no manifest with itself. So no list is due after each compaction."""
    assert length_in(metas(100 * MB, deleted=5), PAIMON).exceeds is None


def test_the_table_states_thresholds() -> None:
    options = {MERGE_MIN_COUNT: "2", FULL_SIZE: "1 gb", TARGET_SIZE: "1 kb"}
    assert thresholds_of(options) == Thresholds(2, 1 << 30, 1024)
    assert thresholds_of({}) == PAIMON
    assert length_in(metas(1023, 1023, 1023), thresholds_of(options)).exceeds == MERGE_MIN_COUNT
    assert length_in(metas(1023, 1023, 1024), thresholds_of(options)).exceeds is None


@pytest.mark.parametrize("option", [MERGE_MIN_COUNT, FULL_SIZE, TARGET_SIZE])
def test_an_option_that_does_not_parse(option: str) -> None:
    with pytest.raises(RefusedError, match=option):
        thresholds_of({option: "many"})


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ((), 31),
        ((1000,), 30),
        ((1000,) * 30, 1),
        ((1000,) * 31, 0),
        ((5 * MB,), 3),
        ((5 * MB, 5 * MB, 5 * MB), 1),
        ((8 * MB - 1, 100), 1),
        ((8 * MB,) * 40, 31),
    ],
)
def test_how_many_commits_a_list_can_take(sizes: tuple[int, ...], left: int) -> None:
    """By the count, and by the size if the next manifests are as large as the largest."""
    found = length_in(metas(*sizes), PAIMON)
    assert found.commits_left == left
    if left:
        later = length_in(metas(*sizes, *[max([size for size in sizes if size < 8 * MB], default=1)] * left), PAIMON)
        assert later.exceeds is not None


def test_a_young_table_has_no_such_list() -> None:
    """The base list of a snapshot names what the commits before it have added."""
    newest = first_look(PAIMON)
    assert length_in(metas(*[1000] * (newest - 1)), PAIMON).exceeds is not None
    assert length_in(metas(*[1000] * (newest - 2)), PAIMON).exceeds is None
