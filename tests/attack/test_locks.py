"""Lock files of local folders that somebody holds, and ones that were left behind."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire
from lakesweep.errors import MaintenanceError, PreconditionFailedError
from lakesweep.storage.local import locks as local_locks
from lakesweep.storage.local import store as local_store
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
from tests.unit.cli.command_line import call, contents, write_table

LOCK = ".lakesweep.lock"
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is what half a minute stands for."""
    monkeypatch.setattr(local_locks, "LOCK_WAIT_S", 0.5)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a lock file in another process."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        yield
    finally:
        process.communicate()


def test_every_call_that_needs_a_held_lock_ends_and_names_it(tmp_path: Path, soon: None) -> None:
    store = LocalStore(str(tmp_path))
    etag = store.put("area/lease.json", b"2", if_match=store.put("area/lease.json", b"1"))
    calls: list[Callable[[], object]] = [
        lambda: store.put("area/lease.json", b"3", if_match=etag),
        lambda: store.put("area/lease.json", b"3"),
        lambda: store.put("area/other.json", b"3", if_absent=True),
        lambda: store.delete([DeleteRequest("area/lease.json", etag)]),
    ]
    with held(tmp_path / "area" / LOCK):
        for each in calls:
            began_s = time.monotonic()
            with pytest.raises(MaintenanceError) as error:
                each()
            assert time.monotonic() - began_s < 10
            assert (error.value.exit_code, error.value.code) == (5, "lock_held")
            assert str(tmp_path / "area" / LOCK) in str(error.value)
    assert sorted(path.name for path in (tmp_path / "area").iterdir()) == [LOCK, "lease.json"]
    assert store.read("area/lease.json").data == b"2"


def test_a_run_beside_a_held_lock_ends_with_exit_code_5_and_deletes_nothing(tmp_path: Path, soon: None) -> None:
    write_table(tmp_path / "orders")
    control = tmp_path / "control"
    area = ControlArea(LocalStore(str(control)), str(tmp_path / "orders"))
    acquire(area, "earlier").release(ended=True)
    lock = control / area.prefix / LOCK
    assert lock.exists()
    before = contents(tmp_path / "orders")
    arguments = [
        "expire-snapshots",
        tmp_path / "orders",
        "--control",
        control,
        "--retain-max",
        "1",
        "--retain-min",
        "1",
    ]
    with held(lock):
        answer = call(*arguments, "--json", "--execute")
    assert answer.exit_code == 5, answer
    assert answer.document["refusal"]["code"] == "lock_held"
    assert [str(lock) in sentence for sentence in answer.sentences] == [True]
    assert contents(tmp_path / "orders") == before


def test_a_lock_that_is_let_go_in_time_delays_the_call_only(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    etag = store.put("a", b"2", if_match=store.put("a", b"1"))
    with (tmp_path / LOCK).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        threading.Timer(0.3, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        store.put("a", b"3", if_match=etag)
    assert store.read("a").data == b"3"


@pytest.mark.parametrize("folder", ["tag", "snapshot", "branch/branch-b/tag"])
def test_no_lock_stays_beside_the_documents_of_a_table(tmp_path: Path, folder: str) -> None:
    """Neither this call's nor one that an earlier version left."""
    store = LocalStore(str(tmp_path))
    etag = store.put(f"{folder}/document", b"1")
    etag = store.put(f"{folder}/document", b"2", if_match=etag)
    with pytest.raises(PreconditionFailedError):
        store.put(f"{folder}/document", b"3", if_match="another")
    assert [path.name for path in (tmp_path / folder).iterdir()] == ["document"]
    (tmp_path / folder / LOCK).touch()
    store.put(f"{folder}/document", b"3", if_match=etag)
    assert [path.name for path in (tmp_path / folder).iterdir()] == ["document"]


def test_puts_that_match_have_one_winner_though_the_lock_does_not_stay(tmp_path: Path) -> None:
    """Eight threads replace one document of a table, each on what it read; no replacement is lost."""
    stores = [LocalStore(str(tmp_path)) for _ in range(8)]
    stores[0].put("tag/counter", b"0")

    def count(store: LocalStore) -> None:
        for _ in range(10):
            while True:
                body = store.read("tag/counter")
                try:
                    store.put("tag/counter", b"%d" % (int(body.data) + 1), if_match=body.etag)
                    break
                except PreconditionFailedError:
                    continue

    threads = [threading.Thread(target=count, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].read("tag/counter").data == b"80"
    assert [path.name for path in (tmp_path / "tag").iterdir()] == ["counter"]


CHANGES = """
import random, sys
from lakesweep.errors import PreconditionFailedError, ObjectNotFoundError
from lakesweep.storage.local import store as local_store
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
store, chance = LocalStore(sys.argv[1]), random.Random(sys.argv[2])
for number in range(150):
    body = f"{sys.argv[2]} {number}".encode()
    try:
        before = store.read("tag/tag-a").etag
    except ObjectNotFoundError:
        before = ""
    try:
        if not before:
            print("made", store.put("tag/tag-a", body, if_absent=True))
        elif chance.random() < 0.8:
            made = store.put("tag/tag-a", body, if_match=before)
            print("used", before)
            print("made", made)
        elif store.delete([DeleteRequest("tag/tag-a", before)])[0].code == "deleted":
            print("used", before)
    except PreconditionFailedError:
        pass
"""


def test_processes_that_replace_and_delete_a_document_never_act_on_one_state_twice(tmp_path: Path) -> None:
    """Each state of the document that a process acted on was made once and is over once: no change is lost."""
    words = [sys.executable, "-c", CHANGES, str(tmp_path)]
    processes = [subprocess.Popen([*words, str(number)], stdout=subprocess.PIPE, text=True) for number in range(4)]
    lines = [line for process in processes for line in process.communicate(timeout=120)[0].splitlines()]
    assert [process.returncode for process in processes] == [0] * 4
    used, made = ([line.split()[1] for line in lines if line.startswith(word)] for word in ("used", "made"))
    assert len(used) == len(set(used)) > 100
    left = list((tmp_path / "tag").iterdir())
    assert [path.name for path in left] in ([], ["tag-a"])
    assert set(made) - set(used) == ({LocalStore(str(tmp_path)).read("tag/tag-a").etag} if left else set())


def test_a_put_that_waited_for_a_replaced_document_waits_for_its_replacement(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("tag/tag-a", b"1")
    document, other = tmp_path / "tag" / "tag-a", tmp_path / "other"
    other.write_bytes(b"2")
    waiting = threading.Thread(target=lambda: store.put("tag/tag-a", b"3"))
    with document.open("rb") as before, other.open("rb") as after:
        for file in (before, after):
            fcntl.flock(file, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(0.2)
        other.rename(document)
        fcntl.flock(before, fcntl.LOCK_UN)
        waiting.join(0.2)
        assert (waiting.is_alive(), document.read_bytes()) == (True, b"2")
    waiting.join(10)
    assert document.read_bytes() == b"3"


def test_a_put_of_a_document_that_somebody_makes_meanwhile_takes_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is over before a put that must match, or comes after it, but never in its middle."""
    store, key = LocalStore(str(tmp_path)), "snapshot/LATEST"
    (tmp_path / "snapshot").mkdir()
    plain = threading.Thread(target=lambda: store.put(key, b"plain"))
    reached, goes_on = threading.Event(), threading.Event()

    def guard() -> None:
        if threading.current_thread() is plain and not reached.is_set():
            reached.set()
            assert goes_on.wait(10)

    monkeypatch.setattr(local_store, "ask_guard", guard)
    plain.start()
    assert reached.wait(10)
    store.put(key, b"made", if_absent=True)
    with held(tmp_path / key):  # as a put that must match holds it
        goes_on.set()
        plain.join(0.3)
        assert (plain.is_alive(), store.read(key).data) == (True, b"made")
    plain.join(10)
    assert store.read(key).data == b"plain"


# Temporary files and locks of killed runs

KILLED = """
import os, sys
from lakesweep.storage.local import store as local
os.fsync = lambda descriptor: os._exit(9)
if sys.argv[3] == "named":
    os.O_TMPFILE = os.O_DIRECTORY  # a file system without such files
etag = sys.argv[4] if len(sys.argv) > 4 else None
local.LocalStore(sys.argv[1]).put(sys.argv[2], b"half", if_match=etag)
"""
DAY_S = 86_400


def test_a_put_that_is_killed_leaves_nothing_in_a_table(tmp_path: Path) -> None:
    """Neither a lock nor a temporary file, and the next put does not wait."""
    store = LocalStore(str(tmp_path))
    etag = store.put("tag/tag-a", b"1")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, "tag/tag-a", "nameless", etag], check=False, timeout=60
    )
    assert killed.returncode == 9
    assert contents(tmp_path) == {"tag/tag-a": b"1"}
    store.put("tag/tag-a", b"2", if_match=etag)
    assert contents(tmp_path) == {"tag/tag-a": b"2"}


def test_a_held_document_is_waited_for_and_named(tmp_path: Path, soon: None) -> None:
    store = LocalStore(str(tmp_path))
    etag = store.put("tag/tag-a", b"1")
    with held(tmp_path / "tag" / "tag-a"):
        for call_it in (
            lambda: store.put("tag/tag-a", b"2", if_match=etag),
            lambda: store.put("tag/tag-a", b"2"),
            lambda: store.delete([DeleteRequest("tag/tag-a", etag)]),
        ):
            with pytest.raises(MaintenanceError, match=str(tmp_path / "tag" / "tag-a")) as error:
                call_it()
            assert error.value.code == "lock_held"
        store.put("tag/tag-b", b"others are free")
    assert store.read("tag/tag-a").data == b"1"


@pytest.mark.parametrize(
    ("key", "later"),
    [
        ("tables/orders-1/plans/p1/header.json", "tables/orders-1/plans/p2/header.json"),
        ("tables/orders-1/lease.json", "tables/orders-1/lease.json"),
        ("tag/tag-a", "tag/tag-b"),
    ],
)
def test_what_a_killed_write_left_is_removed_by_a_later_one_after_a_day(tmp_path: Path, key: str, later: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, key, "named"], check=False, timeout=60)
    assert killed.returncode == 9
    (left,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    LocalStore(str(tmp_path)).put(later, b"whole")
    assert left.exists(), "somebody may write it right now"
    then_s = time.time() - DAY_S - 60
    os.utime(left, (then_s, then_s))
    LocalStore(str(tmp_path)).put(later, b"whole")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / later]


def test_temporary_files_of_others_stay(tmp_path: Path) -> None:
    """Paimon's, other programs', and whatever only looks alike."""
    uuid = "0123456789abcdef0123456789abcdef"
    names = [
        ".snapshot-9.01234567-89ab-cdef-0123-456789abcdef.tmp",
        f".tag-a.{uuid}.tmp",
        f"tag-a.{uuid}.lakesweep.tmp",
        f".tag-a.{uuid}.lakesweep.tmp.bak",
        ".tag-a.0123456789ABCDEF0123456789ABCDEF.lakesweep.tmp",
    ]
    (tmp_path / "tag").mkdir()
    for name in names:
        (tmp_path / "tag" / name).write_bytes(b"not ours")
        os.utime(tmp_path / "tag" / name, (0, 0))
    (tmp_path / "tag" / f".folder.{uuid}.lakesweep.tmp").mkdir()
    (tmp_path / "tag" / f".link.{uuid}.lakesweep.tmp").symlink_to(names[0])
    LocalStore(str(tmp_path)).put("tag/tag-b", b"x")
    assert len(list((tmp_path / "tag").iterdir())) == len(names) + 3
