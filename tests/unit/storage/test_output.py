"""The file that a person names for output. A FIFO stands for every device and pipe."""

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pyarrow
import pytest
from pyarrow import parquet

from lakesweep.api.exports import Column, export
from lakesweep.cli.page import PageFile
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.storage.local.output import created, is_direct, is_stdout, replaced
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call

Opened = Callable[[Path], AbstractContextManager[BinaryIO]]
both = pytest.mark.parametrize("opened", [created, replaced])


@pytest.fixture
def reader() -> Iterator[Callable[[Path], Future[bytes]]]:
    """Read a FIFO to its end, as another process would."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda path: pool.submit(path.read_bytes)


def fifo(folder: Path, name: str) -> Path:
    os.mkfifo(folder / name)
    return folder / name


def is_fifo(path: Path) -> bool:
    return stat.S_ISFIFO(path.lstat().st_mode)


@both
@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_stays_a_pipe(
    tmp_path: Path, opened: Opened, is_link: bool, reader: Callable[[Path], Future[bytes]]
) -> None:
    """It gets the bytes itself. It is not given to a file by a rename, and no file is left."""
    pipe = target = fifo(tmp_path, "pipe")
    if is_link:
        target = tmp_path / "link"
        target.symlink_to(pipe)
    found = reader(pipe)
    with opened(target) as file:
        file.write(b"one")
    assert (found.result(5), is_fifo(pipe), is_direct(target)) == (b"one", True, True)
    assert len(list(tmp_path.iterdir())) == 1 + is_link


@both
def test_a_folder_is_refused(tmp_path: Path, opened: Opened) -> None:
    """Also an empty one, which a rename would replace."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"director|exists"), opened(tmp_path / "folder") as file:
        file.write(b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Its mode stays, and where its path is a link, the link stays. An error leaves the old one."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    with pytest.raises(RuntimeError), replaced(link) as file:
        file.write(b"half")
        raise RuntimeError
    assert real.read_bytes() == b"old"
    with replaced(link) as file:
        file.write(b"new")
        assert real.read_bytes() == b"old"
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode), link.is_symlink()) == (b"new", 0o640, True)
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link"}


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    """Neither what is there, nor what came while the file was written, be it a file, a pipe or a link to nothing."""
    target = tmp_path / "rows"
    for appear in (lambda: target.write_bytes(b"theirs"), lambda: os.mkfifo(target), lambda: target.symlink_to("gone")):
        with pytest.raises(FileExistsError), created(target) as file:
            file.write(b"ours")
            appear()
        before = target.lstat()
        if not is_fifo(target):
            with pytest.raises(FileExistsError), created(target):
                pass
        assert target.lstat() == before
        target.unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """A page asks again before its rename."""
    with pytest.raises(FileExistsError), replaced(tmp_path / "page") as file:
        file.write(b"ours")
        os.mkfifo(tmp_path / "page")
    assert [is_fifo(path) for path in tmp_path.iterdir()] == [True]


def test_open_descriptors(tmp_path: Path) -> None:
    """Their names are no files to replace, even where they lead to one: it keeps what others wrote."""
    with (tmp_path / "log").open("wb", buffering=0) as log:
        log.write(b"before ")
        with replaced(f"/dev/fd/{log.fileno()}") as file:
            file.write(b"page")
        log.seek(0, os.SEEK_END)
        log.write(b" after")
    assert (tmp_path / "log").read_bytes() == b"before page after"
    assert [is_stdout(path) for path in ("-", "/dev/stdout", "/dev/fd/1", "/dev/fd/2")] == [True, True, True, False]


def test_pages(tmp_path: Path, reader: Callable[[Path], Future[bytes]]) -> None:
    """`--html` writes into a pipe, and refuses a folder before the work."""
    page = PageFile(str(fifo(tmp_path, "page.html")), lambda _document, _text: "")
    page.check(as_json=True)
    found = reader(tmp_path / "page.html")
    assert page.write("<p>").endswith("page.html, 3 B")
    assert (found.result(5), is_fifo(tmp_path / "page.html")) == (b"<p>", True)
    with pytest.raises(UsageError, match="found a folder"):
        PageFile(str(tmp_path), lambda _document, _text: "").check(as_json=True)
    with pytest.raises(MaintenanceError, match="cannot write"):
        PageFile(str(tmp_path), lambda _document, _text: "").write("<p>")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_of_the_ledger(tmp_path: Path, ending: str, reader: Callable[[Path], Future[bytes]]) -> None:
    """`--to` writes CSV and Parquet into a pipe."""
    pipe = fifo(tmp_path, f"rows.{ending}")
    found = reader(pipe)
    assert export(str(pipe), [Column("name"), Column("n", "count")], [("a", 1)], print) == 1
    if ending == "csv":
        assert found.result(5) == b"name,n\na,1\n"
    else:
        assert parquet.read_table(pyarrow.BufferReader(found.result(5))).to_pylist() == [{"name": "a", "n": 1}]
    assert is_fifo(pipe)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_of_a_table(tmp_path: Path, ending: str, reader: Callable[[Path], Future[bytes]]) -> None:
    """`read --to` as well. A pipe whose name states no format is refused, and stays."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")), real_rows=True, types={"n": "INT"})
    table.commit("+A")
    pipe, bare = fifo(tmp_path, f"rows.{ending}"), fifo(tmp_path, "rows")
    found = reader(pipe)
    answer = call("read", table.store.location, "--to", pipe, "--json")
    assert answer.exit_code == 0, answer
    assert call("read", table.store.location, "--to", tmp_path / f"file.{ending}", "--json").exit_code == 0
    assert found.result(5) == (tmp_path / f"file.{ending}").read_bytes()
    assert is_fifo(pipe)
    assert call("read", table.store.location, "--to", bare).exit_code == 3
    assert is_fifo(bare)
