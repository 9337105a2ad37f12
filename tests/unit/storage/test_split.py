"""Where ranges are split: always inside of them, and where much is on both sides as far as anybody can tell."""

import random

import pytest

from lakesweep.storage.split import shared_letters, split_point

ALPHABETS = ["ab", "019", "0123456789abcdef", "az/-", "éü日🙂a0", "%+ a", "\x01~8e", "AZaz09-_=/."]
WRITER = "bucket-0/data-29cdb60b-032f-a7c7-5bb5-d7a354934328"


@pytest.mark.parametrize(
    ("first", "last", "until", "climb", "split"),
    [
        ("dt=2026-01-01/a", "dt=2026-01-03/x", None, 0, "dt=2026-01-06"),
        ("dt=2026-01-01/a", "dt=2026-01-03/x", None, 1, "dt=2026-01-5"),
        ("dt=2026-01-01/a", "dt=2026-01-03/x", None, 2, "dt=2026-05"),
        ("dt=2026-01-01/a", "dt=2026-01-03/x", "dt=2026-01-5", 1, "dt=2026-01-2"),
        ("dt=2026-01-01/a", "dt=2026-01-03/x", "dt=2026-01-05", 0, "dt=2026-01-04"),
        ("bucket-0/data-00a", "bucket-0/data-0bb", None, 1, "bucket-0/data-5"),
        (f"{WRITER}-0.orc", f"{WRITER}-17199.orc", None, 0, f"{WRITER}-5"),
        ("p=9/a", "p=9/c", "p=91", 0, "p=9/e"),
        ("city=rome/a", "city=tunis/b", None, 0, "city=w"),
        ("dt=9/bucket-9/a0", "dt=9/bucket-9/f9/0x", "dt=9/bucket-9/g", 0, "dt=9/bucket-9/f9/5"),
    ],
)
def test_split_points(first: str, last: str, until: str | None, climb: int, split: str) -> None:
    """Dates, hexadecimal names, one writer's numbers, words."""
    assert split_point(first, last, until, climb=climb) == split


def test_nothing_to_count_on() -> None:
    """Then a range stays whole."""
    assert split_point("日本/é", "日本/ü", None, climb=1) is None
    assert split_point("99", "99", None, climb=0) is None
    assert split_point("a", "a", "a0", climb=0, fixed=1) is None


def test_letters_that_all_keys_begin_with_stay() -> None:
    assert split_point("t/1", "t/3", None, climb=9, fixed=2) == "t/6"
    assert split_point("t/1", "t/3", None, climb=9) == "w"


@pytest.mark.parametrize("seed", range(20))
def test_split_lies_inside_of_the_range(seed: int) -> None:
    """Behind what was listed and before the end, whatever keys look like."""
    rng = random.Random(seed)
    letters = rng.choice(ALPHABETS)
    found = 0
    for _ in range(3000):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(3)]
        first, last, end = sorted(words)
        until = end if rng.random() < 0.7 else None
        if until == last:
            continue
        fixed = rng.randint(0, shared_letters(first, last) if until is None else shared_letters(first, until))
        split = split_point(first, last, until, climb=rng.randint(0, 4), fixed=fixed)
        if split is not None:
            found += 1
            assert last < split
            assert until is None or split < until
            assert split[:fixed] == last[:fixed]
    assert found > 0


def test_shared_letters() -> None:
    assert [shared_letters(*pair) for pair in (("ab", "ac"), ("a", "ab"), ("", "a"), ("ab", "ab"))] == [1, 1, 0, 2]
