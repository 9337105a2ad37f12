"""A local folder whose owner swaps folders for links, and puts things into it that are no files."""

import ctypes
import errno
import multiprocessing
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest, delete_all

FILES = 900
NOT_OURS = b"not ours"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


def fill(folder: Path, body: bytes, files: int = FILES) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"data-{number:03}.parquet").write_bytes(body)


def swap(folder: str, outside: str, begun: object, done: object) -> None:
    """Let a name stand for a folder and for a link out of the table, by turns, as fast as it goes."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    link = f"{folder}.link"
    Path(link).symlink_to(outside)
    begun.set()
    while not done.is_set():
        for _ in range(2):
            exchange(here, os.fsencode(folder), here, os.fsencode(link), both)


@contextmanager
def swapped(folder: Path, outside: Path) -> Iterator[None]:
    """Swap a folder in another process, meanwhile."""
    context = multiprocessing.get_context("spawn")
    begun, done = context.Event(), context.Event()
    process = context.Process(target=swap, args=(str(folder), str(outside), begun, done))
    process.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        done.set()
        process.join(60)
    assert process.exitcode == 0


def all_there(outside: Path, files: int = FILES) -> bool:
    return [path.read_bytes() for path in outside.rglob("data-*")] == [NOT_OURS] * files


@pytest.mark.parametrize("moved", ["part", "part/bucket-0"])
@pytest.mark.parametrize("with_etag", [False, True])
def test_no_deletion_leaves_the_table_while_a_folder_is_swapped_for_a_link(
    store: LocalStore, root: Path, tmp_path: Path, moved: str, with_etag: bool
) -> None:
    """Each of 900 files is asked for eight times."""
    fill(root / "part/bucket-0", b"ours")
    outside = tmp_path / "outside"
    fill(outside / "bucket-0" if moved == "part" else outside, NOT_OURS)
    for path in outside.rglob("data-*"):  # a link leads to files that look the same
        then = root / "part/bucket-0" / path.name
        os.utime(path, ns=(0, then.stat().st_mtime_ns))
    entries = list(store.list(""))
    codes: set[str] = set()
    with swapped(root / moved, outside):
        for _ in range(8):
            codes |= {
                result.code
                for entry in entries
                for result in store.delete([DeleteRequest(entry.key, entry.etag if with_etag else None)])
            }
    assert all_there(outside)
    assert codes <= {"deleted", "already_gone", "is_link"}
    assert "deleted" in codes


def test_a_bulk_deletion_stays_in_the_table_while_a_folder_is_swapped(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    fill(root / "bucket-0", b"ours")
    fill(tmp_path / "outside", NOT_OURS)
    keys = [entry.key for entry in store.list("")]
    with swapped(root / "bucket-0", tmp_path / "outside"):
        for _ in range(20):
            store.delete(delete_all(keys))
    assert all_there(tmp_path / "outside")


def test_no_write_leaves_the_table_while_a_folder_is_swapped(store: LocalStore, root: Path, tmp_path: Path) -> None:
    fill(tmp_path / "outside", NOT_OURS, files=1)
    (root / "tag").mkdir()
    with swapped(root / "tag", tmp_path / "outside"):
        for number in range(300):
            for if_absent in (True, False):
                try:
                    store.put(f"tag/tag-{number}", b"ours", if_absent=if_absent)
                except StorageError:
                    pass
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["data-000.parquet"]


def test_what_is_read_and_listed_comes_from_the_table_while_a_folder_is_swapped(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    """Each answer is that of the table, an error, or a link."""
    fill(root / "bucket-0", b"ours!!!!", files=20)
    fill(tmp_path / "outside", NOT_OURS, files=20)
    (tmp_path / "outside/data-more").write_bytes(NOT_OURS)
    ours = {entry.etag for entry in store.list("")}
    with swapped(root / "bucket-0", tmp_path / "outside"):
        for _ in range(500):
            try:
                assert store.read("bucket-0/data-000.parquet").data == b"ours!!!!"
            except StorageError:
                pass
            try:
                found = [entry for entry in store.list("bucket-0/") if not entry.is_link]
            except StorageError:
                continue
            assert {entry.etag for entry in found} <= ours
            assert "bucket-0/data-more" not in [entry.key for entry in found]


def test_no_folder_of_others_is_removed_with_a_branch(store: LocalStore, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for name in ("tag", "schema"):
        (root / "branch/branch-b" / name).mkdir(parents=True)
        (outside / name / "empty").mkdir(parents=True)
    with swapped(root / "branch/branch-b", outside):
        for number in range(300):
            try:
                store.put(f"branch/branch-b/tag/tag-{number}", b"ours")
            except StorageError:
                pass
            store.delete([DeleteRequest(f"branch/branch-b/tag/tag-{number}")])
    assert sorted(path.name for path in outside.rglob("*")) == ["empty", "empty", "schema", "tag"]


def test_another_folder_in_place_of_the_root_is_refused(store: LocalStore, root: Path, tmp_path: Path) -> None:
    """The root may be a link, but it stays the folder that it was when the run began."""
    fill(root / "bucket-0", b"ours", files=3)
    fill(tmp_path / "outside/bucket-0", NOT_OURS, files=3)
    keys = [entry.key for entry in store.list("")]
    root.rename(tmp_path / "aside")
    root.symlink_to(tmp_path / "outside")
    calls: list[Callable[[], object]] = [
        lambda: store.delete(delete_all(keys)),
        lambda: store.read(keys[0]),
        lambda: list(store.list("")),
        lambda: list(store.folders("")),
        lambda: store.folders_among(["bucket-0"]),
        lambda: store.put("new", b"x"),
    ]
    for call in calls:
        with pytest.raises(StorageError) as error:
            call()
        assert error.value.code == "moved"
    assert all_there(tmp_path / "outside", 3)
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["bucket-0"]


def test_links_to_folders_above_are_neither_followed_nor_deleted(store: LocalStore, root: Path) -> None:
    store.put("a/b/c", b"x")
    (root / "a/b/up").symlink_to("../..")
    (root / "a/b/self").symlink_to(".")
    (root / "a/b/root").symlink_to(root)
    assert [(entry.key, entry.is_link) for entry in store.list("")] == [
        ("a/b/c", False),
        ("a/b/root", True),
        ("a/b/self", True),
        ("a/b/up", True),
    ]
    keys = ["a/b/up", "a/b/up/a/b/c", "a/b/self/c", "a/b/root/a/b/c"]
    assert [result.code for result in store.delete(delete_all(keys))] == ["is_link"] * 4
    assert store.read("a/b/c").data == b"x"


def test_another_name_of_a_file_stays_when_one_is_deleted(store: LocalStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(NOT_OURS)
    os.link(tmp_path / "outside", root / "data-1.parquet")
    assert store.delete([DeleteRequest("data-1.parquet")])[0].code == "deleted"
    assert (tmp_path / "outside").read_bytes() == NOT_OURS


def test_a_write_over_another_name_of_a_file_leaves_that_file_as_it_was(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(NOT_OURS)
    os.link(tmp_path / "outside", root / "tag")
    store.put("tag", b"new", if_match=next(store.list("")).etag)
    assert (tmp_path / "outside").read_bytes() == NOT_OURS


def test_special_files_are_listed_and_never_opened_for_long(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe, a socket, a device, and a folder with the name of a snapshot."""
    monkeypatch.chdir(root)
    (root / "snapshot").mkdir()
    os.mkfifo(root / "snapshot/snapshot-1")
    (root / "snapshot/snapshot-2").mkdir()
    names = ["snapshot/snapshot-1", "snapshot/snapshot-3"]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("snapshot/snapshot-3")
        try:
            os.mknod(root / "snapshot/snapshot-4", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            names.append("snapshot/snapshot-4")
        except PermissionError:
            pass  # only root makes devices
        assert [entry.key for entry in store.list("")] == names
        for name in [*names, "snapshot/snapshot-2"]:
            with pytest.raises(StorageError) as error:
                store.read(name)
            assert not isinstance(error.value, ObjectNotFoundError)
        assert store.delete([DeleteRequest("snapshot/snapshot-2")])[0].code == "is_directory"


def test_a_lock_that_is_no_file_is_refused(store: LocalStore, root: Path) -> None:
    etag = store.put("a", b"x")
    for make in (os.mkfifo, os.mkdir):
        make(root / ".lakesweep.lock")
        with pytest.raises(StorageError) as error:
            store.put("a", b"y", if_match=etag)
        assert error.value.code in ("not_a_file", "is_directory")
        assert ".lakesweep.lock" in str(error.value)
        assert store.read("a").data == b"x"
        (root / ".lakesweep.lock").rename(root / f"lock-{make.__name__}")


def test_names_with_line_ends_are_deleted_alone(store: LocalStore, root: Path) -> None:
    for name in ("part\nx/data-1", "part", "x/data-1"):
        store.put(name, b"x")
    assert store.delete([DeleteRequest("part\nx/data-1")])[0].code == "deleted"
    assert [entry.key for entry in store.list("")] == ["part", "x/data-1"]


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_leaves_the_old_document_and_no_litter(tmp_path: Path, kind: str) -> None:
    """A small file system in memory where one can be mounted, and a limit to the size of files everywhere."""
    root = tmp_path / "disk"
    root.mkdir()
    if kind == "limit":
        child = [sys.executable, "-c", LIMITED, str(root)]
        found = subprocess.run(child, capture_output=True, text=True, timeout=60, check=False)
        assert (found.returncode, found.stdout.split()) == (0, ["EFBIG", "EFBIG"]), found.stderr
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", root], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        store = LocalStore(str(root))
        etag = store.put("a", b"old")
        for named in ({"if_match": etag}, {}):
            with pytest.raises(StorageError) as error:
                store.put("a", os.urandom(100_000), **named)
            assert error.value.code == errno.errorcode[errno.ENOSPC]
        with pytest.raises(StorageError):
            store.put("b", os.urandom(100_000), if_absent=True)
        assert store.read("a").data == b"old"
        assert [entry.key for entry in store.list("")] == ["a"]
        (root / "full").write_bytes(b"")
        with pytest.raises(OSError), (root / "full").open("ab") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
        assert abs(store.now_ms() - (root / "full").stat().st_mtime * 1000) < 60_000
        assert [result.code for result in store.delete(delete_all(["a", "full"]))] == ["deleted", "deleted"]
    finally:
        subprocess.run(["umount", "-l", root], check=True)


LIMITED = """
import resource, signal, sys
from lakesweep.errors import StorageError
from lakesweep.storage.local.store import LocalStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
store = LocalStore(sys.argv[1])
store.put("a", b"old")
for name, if_absent in (("a", False), ("b", True)):
    try:
        store.put(name, b"x" * 20_000, if_absent=if_absent)
    except StorageError as error:
        print(error.code)
assert store.read("a").data == b"old"
assert [entry.key for entry in store.list("")] == ["a"]
"""
