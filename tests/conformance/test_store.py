"""Every store gives the guarantees of `lakesweep.storage.store`."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.listing import list_all
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.s3.deleting import WINDOW_DELETES
from lakesweep.storage.store import PAGE_KEYS, DeleteRequest, Store, delete_all
from tests.conformance.keys import BAD_KEYS, STRANGE_KEYS
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import S3Server, seed_moto

THREADS = 16


def keys(store: Store, prefix: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def race(count: int, run: Callable[[int], object]) -> list[object]:
    """Call `run` with 0, 1, ... from threads that start together."""
    gate = threading.Barrier(count)

    def start(number: int) -> object:
        gate.wait()
        return run(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def wins(store: Store, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> bool:
    try:
        store.put(key, data, if_absent=if_absent, if_match=if_match)
    except PreconditionFailedError:
        return False
    return True


def put_many(store: Store, server: S3Server | None, names: Sequence[str]) -> None:
    if server is not None and server.name == "moto":
        bucket, _, prefix = store.location.removeprefix("s3://").partition("/")
        seed_moto(bucket, (f"{prefix}/{name}".lstrip("/") for name in names))
    elif isinstance(store, LocalStore):
        for name in names:
            path = Path(store.location, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    else:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda name: store.put(name, b"x"), names))


def codes(store: Store, requests: Sequence[DeleteRequest]) -> list[str]:
    results = store.delete(requests)
    assert [result.key for result in results] == [request.key for request in requests]
    return [result.code for result in results]


def test_location_is_normal(store: Store) -> None:
    assert store.location
    assert not store.location.endswith("/")


def test_reads_what_was_put(store: Store) -> None:
    for body in (b"", b"one", b"\0\xff\r\n", b"two"):
        etag = store.put("a/b", body)
        found = store.read("a/b")
        assert (found.data, found.etag) == (body, etag)
        (entry,) = store.list("a/")
        assert (entry.key, entry.size_bytes, entry.etag, entry.is_link) == ("a/b", len(body), etag, False)


def test_etag_changes_with_the_body(store: Store) -> None:
    """Also when bodies have one size and follow each other at once."""
    etags = [store.put("a", b"%04d" % number) for number in range(50)]
    assert len(set(etags)) == 50


def test_missing_object_is_not_found(store: Store) -> None:
    store.put("a/b", b"x")
    for key in ("b", "a/c", "a/b/c", "b/c"):
        with pytest.raises(ObjectNotFoundError):
            store.read(key)
    with pytest.raises(StorageError) as error:  # a folder is no object, and where there are folders it says so
        store.read("a")
    assert error.value.code in ("not_found", "is_directory")


def test_empty_store_lists_nothing(store: Store) -> None:
    assert keys(store) == []
    assert keys(store, "a/") == []


def test_list_is_ordered_and_exact(store: Store) -> None:
    """A folder means this folder: neither its namesakes nor a file of its name."""
    names = [
        "snapshot/LATEST",
        "snapshot/snapshot-1",
        "snapshot/snapshot-10",
        "snapshot/snapshot-2",
        "snapshot-x/a",
        "snapshot.x",
        "snapshot0",
        "snapshot2/snapshot-1",
        "Snapshot/a",
        "branch/branch-b/snapshot/snapshot-1",
        "z",
    ]
    for name in reversed(names):
        store.put(name, b"x")
    assert keys(store) == sorted(names)
    assert keys(store, "snapshot/") == [
        "snapshot/LATEST",
        "snapshot/snapshot-1",
        "snapshot/snapshot-10",
        "snapshot/snapshot-2",
    ]
    assert keys(store, "snapshot2/") == ["snapshot2/snapshot-1"]
    assert keys(store, "branch/branch-b/") == ["branch/branch-b/snapshot/snapshot-1"]
    for missing in ("snap/", "snapshot0/", "z/", "snapshot/snapshot-1/", "branch/branch/"):
        assert keys(store, missing) == []


def test_list_sees_every_change_that_returned(store: Store) -> None:
    store.put("a/1", b"x")
    store.put("a/2", b"x")
    assert keys(store, "a/") == ["a/1", "a/2"]
    assert codes(store, delete_all(["a/1"])) == ["deleted"]
    assert keys(store, "a/") == ["a/2"]
    with pytest.raises(ObjectNotFoundError):
        store.read("a/1")
    store.put("a/1", b"again")
    assert keys(store, "a/") == ["a/1", "a/2"]


def test_list_goes_over_many_pages(store: Store, server: S3Server | None) -> None:
    """Two whole pages and a bit, each key once and in order."""
    names = sorted(f"data/f-{number}" for number in range(2003))
    put_many(store, server, names)
    assert keys(store, "data/") == names
    assert keys(store) == names
    for begin in range(0, len(names), 1000):
        assert set(codes(store, delete_all(names[begin : begin + 1000]))) == {"deleted"}
    assert keys(store) == []


def in_range(store: Store, prefix: str = "", after: str = "", until: str | None = None) -> list[str]:
    pages = list(store.list_range(prefix, after, until))
    assert all(len(page) <= PAGE_KEYS for page in pages)
    return [entry.key for page in pages for entry in page]


NESTED_KEYS = ["t/a/b", "t/a-b", "t/a.b", "t/a0", "t/b/c/d", "t/b/c/é", "t2/a", "t-/a", "t/" + "x" * 230]
RANGE_ENDS = [
    "t",
    "t/",
    "t/a",
    "t/a/",
    "t/a/b",
    "t/a/c",
    "t/b/c/d",
    "t/b/c/e",
    "t0",
    "t2/",
    "a b/",
    "a+b/c+",
    "ü/日本",
    "~",
]


def test_ranges_hold_what_lies_in_them(store: Store) -> None:
    """Wherever they begin and end: at objects, at folders, or at what is not there."""
    names = sorted([*STRANGE_KEYS, *NESTED_KEYS])
    for name in names:
        store.put(name, b"x")
    whole = list(store.list(""))
    assert [entry.key for entry in whole] == names
    assert [entry for page in store.list_range("") for entry in page] == whole
    for after in ["", *STRANGE_KEYS, *NESTED_KEYS, *RANGE_ENDS]:
        assert in_range(store, after=after) == [key for key in names if key > after]
        assert in_range(store, until=after) == [key for key in names if key <= after]
        assert in_range(store, "t/", after) == [key for key in names if key > after and key.startswith("t/")]
    for after in ["", *RANGE_ENDS[2:8]]:
        for until in RANGE_ENDS[1:7]:
            assert in_range(store, after=after, until=until) == [key for key in names if after < key <= until]


def test_ranges_that_meet_make_the_whole(store: Store, server: S3Server | None) -> None:
    """Two pages and a bit, cut anywhere; no page is asked for beyond the end of a range."""
    names = sorted(f"data/f-{number}" for number in range(2003))
    put_many(store, server, names)
    cuts = ["", "data/f-1", "data/f-10", "data/f-1500x", "data/f-1999", "data/g", "e", None]
    met = [in_range(store, "data/", after or "", until) for after, until in pairwise(cuts)]
    assert [key for part in met for key in part] == names
    assert [len(page) for page in store.list_range("data/")] == [1000, 1000, 3]
    pages = list(store.list_range("data/", until=names[999]))
    assert [len(page) for page in pages] == [1000]
    assert [entry.key for entry in next(store.list_range("data/", names[499]))] == names[500:1500]


@pytest.mark.parametrize("prefix", ["a", "/", "../"])
def test_bad_prefixes_of_ranges_are_refused(store: Store, prefix: str) -> None:
    with pytest.raises(StorageError) as error:
        list(store.list_range(prefix, "a", "b"))
    assert error.value.code == "bad_key"


def test_everything_is_listed_in_parallel(store: Store, server: S3Server | None) -> None:
    """Each object once, as `list` shows it, and nothing of a namesake."""
    names = sorted([f"t/dt=2026-{n % 12 + 1:02}/bucket-{n % 3}/data-{n:04x}-{n}.orc" for n in range(3003)])
    put_many(store, server, [*names, "t2/a", "t-/a", "s/a"])
    listed = list(store.list("t/"))
    assert [entry.key for entry in listed] == names
    for parallel in (1, 4):
        found = [entry for page in list_all(store, "t/", parallel=parallel) for entry in page]
        assert sorted(found, key=lambda entry: entry.key) == listed


@pytest.mark.parametrize("key", STRANGE_KEYS)
def test_strange_keys(store: Store, key: str) -> None:
    """What a name means is nobody's business: it comes back as it was put."""
    etag = store.put(key, b"x")
    assert store.read(key).data == b"x"
    assert keys(store) == [key]
    assert codes(store, [DeleteRequest(key, "0" * 32)]) == ["precondition_failed"]
    assert codes(store, [DeleteRequest(key, etag)]) == ["deleted"]
    store.put(key, b"x")
    assert codes(store, delete_all([key])) == ["deleted"]
    assert keys(store) == []


def test_strange_keys_together(store: Store) -> None:
    for key in STRANGE_KEYS:
        store.put(key, b"x")
    assert keys(store) == sorted(STRANGE_KEYS)
    assert codes(store, delete_all(STRANGE_KEYS)) == ["deleted"] * len(STRANGE_KEYS)
    assert keys(store) == []


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_keys_are_refused(store: Store, key: str) -> None:
    """And one among good ones stops no other delete."""
    store.put("good", b"x")
    store.put("good too", b"x")
    calls: list[Callable[[], object]] = [
        lambda: store.read(key),
        lambda: store.read_range(key, 0, 1),
        lambda: store.put(key, b"x"),
        lambda: store.put(key, b"x", if_absent=True),
    ]
    for call in calls:
        with pytest.raises(StorageError) as error:
            call()
        assert error.value.code == "bad_key"
    assert codes(store, [DeleteRequest(key, "etag")]) == ["bad_key"]
    assert codes(store, delete_all([key])) == ["bad_key"]
    assert codes(store, delete_all(["good", key])) == ["deleted", "bad_key"]
    assert keys(store) == ["good too"]


@pytest.mark.parametrize("prefix", ["a", "/", "/a/", "a//", "../", "a/../b/", "a\0/"])
def test_bad_prefixes_are_refused(store: Store, prefix: str) -> None:
    with pytest.raises(StorageError) as error:
        list(store.list(prefix))
    assert error.value.code == "bad_key"


def test_max_bytes(store: Store) -> None:
    store.put("a", b"12345")
    assert store.read("a", max_bytes=5).data == b"12345"
    with pytest.raises(StorageError) as error:
        store.read("a", max_bytes=4)
    assert error.value.code == "too_large"
    assert store.read("a").data == b"12345", "the connection is still good"


def test_parts_of_objects(store: Store) -> None:
    """Exactly the bytes that were asked for, with the ETag of the whole object."""
    body = bytes(range(256)) * 40
    etag = store.put("a/b", body)
    for start, length in [(0, 1), (0, len(body)), (1, 2), (255, 300), (len(body) - 1, 1), (len(body) - 7, 7)]:
        found = store.read_range("a/b", start, length)
        assert (found.data, found.etag) == (body[start : start + length], etag)
    newer = store.put("a/b", b"newer")
    found = store.read_range("a/b", 3, 2)
    assert (found.data, found.etag) == (b"er", newer)


@pytest.mark.parametrize(("start", "length"), [(0, 6), (4, 2), (5, 1), (6, 1), (0, 1 << 40), (1 << 40, 1)])
def test_parts_that_are_not_there(store: Store, start: int, length: int) -> None:
    """An object that ends before is an error: what is there of it is not returned."""
    store.put("a", b"12345")
    with pytest.raises(StorageError) as error:
        store.read_range("a", start, length)
    assert error.value.code == "too_short"
    assert store.read_range("a", 0, 5).data == b"12345", "the connection is still good"


def test_parts_of_an_empty_object(store: Store) -> None:
    store.put("a", b"")
    with pytest.raises(StorageError) as error:
        store.read_range("a", 0, 1)
    assert error.value.code == "too_short"


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 0), (0, -1), (-3, 5)])
def test_parts_that_mean_nothing(store: Store, start: int, length: int) -> None:
    """S3 reads a negative beginning as "the last bytes"."""
    store.put("a", b"12345")
    with pytest.raises(StorageError) as error:
        store.read_range("a", start, length)
    assert error.value.code == "bad_range"


def test_parts_of_a_missing_object(store: Store) -> None:
    store.put("a/b", b"x")
    for key in ("b", "a/c", "a/b/c"):
        with pytest.raises(ObjectNotFoundError):
            store.read_range(key, 0, 1)


def test_large_body(store: Store) -> None:
    body = bytes(range(256)) * (9 << 12)  # 9 MiB
    store.put("large", body)
    assert store.read("large").data == body
    assert next(store.list("")).size_bytes == len(body)


def test_put_is_atomic(store: Store) -> None:
    """Readers beside a writer see one whole body or the other, and always one."""
    bodies = (b"a" * 300_000, b"b" * 100_000)
    store.put("a", bodies[0])
    done = threading.Event()

    def read() -> set[bytes]:
        seen = set()
        while not done.is_set():
            seen.add(store.read("a").data)
        return seen

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for number in range(20):
            store.put("a", bodies[number % 2])
        done.set()
        assert set().union(*(reader.result() for reader in readers)) <= set(bodies)


def test_if_absent(store: Store) -> None:
    etag = store.put("a", b"one", if_absent=True)
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"two", if_absent=True)
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"one", if_absent=True)
    assert store.read("a").etag == etag
    store.delete(delete_all(["a"]))
    store.put("a", b"two", if_absent=True)
    assert store.read("a").data == b"two"


def test_if_match(store: Store) -> None:
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"one", if_match="0" * 32)
    first = store.put("a", b"one")
    second = store.put("a", b"two", if_match=first)
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"three", if_match=first)
    assert store.read("a").data == b"two"
    store.delete([DeleteRequest("a", second)])
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"three", if_match=second)
    assert keys(store) == []


def test_if_absent_has_one_winner(store: Store) -> None:
    """Sixteen writers, twenty keys, twenty winners; even when all bodies are equal."""
    for body in ("all alike", "by {}"):
        names = [f"{body[:2]}/{number:02}" for number in range(20)]

        def run(writer: int, body: str = body, names: list[str] = names) -> list[str]:
            data = body.format(writer).encode()
            return [name for name in names if wins(store, name, data, if_absent=True)]

        won = [name for found in race(THREADS, run) for name in found]  # type: ignore[attr-defined]
        assert sorted(won) == names


def test_if_match_has_one_winner(store: Store) -> None:
    names = [f"k/{number:02}" for number in range(20)]
    etags = {name: store.put(name, b"start") for name in names}

    def run(writer: int) -> list[str]:
        return [name for name in names if wins(store, name, b"by %d" % writer, if_match=etags[name])]

    won = [(writer, name) for writer, found in enumerate(race(THREADS, run)) for name in found]  # type: ignore[arg-type]
    assert sorted(name for _, name in won) == names
    for writer, name in won:
        assert store.read(name).data == b"by %d" % writer


def test_counter_loses_nothing(store: Store) -> None:
    """Compare and swap: every increment of every thread counts once."""
    store.put("counter", b"0")

    def run(_: int) -> None:
        for _ in range(5):
            while True:
                body = store.read("counter")
                if wins(store, "counter", b"%d" % (int(body.data) + 1), if_match=body.etag):
                    break

    race(4, run)
    assert store.read("counter").data == b"20"


def test_delete_answers_for_each_key(store: Store) -> None:
    """In the order of the requests; a missing object is no failure."""
    for name in ("b", "a", "c/d"):
        store.put(name, b"x")
    results = store.delete(delete_all(["c/d", "missing", "a", "c/d/e"]))
    assert [result.key for result in results] == ["c/d", "missing", "a", "c/d/e"]
    assert all(result.ok for result in results)
    assert [result.code for result in results][::2] == ["deleted", "deleted"]
    assert keys(store) == ["b"]
    assert store.delete([]) == []
    assert all(result.ok for result in store.delete(delete_all(["a", "a"])))


def test_an_object_above_another(store: Store, server: S3Server | None) -> None:
    """S3 keeps `a` beside `a/b`. Where objects are files of folders it is one or the other, and the answer says so."""
    folders = store.location.startswith("/") or (server is not None and server.name == "versitygw")
    store.put("a", b"one")
    if not folders:
        store.put("a/b", b"two")
        assert keys(store) == ["a", "a/b"]
        assert codes(store, delete_all(["a"])) == ["deleted"]
        assert keys(store) == ["a/b"]
        return
    with pytest.raises(StorageError):
        store.put("a/b", b"two")
    assert keys(store) == ["a"]
    assert store.read("a").data == b"one"


def test_delete_of_a_prefix_deletes_nothing(store: Store) -> None:
    store.put("a/b", b"x")
    results = store.delete(delete_all(["a"]))
    assert [result.key for result in results] == ["a"]
    assert keys(store) == ["a/b"]


def test_too_many_deletes_are_refused(store: Store) -> None:
    store.put("k0", b"x")
    with pytest.raises(StorageError):
        store.delete(delete_all(f"k{number}" for number in range(1001)))
    assert keys(store) == ["k0"]


@pytest.mark.parametrize("count", [1, WINDOW_DELETES - 1, WINDOW_DELETES, 40])
def test_conditional_delete(store: Store, server: S3Server | None, count: int) -> None:
    """Only what still is what the caller saw goes, among others that go without a condition.

    Of many, S3 is told the ETags in one request. AWS checks them. The servers that tests run delete all the same, which
    is why `docs/limits.md` says what protects a document there.
    """
    # One more has a condition, and is missing.
    checked = count + 1 <= WINDOW_DELETES or server is None or server.checks_etags_of_many
    names = [f"k{number:02}" for number in range(count)]
    etags = {name: store.put(name, name.encode()) for name in names}
    store.put(names[0], b"replaced")
    store.put("plain", b"x")
    requests = [DeleteRequest("gone", "0" * 32), *(DeleteRequest(name, etags[name]) for name in names)]
    requests.insert(1, DeleteRequest("plain"))
    missing, *found = codes(store, requests)
    assert missing in ("already_gone", "deleted")  # some servers of S3 cannot tell
    assert found == ["deleted", "precondition_failed" if checked else "deleted"] + ["deleted"] * (count - 1)
    assert keys(store) == ([names[0]] if checked else [])
    if checked:
        assert store.read(names[0]).data == b"replaced"


def test_one_key_with_and_without_condition(store: Store) -> None:
    """Each request has the answer that it got."""
    store.put("a", b"x")
    first, second = store.delete([DeleteRequest("a", "0" * 32), DeleteRequest("a")])
    assert first.code in ("precondition_failed", "already_gone", "deleted")  # the last: it was gone, and S3 did not say
    assert second.code == "deleted"


def test_one_deleter_wins(store: Store, server: S3Server | None) -> None:
    """Of one delete and one put that expect the same ETag, one happens.

    versitygw looks at the condition of a delete first and deletes then, so there both may say that they did.
    """
    for number in range(10):
        key = f"lease-{number}"
        etag = store.put(key, b"start")
        store.put(key, b"first", if_match=etag)  # from here on a local folder has its lock
        etag = store.read(key).etag

        def run(who: int, key: str = key, etag: str = etag) -> bool:
            if who == 0:
                return store.delete([DeleteRequest(key, etag)])[0].code == "deleted"
            return wins(store, key, b"taken over", if_match=etag)

        deleted, replaced = race(2, run)
        assert deleted or replaced
        if server is None or server.deletes_at_once:
            assert deleted != replaced
            assert keys(store) == ([key] if replaced else [])
        store.delete(delete_all([key]))


def test_clock(store: Store) -> None:
    """The store's clock is near ours, and not ahead of what it has just written."""
    before_ms = time.time() * 1000
    store.put("a", b"x")
    (entry,) = store.list("")
    now_ms = store.now_ms()
    assert before_ms - 2_000 <= now_ms <= time.time() * 1000 + 1_000
    assert before_ms - 2_000 <= entry.modified_ms <= time.time() * 1000 + 1_000
    assert store.now_ms() >= now_ms


def test_clock_of_an_untouched_store(store: Store) -> None:
    before_ms = time.time() * 1000
    now_ms = store.now_ms()
    assert before_ms - 5_000 < now_ms < time.time() * 1000 + 5_000


def test_memory_clock_is_the_callers() -> None:
    store = MemoryStore(clock=lambda: 42)
    store.put("a", b"x")
    assert store.now_ms() == 42
    assert next(store.list("")).modified_ms == 42


def test_folders_of_a_folder(store: Store) -> None:
    """Names only, once each, of folders directly there, in the order of keys."""
    for key in ("db/a/x", "db/a/y/z", "db/a-b/x", "db/ü %/x", "db/file", "dbx/c/d", "e"):
        store.put(key, b"1")
    assert list(store.folders("db/")) == ["a-b", "a", "ü %"]
    assert list(store.folders("")) == ["db", "dbx"]
    assert list(store.folders("nothing/")) == []
    with pytest.raises(StorageError):
        list(store.folders("../"))


def test_folders_beyond_a_page(store: Store) -> None:
    """More folders than one page of a listing holds."""
    for number in range(1005):
        store.put(f"db/t{number:04}/f", b"1")
    assert list(store.folders("db/")) == [f"t{number:04}" for number in range(1005)]


def test_folders_among_names_what_is_there(store: Store) -> None:
    for key in ("a/x", "branch/b/c", "consumerx/y", "snapshot", "a b/c", "tag/ü%/z"):
        store.put(key, b"1")
    found = store.folders_among(["a", "a b", "branch", "changelog", "consumer", "tag", "b"])
    assert found == {"a", "a b", "branch", "tag"}
    assert store.folders_among([]) == frozenset()


def test_folders_among_never_names_too_few(store: Store) -> None:
    """A table with many partitions: one page does not reach the folders that come after them."""
    for number in range(1100):
        store.put(f"m={number:04}/f", b"1")
    for key in ("a/x", "z/x"):
        store.put(key, b"1")
    found = store.folders_among(["a", "b", "y", "z"])
    assert {"a", "z"} <= found
    assert "b" not in found


def test_folders_among_an_empty_store(store: Store) -> None:
    assert store.folders_among(["a"]) == frozenset()
