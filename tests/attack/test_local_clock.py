"""A folder whose file system has another clock than this machine."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.storage.local import clock as local_clock
from lakesweep.storage.local.store import LocalStore
from tests.support.metadata_files import stable_uuid
from tests.unit.cli.command_line import call, contents, write_table

DAY_NS = 86_400 * 10**9
ORPHAN = f"bucket-0/data-{stable_uuid('orphan')}-0.parquet"


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_clock, "_measured", {})


def set_machine(monkeypatch: pytest.MonkeyPatch, ahead_ns: int) -> None:
    """Let this process see another time than the kernel gives to files."""
    real_ns: Callable[[], int] = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + ahead_ns)
    monkeypatch.setattr(time, "time", lambda: (real_ns() + ahead_ns) / 1e9)


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
@pytest.mark.parametrize("ahead_ns", [-3 * DAY_NS, 3 * DAY_NS])
def test_the_time_is_that_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ns: int, kind: str
) -> None:
    """By a file without a name on a disk, by one with a name on a share; also before the root is made."""
    monkeypatch.setattr(local_clock, "_kind_of", lambda _: kind)
    real_ms = time.time_ns() // 1_000_000
    set_machine(monkeypatch, ahead_ns)
    store = LocalStore(str(tmp_path / "root"))
    assert abs(store.now_ms() - real_ms) < 60_000
    assert not (tmp_path / "root").exists()
    store.put("a", b"x")
    (entry,) = store.list("")
    assert abs(entry.modified_ms - real_ms) < 60_000, "what Lakesweep writes has the time of the others' files"
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_a_machine_that_is_days_ahead_deletes_no_young_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A writer is about to commit this file; the machine believes that it is three days old."""
    monkeypatch.setattr(local_clock, "_kind_of", lambda _: kind)
    write_table(tmp_path / "orders")
    (tmp_path / "orders" / ORPHAN).write_bytes(b"not committed yet")
    before = contents(tmp_path / "orders")
    set_machine(monkeypatch, 3 * DAY_NS)
    answer = call("remove-orphan-files", tmp_path / "orders", "--control", tmp_path / "control", "--json", "--execute")
    assert answer.document["status"] == "nothing_to_do", answer
    assert contents(tmp_path / "orders") == before


def test_a_machine_that_is_days_behind_finds_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "orders")
    (tmp_path / "orders" / ORPHAN).write_bytes(b"orphan")
    then_ns = time.time_ns() - 2 * DAY_NS
    os.utime(tmp_path / "orders" / ORPHAN, ns=(then_ns, then_ns))
    set_machine(monkeypatch, -3 * DAY_NS)
    answer = call("remove-orphan-files", tmp_path / "orders", "--control", tmp_path / "control", "--json")
    assert [action["path"] for action in answer.document["actions"]] == [ORPHAN]


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_a_dry_run_writes_nothing_into_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A folder's own time tells of every name that came or went."""
    monkeypatch.setattr(local_clock, "_kind_of", lambda _: kind)
    write_table(tmp_path / "orders")
    folders = [tmp_path / "orders", *(path for path in (tmp_path / "orders").rglob("*") if path.is_dir())]
    before = [folder.stat().st_mtime_ns for folder in folders]
    local_clock._measured.clear()
    time.sleep(0.05)
    call("remove-orphan-files", tmp_path / "orders", "--control", tmp_path / "control", "--json")
    assert [folder.stat().st_mtime_ns for folder in folders] == before
    assert not list(tmp_path.rglob(local_clock.CLOCK_NAME))


def test_what_a_killed_measurement_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is removed and not written to: somebody may have put another name of a file there."""
    monkeypatch.setattr(local_clock, "_kind_of", lambda _: "nfs4")
    (tmp_path / "victim").write_bytes(b"not ours")
    os.link(tmp_path / "victim", tmp_path / local_clock.CLOCK_NAME)
    (tmp_path / "root").mkdir()
    real_ms = time.time_ns() // 1_000_000
    assert abs(LocalStore(str(tmp_path / "root")).now_ms() - real_ms) < 60_000
    assert not (tmp_path / local_clock.CLOCK_NAME).exists()
    assert (tmp_path / "victim").read_bytes() == b"not ours"


def test_a_clock_that_is_set_anew_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a frozen sandbox finds it when it wakes: one clock went on, and the other did not."""
    store = LocalStore(str(tmp_path))
    measured = []
    real = local_clock._measure
    monkeypatch.setattr(local_clock, "_measure", lambda *place: (measured.append(place), real(*place)))
    store.now_ms()
    store.now_ms()
    assert len(measured) == 1
    set_machine(monkeypatch, 5 * 10**9)
    store.now_ms()
    assert len(measured) == 2


@pytest.mark.parametrize(("kind", "warns"), [("ext4", False), ("nfs4", True)])
def test_a_share_that_cannot_be_asked_for_its_time_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, warns: bool
) -> None:
    """A disk of this machine has this machine's time, so there is nothing to say."""
    write_table(tmp_path / "orders")
    monkeypatch.setattr(local_clock, "_kind_of", lambda _: kind)
    monkeypatch.setattr(local_clock, "_measure", lambda *_: None)
    local_clock._measured.clear()
    answer = call("remove-orphan-files", tmp_path / "orders", "--control", tmp_path / "control", "--json")
    assert ("this machine's clock" in answer.messages) == warns
