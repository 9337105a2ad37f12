"""Shards of a listing: whatever the keys and budgets, pieces meet, and no key is lost or comes twice. No Spark."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakesweep.operations.orphans.listing import WAYS, Shard, Walk, cuts_of
from lakesweep.storage.keys import is_key
from tests.support.memory_store import MemoryStore
from tests.support.paged_store import PagedStore
from tests.support.sampling import examples

PAGE = 3
NUMBERED = st.integers(0, 999)
KEYS = st.one_of(
    st.builds("dt={}/bucket-{}/data-{:08x}-{}.parquet".format, NUMBERED, st.integers(0, 12), NUMBERED, NUMBERED),
    st.builds("data-{:x}".format, st.integers(0, 2**40)),
    st.text(st.characters(exclude_characters="/"), min_size=1, max_size=4),
    st.text("ab%\x01\x7f\u00e9\U0001f300zZ09", min_size=1, max_size=6),
).filter(is_key)


@settings(max_examples=examples(300))
@given(st.sets(KEYS, max_size=120), st.lists(st.integers(2, 5), min_size=1, max_size=4))
@example({f"d/{number:03}" for number in range(120)}, [2])
@example({"a", "a\x01", "a0", "b"}, [2])
@example(set(), [2])
def test_pieces_meet(keys: set[str], budgets: Sequence[int]) -> None:
    requests = 0

    def count(_: str) -> None:
        nonlocal requests
        requests += 1

    store = MemoryStore("memory://b/t")
    for key in keys:
        store.put(key, b"")
    paged = PagedStore(store, count, PAGE)
    found: list[str] = []
    shards, walked, rounds = [Shard(0)], 0, 0
    while shards:
        left: list[Shard] = []
        for shard in shards:
            budget = budgets[min(rounds, len(budgets) - 1)]
            before = requests
            walk = Walk(shard, budget, paged.list_range("", shard.after, shard.until))
            found += [each.key for page in walk.pages() for each in page]
            assert requests - before <= budget
            more = list(walk.left())
            walked += 1
            assert len(more) <= WAYS
            left += more
        shards, rounds = left, rounds + 1
        assert rounds <= len(keys) + 2, "each round gets on"

    assert sorted(found) == sorted(keys)
    assert requests <= len(keys) // PAGE + walked, "every page is full but for the last of a shard"


@given(KEYS, KEYS, st.none() | KEYS, st.integers(1, 5))
def test_cuts_ascend_between_what_was_listed_and_the_end(first: str, last: str, until: str | None, climb: int) -> None:
    first, last = min(first, last), max(first, last)
    if until is not None and until <= last:
        return

    cuts = cuts_of(first, last, until, climb)

    assert cuts == sorted(set(cuts))
    assert all(last < cut and (until is None or cut < until) for cut in cuts)
    assert len(cuts) < WAYS
