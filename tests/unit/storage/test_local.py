"""A local folder: links, permissions, odd names, other processes."""

import errno
import fcntl
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.format.names import snapshot_id_of
from lakesweep.storage.local.folders import Folders
from lakesweep.storage.local.locks import LOCK_NAME
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, delete_all


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


def keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as error:
        call()
    return error.value.code


def refusing(number: int, wanted: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a system call that fails for one path. Tests run as root, whom no permission stops."""

    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        above = path if isinstance(path, int) else named.get("dir_fd")
        folder = Path() if above is None else Path(f"/proc/self/fd/{above}").readlink()
        if str(folder if isinstance(path, int) else folder / path) == wanted:
            raise OSError(number, os.strerror(number), path)
        return real(path, *arguments, **named)

    return call


# Symbolic links


@pytest.fixture
def linked(root: Path, tmp_path: Path) -> LocalStore:
    """A folder with every kind of link, and what they point at outside."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "file").write_bytes(b"not ours")
    (outside / "sub/file").write_bytes(b"not ours")
    (root / "plain").write_bytes(b"x")
    (root / "file").symlink_to(outside / "file")
    (root / "folder").symlink_to(outside)
    (root / "dangling").symlink_to(tmp_path / "nothing")
    (root / "loop").symlink_to(root / "loop")
    (root / "up").symlink_to("..")
    (root / "within").symlink_to("plain")
    return LocalStore(str(root))


LINKS = ["dangling", "file", "folder", "loop", "up", "within"]


def test_links_are_listed_once_and_not_followed(linked: LocalStore) -> None:
    assert [(entry.key, entry.is_link) for entry in linked.list("")] == sorted(
        [("plain", False), *((name, True) for name in LINKS)]
    )


@pytest.mark.parametrize("prefix", ["folder/", "folder/sub/", "up/", "loop/", "dangling/", "up/root/folder/"])
def test_folder_behind_a_link_is_that_link(linked: LocalStore, prefix: str) -> None:
    """Neither its contents nor nothing: a caller must notice."""
    (entry,) = linked.list(prefix)
    assert (entry.key, entry.is_link) == (prefix.split("/", maxsplit=1)[0], True)


@pytest.mark.parametrize("key", [*LINKS, "folder/file", "folder/sub/file", "folder/missing", "up/root/plain", "loop/x"])
def test_links_are_neither_read_nor_written_nor_deleted(linked: LocalStore, tmp_path: Path, key: str) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    assert code_of(lambda: linked.read(key)) == "is_link"
    assert code_of(lambda: linked.put(key, b"new")) == "is_link"
    assert code_of(lambda: linked.put(key, b"new", if_absent=True)) == "is_link"
    assert code_of(lambda: linked.put(key, b"new", if_match="e")) == "is_link"
    assert [result.code for result in linked.delete([DeleteRequest(key)])] == ["is_link"]
    assert [result.code for result in linked.delete([DeleteRequest(key, "e")])] == ["is_link"]
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "outside/file").read_bytes() == b"not ours"


def test_root_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    store = LocalStore(str(tmp_path / "link"))
    etag = store.put("a/b", b"x")
    assert store.read("a/b").data == b"x"
    assert keys(store) == ["a/b"]
    assert (root / "a/b").read_bytes() == b"x"
    assert store.delete([DeleteRequest("a/b", etag)])[0].code == "deleted"


def test_file_that_became_a_link_is_not_followed(
    store: LocalStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its folder is open, somebody swaps it."""
    (tmp_path / "outside").write_bytes(b"not ours")
    store.put("a", b"x")
    parent = Folders.parent

    def swapped(folders: Folders, key: str) -> tuple[int, str]:
        found = parent(folders, key)
        (root / "a").unlink()
        (root / "a").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr(Folders, "parent", swapped)
    assert code_of(lambda: store.read("a")) == "is_link"


def test_lock_that_is_a_link_is_not_followed(store: LocalStore, root: Path, tmp_path: Path) -> None:
    etag = store.put("a", b"x")
    (root / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: store.put("a", b"y", if_match=etag)) == "is_link"
    assert not (tmp_path / "elsewhere").exists()
    assert store.read("a").data == b"x"


# Permissions and other failures


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, "access_denied"), (errno.EPERM, "access_denied")])
def test_refused_folder_is_not_empty(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    """Neither at the top nor deeper, where other files were listed before."""
    store.put("a", b"x")
    store.put("b/c/d", b"x")
    monkeypatch.setattr(os, "scandir", refusing(number, f"{root}/b/c", os.scandir))
    listing = store.list("")
    assert next(listing).key == "a"
    with pytest.raises(AccessDeniedError):
        next(listing)
    with pytest.raises(AccessDeniedError):
        keys(store, "b/c/")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_failing_folder_is_not_empty(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store.put("b/c", b"x")
    monkeypatch.setattr(os, "scandir", refusing(number, f"{root}/b", os.scandir))
    assert code_of(lambda: keys(store)) not in ("not_found", "access_denied")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_file_that_cannot_be_looked_at_fails_the_listing(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store.put("a", b"x")
    store.put("b", b"x")
    monkeypatch.setattr(os, "stat", refusing(number, f"{root}/b", os.stat))
    with pytest.raises(StorageError):
        keys(store)


@pytest.mark.parametrize(("number", "error"), [(errno.EACCES, AccessDeniedError), (errno.EIO, StorageError)])
def test_failed_read_is_not_missing(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[StorageError]
) -> None:
    store.put("a", b"x")
    monkeypatch.setattr(os, "open", refusing(number, f"{root}/a", os.open))
    with pytest.raises(error) as found:
        store.read("a")
    assert not isinstance(found.value, ObjectNotFoundError)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EACCES, "access_denied"), (errno.EIO, "EIO"), (errno.EROFS, "EROFS")]
)
def test_failed_delete_is_a_result(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    """It hides no other key's result."""
    for name in ("a", "b", "c"):
        store.put(name, b"x")
    monkeypatch.setattr(os, "unlink", refusing(number, f"{root}/b", os.unlink))
    results = store.delete(delete_all(["a", "b", "c"]))
    assert [result.code for result in results] == ["deleted", code, "deleted"]
    assert keys(store) == ["b"]


def test_full_disk_leaves_the_old_body(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for call in (lambda: store.put("a", b"new"), lambda: store.put("b", b"new", if_absent=True)):
        with pytest.raises(StorageError) as error:
            call()
        assert not isinstance(error.value, PreconditionFailedError)
    assert store.read("a").data == b"old"
    assert keys(store) == ["a"], "no temporary file stays"


def test_file_that_vanishes_while_listing_is_not_there(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c/d", "e"):
        store.put(name, b"x")
    monkeypatch.setattr(os, "stat", refusing(errno.ENOENT, f"{root}/b", os.stat))
    monkeypatch.setattr(os, "scandir", refusing(errno.ENOENT, f"{root}/c", os.scandir))
    assert keys(store) == ["a", "e"]


def test_listing_of_a_changing_folder(store: LocalStore) -> None:
    """What stays is listed every time, whatever else comes and goes."""
    for number in range(20):
        store.put(f"stays/{number:02}", b"x")
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            store.put("stays/10-new", b"x")
            store.put("comes/and/goes", b"x")
            store.delete(delete_all(["stays/10-new", "comes/and/goes"]))

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for _ in range(50):
            found = [key for key in keys(store) if key.startswith("stays/") and len(key) == 8]
            assert found == [f"stays/{number:02}" for number in range(20)]
    finally:
        done.set()
        writer.join()


# Names and kinds


def test_names_with_newlines_and_unicode(store: LocalStore, root: Path) -> None:
    names = ["a\nb", "c\r\td", "ü/日本語", "e\u0301", "\u00e9", " ", "-rf", "*"]
    for name in names:
        store.put(name, name.encode())
    assert keys(store) == sorted(names)
    assert [store.read(name).data for name in names] == [name.encode() for name in names]
    assert {result.code for result in store.delete(delete_all(names))} == {"deleted"}


def test_names_that_are_no_utf8_are_listed_and_left_alone(store: LocalStore, root: Path) -> None:
    """No plan or ledger could name them, so they stay; beside them everything works."""
    (root / "folder").mkdir()
    for path in (b"bad-\xff", b"folder/\xc3\x28", b"folder/good"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + path)).write_bytes(b"x")
    names = keys(store)
    assert names == sorted(os.fsdecode(path) for path in (b"bad-\xff", b"folder/\xc3\x28", b"folder/good"))
    assert [result.code for result in store.delete(delete_all(names))] == ["bad_key", "deleted", "bad_key"] or [
        result.code for result in store.delete(delete_all(names))
    ] == ["bad_key", "bad_key", "already_gone"]
    assert len(keys(store)) == 2
    assert code_of(lambda: store.read(names[0])) == "bad_key"


def test_long_names(store: LocalStore) -> None:
    """As long as the system allows, in bytes; a longer one fails as itself."""
    for name in ("n" * 255, "ü" * 127, "🙂" * 63):
        store.put(name, b"x")
        store.put(name, b"y", if_match=store.read(name).etag)
        assert store.read(name).data == b"y"
    for name in ("n" * 256, "🙂" * 64, "d/" * 2100 + "x"):
        assert code_of(lambda name=name: store.put(name, b"x")) == "ENAMETOOLONG"  # type: ignore[misc]
        assert code_of(lambda name=name: store.read(name)) == "ENAMETOOLONG"  # type: ignore[misc]
        assert store.delete(delete_all([name]))[0].code == "ENAMETOOLONG"


def test_folder_is_no_object(store: LocalStore, root: Path) -> None:
    (root / "folder").mkdir()
    store.put("file", b"x")
    assert keys(store) == ["file"]
    assert store.delete(delete_all(["folder"]))[0].code == "is_directory"
    assert code_of(lambda: store.put("folder", b"x")) not in ("not_found", "precondition_failed")
    assert code_of(lambda: store.put("file/below", b"x")) not in ("not_found", "precondition_failed")
    assert (root / "folder").is_dir()
    assert store.read("file").data == b"x"


def test_pipes_and_sockets_do_not_block(store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert keys(store) == ["pipe", "socket"]
        for name in ("pipe", "socket"):
            assert code_of(lambda name=name: store.read(name)) != "not_found"  # type: ignore[misc]


def test_missing_root(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "not/yet"))
    assert keys(store) == []
    assert code_of(lambda: store.read("a")) == "not_found"
    assert store.delete(delete_all(["a"]))[0].code == "already_gone"
    assert not (tmp_path / "not").exists()
    store.put("a", b"x")
    assert keys(store) == ["a"]


def test_relative_root_stays_where_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    store = LocalStore("t")
    monkeypatch.chdir("/")
    store.put("a", b"x")
    assert (root / "t/a").read_bytes() == b"x"


# Locks, temporary files, other processes


def test_lock_is_no_object(store: LocalStore, root: Path) -> None:
    """Only a put that matches makes one, and nobody can list, read, replace or delete it."""
    etag = store.put("a", b"x", if_absent=True)
    store.put("b", b"x")
    assert sorted(path.name for path in root.iterdir()) == ["a", "b"]
    store.put("a", b"y", if_match=etag)
    assert sorted(path.name for path in root.iterdir()) == sorted(["a", "b", LOCK_NAME])
    assert keys(store) == ["a", "b"]
    assert code_of(lambda: store.read(LOCK_NAME)) == "bad_key"
    assert code_of(lambda: store.put(LOCK_NAME, b"x")) == "bad_key"
    assert store.delete(delete_all([LOCK_NAME]))[0].code == "bad_key"


def test_conditional_deletes_make_no_lock(store: LocalStore, root: Path) -> None:
    """They happen inside tables, where nothing of ours may stay."""
    etag = store.put("a", b"x")
    assert store.delete([DeleteRequest("a", etag)])[0].code == "deleted"
    assert store.delete([DeleteRequest("b/c", etag)])[0].code == "already_gone"
    assert list(root.iterdir()) == []


def test_locked_folder_is_waited_for(store: LocalStore, root: Path) -> None:
    """Plain puts and conditional deletes too, once there is a lock: else they could undo a put that matched."""
    etag = store.put("a", b"y", if_match=store.put("a", b"x"))
    calls: list[Callable[[], object]] = [
        lambda: store.put("a", b"z", if_match=etag),
        lambda: store.put("b", b"z"),
        lambda: store.delete([DeleteRequest("b", "e")]),
    ]
    for call in calls:
        with (root / LOCK_NAME).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            thread = threading.Thread(target=call)
            thread.start()
            thread.join(0.1)
            assert thread.is_alive()
        thread.join(10)
        assert not thread.is_alive()


def test_temporary_files_look_like_no_root(store: LocalStore, root: Path) -> None:
    """A listing in the midst of a put shows no second snapshot, and no half one."""
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.update(path.name for path in root.rglob("*"))

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(100):
        store.put("snapshot/snapshot-7", b"x" * 10_000)
    done.set()
    watcher.join()
    temporary = seen - {"snapshot", "snapshot-7"}
    assert all(name.startswith(".") and name.endswith(".tmp") for name in temporary)
    assert [snapshot_id_of(name) for name in sorted(temporary)] == [None] * len(temporary)
    assert keys(store) == ["snapshot/snapshot-7"]


def test_etag_tells_bodies_apart_that_are_written_at_once(store: LocalStore) -> None:
    """Equal size, an inode used again, and one tick of the kernel's clock."""
    etags = [store.put("a", b"%03d" % number) for number in range(300)]
    assert len(set(etags)) == 300


def test_modified_is_the_file_systems(store: LocalStore, root: Path) -> None:
    store.put("a", b"x")
    os.utime(root / "a", ns=(0, 1_704_067_200_123_999_999))
    (entry,) = store.list("")
    assert entry.modified_ms == 1_704_067_200_123
    before_ms = time.time() * 1000
    now_ms = store.now_ms()
    assert before_ms - 1000 < now_ms < time.time() * 1000 + 1000


def increment(root: str, times: int) -> None:
    """Add one to the counter document, so many times."""
    store = LocalStore(root)
    for _ in range(times):
        while True:
            body = store.read("control/counter")
            try:
                store.put("control/counter", b"%06d" % (int(body.data) + 1), if_match=body.etag)
                break
            except PreconditionFailedError:
                continue


def test_processes_lose_no_increment(store: LocalStore, root: Path) -> None:
    store.put("control/counter", b"%06d" % 0)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=increment, args=(str(root), 25)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert store.read("control/counter").data == b"%06d" % 100
    assert keys(store) == ["control/counter"]


def test_requests_are_counted_as_s3_would(root: Path) -> None:
    counter = RequestCounter()
    store = LocalStore(str(root), counter)
    for number in range(1001):
        (root / f"k{number:04}").write_bytes(b"x")
    assert len(keys(store)) == 1001
    etag = store.put("a", b"12345")
    store.read("a")
    store.delete([DeleteRequest("a", etag), DeleteRequest("k0000"), DeleteRequest("k0001"), DeleteRequest("gone")])
    assert counter.snapshot() == {"get": 1, "head": 0, "list": 2, "put": 1, "delete": 2}
    assert (counter.deleted_keys, counter.read_bytes) == (3, 5)


# Folders of branches


def test_the_folder_of_a_branch_goes_with_its_last_file(tmp_path: Path) -> None:
    """To engines it is the branch. What else is in it stays with it, and other folders stay when they are empty."""
    store = LocalStore(str(tmp_path))
    keys = [f"branch/branch-{name}/{folder}" for name in ("a", "b") for folder in ("schema/schema-0", "tag/tag-t")]
    etags = {key: store.put(key, b"1") for key in (*keys, "schema/schema-0", "branch/loose")}
    store.put("branch/branch-a/tag/tag-t", b"2", if_match=etags["branch/branch-a/tag/tag-t"])  # leaves a lock
    (tmp_path / "branch/branch-b/tag/deep/er").mkdir(parents=True)
    (tmp_path / "branch/branch-b/link").symlink_to(tmp_path)
    store.delete([DeleteRequest("branch/branch-a/tag/tag-t")])
    assert (tmp_path / "branch/branch-a/tag").is_dir()
    store.delete([DeleteRequest(key) for key in (*keys, "schema/schema-0", "branch/loose")])
    assert sorted(path.name for path in (tmp_path / "branch").iterdir()) == ["branch-b"]
    assert (tmp_path / "branch/branch-b/link").is_symlink()
    assert (tmp_path / "schema").is_dir()
