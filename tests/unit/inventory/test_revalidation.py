"""Candidates of an old listing: those that are still exactly that object, in few requests."""

import random
from bisect import bisect_right
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import StorageError
from lakesweep.storage.listing import list_all
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, Page, Store, StoredObject
from lakesweep.table.revalidation import just_before, revalidate
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import fresh_bucket, moto_client, moto_store, seed_moto
from tests.support.sampling import examples

PAGE = 10


class PagedStore(MemoryStore):
    """Lists as S3 does, in pages of ten; directory markers are in them, and are not shown."""

    reads_wait = True

    def __init__(self, keys: list[str], fail_at: int = -1) -> None:
        super().__init__()
        self.keys = sorted(keys)
        self.requests: list[tuple[str, str | None]] = []
        self.fail_at = fail_at

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        assert prefix == ""
        last = after
        while True:
            self.requests.append((last, until))
            if len(self.requests) == self.fail_at:
                raise StorageError("no answer")
            begin = bisect_right(self.keys, last)
            found = self.keys[begin : begin + PAGE]
            yield tuple(listed(key) for key in found if not key.endswith("/") and (until is None or key <= until))
            if begin + PAGE >= len(self.keys) or (until is not None and found[-1] >= until):
                return
            last = found[-1]

    @property
    def page_count(self) -> int:
        """Pages of all that there is."""
        return -(-len(self.keys) // PAGE)


def listed(key: str) -> StoredObject:
    """Return an object that is always the same for a key."""
    return StoredObject(key, len(key), f"etag of {key}", 1_000_000)


def all_of(store: Store) -> list[StoredObject]:
    """Return everything that is listed."""
    return [each for page in list_all(store, parallel=1) for each in page]


def test_what_was_written_again_or_is_gone_stays() -> None:
    """An object that was written again since the inventory was made stays, and so does one that is gone."""
    store = moto_store("db.db/t")
    for name in ("same", "rewritten", "grown", "gone"):
        store.put(f"bucket-0/{name}", b"12345")
    candidates = all_of(store)
    store.put("bucket-0/rewritten", b"54321")
    store.put("bucket-0/grown", b"123456")
    store.delete([DeleteRequest("bucket-0/gone")])
    assert revalidate(store, candidates) == {"bucket-0/same"}


def test_written_again_with_equal_bytes() -> None:
    """Equal bytes have an equal ETag; the time tells, to a second."""
    store = MemoryStore()
    store.put("a", b"1")
    (found,) = all_of(store)
    second = found.modified_ms // 1000 * 1000
    for time_ms, is_same in (
        (found.modified_ms, True),
        (second, True),
        (second - 1, False),
        (second + 1000, False),
        (found.modified_ms + 86_400_000, False),
    ):
        store.set_modified("a", time_ms)
        assert revalidate(store, [found._replace(modified_ms=second)]) == ({"a"} if is_same else set())
    store.set_modified("a", second + 5)
    assert not revalidate(store, [found._replace(modified_ms=second + 6)])


@pytest.mark.parametrize("field", ["size_bytes", "etag", "modified_ms"])
def test_every_part_of_the_identity(field: str) -> None:
    """Each of size, ETag and time is compared."""
    store = PagedStore(["a", "b", "c"])
    other = {"size_bytes": 7, "etag": "another", "modified_ms": 5_000}[field]
    assert revalidate(store, [listed("a"), listed("b")._replace(**{field: other}), listed("c")]) == {"a", "c"}


def test_links_are_no_candidates() -> None:
    """What became a symbolic link is not that object."""

    class Linked(PagedStore):
        def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
            yield tuple(listed(key)._replace(is_link=True) for key in self.keys)

    assert not revalidate(Linked(["a"]), [listed("a")])


def test_keys_given_twice_are_in_doubt() -> None:
    """An inventory that lists two versions of a key as current says nothing of it."""
    store = PagedStore(["a", "b"])
    assert revalidate(store, [listed("a"), listed("a")._replace(etag="x"), listed("b")]) == {"b"}


def test_nothing_to_look_up() -> None:
    """No candidates, no requests."""
    store = PagedStore(["a"])
    assert revalidate(store, []) == revalidate(store, [], parallel=4) == frozenset()
    assert store.requests == []


@pytest.mark.parametrize("step", [1, 2, 5, 11, 37, 400, 999])
@pytest.mark.parametrize("there", [True, False])
def test_requests(step: int, there: bool) -> None:
    """At most a request for each page, and at most one for each candidate, whether they are there or not."""
    keys = [f"data-{number:05d}.parquet" for number in range(1000)]
    asked = keys[::step]
    store = PagedStore(keys if there else sorted(set(keys) - set(asked)) or ["x"])
    assert revalidate(store, map(listed, asked)) == (frozenset(asked) if there else frozenset())
    assert len(store.requests) <= min(len(asked), store.page_count) + 1


def test_siblings_that_go_on_from_a_lesser_letter() -> None:
    """`manifest-11...` lies before `manifest-12`, and none of it is listed on the way to that."""
    keys = [f"m-11{number:04d}" for number in range(500)] + ["m-12"]
    store = PagedStore(keys)
    assert revalidate(store, [listed("m-12")]) == {"m-12"}
    assert len(store.requests) == 1


def test_siblings_behind_the_last_letter_of_ascii() -> None:
    """Where such keys do come before a candidate, the listing goes on until it has passed them."""
    keys = [f"m-1~ü{number:04d}" for number in range(45)] + ["m-2", "m-3"]
    store = PagedStore(keys)
    assert revalidate(store, [listed("m-2"), listed("m-3")]) == {"m-2", "m-3"}
    assert len(store.requests) == 5


def test_no_page_is_listed_twice() -> None:
    """A request never begins before the last key that was shown, however near the next candidate is."""
    keys = [f"m-1~ü{number:04d}" for number in range(45)] + ["m-2"]
    store = PagedStore(keys)
    assert revalidate(store, [listed(keys[0]), listed("m-2")]) == {keys[0], "m-2"}
    assert len(store.requests) == 5


def test_pages_of_directory_markers() -> None:
    """A page may show nothing and yet not be the last."""
    keys = [f"a/{number:04d}/" for number in range(35)] + ["a/9", "b"]
    store = PagedStore(keys)
    assert revalidate(store, [listed("a/0"), listed("a/9"), listed("b")]) == {"a/9", "b"}


def test_a_failed_page_is_no_answer() -> None:
    """Nothing is concluded from the pages before."""
    keys = [f"{number:05d}" for number in range(200)]
    for number in range(1, 20):
        for parallel in (1, 4):
            with pytest.raises(StorageError, match="no answer"):
                revalidate(PagedStore(keys, fail_at=number), map(listed, keys), parallel=parallel)


@pytest.mark.parametrize("parallel", [1, 2, 7, 64])
def test_in_parallel(parallel: int) -> None:
    """Any number of requests at once gives the same answer, for one request more each at most."""
    keys = [f"{number:05d}" for number in range(500)]
    asked = random.Random(5).sample([*keys, *(f"{key}x" for key in keys)], 300)
    store = PagedStore(keys)
    assert revalidate(store, map(listed, asked), parallel=parallel) == set(asked) & set(keys)
    assert len(store.requests) <= store.page_count + 1 + 2 * parallel


def test_on_s3() -> None:
    """Thousands of keys on a server of S3: as many requests as pages where candidates are dense, few where not."""
    bucket, counter = fresh_bucket(), RequestCounter()
    seed_moto(bucket, (f"t/dt={number % 3}/data-{number:05d}.parquet" for number in range(3500)))
    seed_moto(bucket, ["t/dt=1/", "t/dt=3/€+ %25.parquet", "t2/x", "t/a b ", "t/a\ue000", "t/!"])
    store = moto_store("t", counter=counter, bucket=bucket)
    everything = all_of(store)
    for asked, most in (
        (everything, 5),
        ([each for each in everything if not each.key.startswith("dt")], 4),
        (everything[::700], 7),
        (everything[-1:], 1),
        (everything[:1], 1),
    ):
        before = counter.snapshot()["list"]
        assert revalidate(store, asked) == {each.key for each in asked}
        assert counter.snapshot()["list"] - before <= most
    moto_client().delete_object(Bucket=bucket, Key=f"t/{everything[700].key}")
    assert revalidate(store, everything[::700]) == {each.key for each in everything[::700]} - {everything[700].key}


_letters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\x01~\x7f/09\ud7ff\ue000\U0010ffff")
_keys = st.text(_letters, min_size=1, max_size=5)


@given(key=_keys, other=_keys, max_bytes=st.integers(0, 30))
@settings(max_examples=examples(500))
def test_just_before(key: str, other: str, max_bytes: int) -> None:
    """Property: it is less in UTF-8 as in Python, as long as the key at most where that matters, and tight."""
    before = just_before(key, max_bytes)
    assert before < key
    assert before.encode() < key.encode()
    assert len(before.encode()) <= max(max_bytes, len(key.encode()))
    # Only what goes on from the letter before with more than ASCII may lie between.
    if before < other < key and max_bytes == 30:
        stem = just_before(key, 0)
        assert other.startswith(stem) and other[len(stem) :] > "~"


@given(
    keys=st.sets(st.text("ab/~ü\x01", min_size=1, max_size=6), max_size=60),
    asked=st.sets(st.text("ab/~ü\x01", min_size=1, max_size=6), max_size=40),
    parallel=st.integers(1, 3),
)
@settings(max_examples=examples(300))
def test_any_candidates(keys: set[str], asked: set[str], parallel: int) -> None:
    """Property: of any keys, those that are there, whatever lies between them, and pages never overlap."""
    store = PagedStore(list(keys))
    there = {key for key in keys & asked if not key.endswith("/")}
    assert revalidate(store, map(listed, asked), parallel=parallel) == there
    if parallel == 1:
        afters = [after for after, _ in store.requests]
        assert afters == sorted(set(afters)) or len(afters) <= 1
