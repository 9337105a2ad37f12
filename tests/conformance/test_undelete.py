"""Every store that keeps versions takes deletions back, and touches nothing else."""

from pathlib import Path

import pytest

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest, Store, UndeleteRequest, delete_all
from tests.conformance.keys import BAD_KEYS, STRANGE_KEYS
from tests.support.memory_store import MemoryStore


def delete(store: Store, *keys: str) -> list[UndeleteRequest]:
    """Delete objects and return what takes that back."""
    results = store.delete(delete_all(keys))
    assert all(result.code == "deleted" and result.version_id for result in results)
    return [UndeleteRequest(result.key, result.version_id or "") for result in results]


def undelete(store: Store, *requests: UndeleteRequest, only_check: bool = False) -> list[str]:
    results = store.undelete(requests, only_check=only_check)
    assert [result.key for result in results] == [request.key for request in requests]
    return [result.code for result in results]


def keys(store: Store) -> list[str]:
    return [entry.key for entry in store.list("")]


def test_what_was_deleted_comes_back(versioned: Store) -> None:
    """The same object, with its ETag; and a second time it is there already."""
    names = ["a", "a-1", "aa/b", "ab"]
    etags = {name: versioned.put(name, name.encode()) for name in names}
    requests = delete(versioned, "a", "aa/b", "ab")
    assert keys(versioned) == ["a-1"]
    assert undelete(versioned, *requests) == ["restored"] * 3
    assert keys(versioned) == names
    for name, etag in etags.items():
        found = versioned.read(name)
        assert (found.data, found.etag) == (name.encode(), etag)
    results = versioned.undelete(requests)
    assert [(result.code, result.etag) for result in results] == [
        ("already_there", etags[request.key]) for request in requests
    ]
    assert undelete(versioned) == []


def test_a_conditional_delete_comes_back(versioned: Store) -> None:
    """Singly and together."""
    for count in (1, 20):
        etags = {f"k{number}": versioned.put(f"k{number}", b"x") for number in range(count)}
        results = versioned.delete([DeleteRequest(key, etag) for key, etag in etags.items()])
        requests = [UndeleteRequest(result.key, result.version_id or "") for result in results]
        assert undelete(versioned, *requests) == ["restored"] * count
        assert set(keys(versioned)) == set(etags)


def test_asking_changes_nothing(versioned: Store) -> None:
    etag = versioned.put("a", b"x")
    (request,) = delete(versioned, "a")
    for _ in range(2):
        (result,) = versioned.undelete([request], only_check=True)
        assert (result.code, result.etag, result.ok) == ("restorable", etag, True)
        assert keys(versioned) == []
    assert versioned.read_deleted(request).data == b"x"
    assert versioned.read_deleted(request).etag == etag
    assert keys(versioned) == []


@pytest.mark.parametrize("only_check", [True, False])
def test_an_object_that_was_written_since_stays(versioned: Store, only_check: bool) -> None:
    versioned.put("a", b"old")
    (request,) = delete(versioned, "a")
    versioned.put("a", b"new")
    assert undelete(versioned, request, only_check=only_check) == ["marker_not_current"]
    assert versioned.read("a").data == b"new"
    with pytest.raises(ObjectNotFoundError):
        versioned.read_deleted(request)


@pytest.mark.parametrize("only_check", [True, False])
def test_a_later_deletion_stays(versioned: Store, only_check: bool) -> None:
    versioned.put("a", b"old")
    (first,) = delete(versioned, "a")
    versioned.put("a", b"new")
    (second,) = delete(versioned, "a")
    assert undelete(versioned, first, only_check=only_check) == ["marker_not_current"]
    assert keys(versioned) == []
    if isinstance(versioned, MemoryStore):  # S3 lists times in whole seconds, and cannot tell which marker hides it
        assert undelete(versioned, second) == ["restored"]
        assert versioned.read("a").data == b"new"
    else:
        assert undelete(versioned, second) in (["nothing_below"], ["restored"])


def test_only_markers_go(versioned: Store) -> None:
    """A version that is an object is never deleted, whatever a ledger says."""
    versioned.put("a", b"one")
    (request,) = delete(versioned, "a")
    versioned.undelete([request])
    if isinstance(versioned, MemoryStore):
        version_id = versioned._versions["a"][-1][0]
    else:
        (version,) = versioned._versions("a")  # type: ignore[attr-defined]
        version_id = version.version_id
    assert undelete(versioned, UndeleteRequest("a", version_id)) == ["already_there"]
    assert undelete(versioned, UndeleteRequest("a", "null")) == ["already_there"]
    assert undelete(versioned, UndeleteRequest("b", version_id)) == ["marker_gone"]
    assert versioned.read("a").data == b"one"


def test_a_marker_of_another_key(versioned: Store) -> None:
    versioned.put("a", b"x")
    versioned.put("ab", b"x")
    a, ab = delete(versioned, "a", "ab")
    assert undelete(versioned, UndeleteRequest("a", ab.version_id)) == ["marker_gone"]
    assert undelete(versioned, a, ab) == ["restored", "restored"]


def test_older_versions_stay_below(versioned: Store) -> None:
    """The newest of many versions comes back."""
    for number in range(5):
        versioned.put("a", b"%d" % number)
    (request,) = delete(versioned, "a")
    assert versioned.read_deleted(request).data == b"4"
    assert undelete(versioned, request) == ["restored"]
    assert versioned.read("a").data == b"4"


@pytest.mark.parametrize("key", [key for key in STRANGE_KEYS if "\t" not in key])
def test_strange_keys(versioned: Store, key: str) -> None:
    versioned.put(key, b"x")
    (request,) = delete(versioned, key)
    assert versioned.read_deleted(request).data == b"x"
    assert undelete(versioned, request) == ["restored"]
    assert keys(versioned) == [key]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_keys_fail_alone(versioned: Store, key: str) -> None:
    versioned.put("good", b"x")
    (good,) = delete(versioned, "good")
    assert undelete(versioned, UndeleteRequest(key, "1"), good) == ["bad_key", "restored"]
    with pytest.raises(StorageError):
        versioned.read_deleted(UndeleteRequest(key, "1"))


def test_read_deleted_is_bounded(versioned: Store) -> None:
    versioned.put("a", b"12345")
    (request,) = delete(versioned, "a")
    assert versioned.read_deleted(request, max_bytes=5).data == b"12345"
    with pytest.raises(StorageError) as error:
        versioned.read_deleted(request, max_bytes=4)
    assert error.value.code == "too_large"


def test_too_many(versioned: Store) -> None:
    with pytest.raises(StorageError) as error:
        versioned.undelete([UndeleteRequest(f"k{number}", "1") for number in range(1001)])
    assert error.value.code == "too_many"


def test_without_versions(tmp_path: Path) -> None:
    for store in (LocalStore(str(tmp_path)), MemoryStore()):
        store.put("a", b"x")
        store.delete(delete_all(["a"]))
        for call in (
            lambda store=store: store.undelete([UndeleteRequest("a", "1")]),
            lambda store=store: store.read_deleted(UndeleteRequest("a", "1")),
        ):
            with pytest.raises(StorageError) as error:
                call()
            assert error.value.code == "not_versioned"
