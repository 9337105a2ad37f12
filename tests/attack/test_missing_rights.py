"""Folders that the user who runs Lakesweep may not enter, list or write: one sentence, an exit code, nothing lost."""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
from tests.support.reader import assert_all_readable
from tests.unit.cli.command_line import Answer, call, contents, write_table

NOBODY = 65_534
LOOK_EVERYWHERE = ("remove-orphan-files", "remove-unexisting-files", "remove-unexisting-manifests")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter. Those of pytest lie below one that only its own user may."""
    folder = Path(tempfile.mkdtemp(prefix="lakesweep-rights-"))
    folder.chmod(0o777)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o777)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], Any]) -> Any:
    """Do something as a user whom permissions stop, in a process of its own."""
    context = multiprocessing.get_context("fork")  # it has all modules: nobody may not even read the interpreter's
    here, there = context.Pipe()

    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        there.send(work())

    process = context.Process(target=run)
    process.start()
    there.close()
    found = here.recv()
    process.join(60)
    assert process.exitcode == 0
    return found


def give(folder: Path) -> None:
    """Let nobody own a folder and all in it, as whoever runs Lakesweep owns a table."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def expire(place: Path) -> Answer:
    arguments = ["--control", place / "control", "--retain-max", "1", "--retain-min", "1", "--json", "--execute"]
    return call("expire-snapshots", place / "orders", *arguments)


@pytest.mark.parametrize("command", ["expire-snapshots", "maintain", *LOOK_EVERYWHERE, "show", "tags"])
@pytest.mark.parametrize("mode", [0o666, 0o000])
@pytest.mark.parametrize("folder", ["", "snapshot", "schema", "bucket-0"])
def test_a_folder_that_may_not_be_entered_ends_in_a_sentence(place: Path, command: str, mode: int, folder: str) -> None:
    write_table(place / "orders")
    before = contents(place / "orders")
    give(place / "orders")
    executes = [] if command in ("show", "tags") else ["--control", place / "control", "--execute"]
    arguments = [command, place / "orders", "--json", *executes]
    call(command, place / "orders", "--json", *executes[:2])  # what is imported late is there now
    (place / "orders" / folder).chmod(mode)
    shutil.rmtree(place / "control", ignore_errors=True)
    answer = as_nobody(lambda: call(*arguments))
    (place / "orders" / folder).chmod(0o755)
    assert contents(place / "orders") == before
    assert "internal" not in answer.printed and "Traceback" not in answer.messages, answer
    if (command, folder) != ("tags", "snapshot") and (folder != "bucket-0" or command in LOOK_EVERYWHERE):
        # Other commands do not look there.
        assert answer.exit_code == 3, answer
        assert "permission denied" in answer.printed + answer.messages
        assert len(answer.sentences) <= 1


@pytest.mark.parametrize("mode", [0o666, 0o444, 0o555])
def test_files_in_a_folder_that_may_not_be_written_are_failures_of_their_own(place: Path, mode: int) -> None:
    store = LocalStore(str(place / "root"))
    for key in ("a/file", "b/file", "c/file"):
        store.put(key, b"x")
    (place / "root/b/folder").mkdir()
    give(place / "root")
    (place / "root/b").chmod(mode)
    requests = [DeleteRequest("a/file"), DeleteRequest("b/file"), DeleteRequest("b/folder"), DeleteRequest("c/file")]
    codes = as_nobody(lambda: [result.code for result in store.delete(requests)])
    kind = "is_directory" if mode & 0o100 else "access_denied"
    assert codes == ["deleted", "access_denied", kind, "deleted"]
    (place / "root/b").chmod(0o755)
    assert (place / "root/b/file").exists()


def test_an_expiry_that_may_not_delete_data_says_so_and_loses_nothing(place: Path) -> None:
    table = write_table(place / "orders")
    give(place / "orders")
    (place / "orders/bucket-0").chmod(0o666)
    answer = as_nobody(lambda: expire(place))
    assert answer.exit_code == 4, answer
    assert {failed["code"] for failed in answer.document["outcome"]["failed"]} == {"access_denied"}
    (place / "orders/bucket-0").chmod(0o755)
    assert expire(place).exit_code == 0
    assert_all_readable(table)


def test_a_control_location_that_may_not_be_written_refuses_the_run(place: Path) -> None:
    write_table(place / "orders")
    before = contents(place / "orders")
    give(place / "orders")
    (place / "control").mkdir(mode=0o755)
    answer = as_nobody(lambda: expire(place))
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "access_denied"), answer
    assert contents(place / "orders") == before


def test_a_fleet_policy_without_rights_is_not_no_policy(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pass nor `show` goes on as if no policy were given. A folder in its place is none, either."""
    write_table(place / "orders", options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"})
    before = contents(place / "orders")
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(place / "control"))
    (place / "policy.json").write_text('{"version": 1, "rules": []}')
    (place / "policy.json").chmod(0)
    (place / "control").mkdir()
    for name in ("orders", "control"):
        give(place / name)

    def ask(policy: str) -> list[tuple[int, str]]:
        argv = (place / "orders", "--policy", place / policy)
        found = call("maintain", *argv, "--execute"), call("show", *argv)
        return [(answer.exit_code, answer.messages) for answer in found]

    assert [code for code, _ in ask("absent.json")] == [2, 2]  # this also imports what nobody may not read
    denied = f"lakesweep: policy {place}/policy.json cannot be read: "
    assert [(code, text.startswith(denied)) for code, text in as_nobody(lambda: ask("policy.json"))] == [(3, True)] * 2
    for exit_code, text in as_nobody(lambda: ask("control")):
        assert exit_code in (1, 2, 3)
        assert f"policy {place}/control" in text
    assert contents(place / "orders") == before


def test_a_lock_file_of_another_user_is_named(place: Path) -> None:
    store = LocalStore(str(place / "root"))
    etag = store.put("area/a", b"2", if_match=store.put("area/a", b"1"))
    if os.geteuid() != 0:
        pytest.skip("only root makes files of another user")
    give(place / "root")
    lock = place / "root/area/.lakesweep.lock"
    os.chown(lock, 0, 0)
    lock.chmod(0o600)

    def put() -> str:
        try:
            return store.put("area/a", b"3", if_match=etag)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    assert as_nobody(put) == f"AccessDeniedError: lock {lock}: permission denied"
