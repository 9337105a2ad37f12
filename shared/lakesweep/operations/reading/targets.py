"""Where rows are written: one file of Parquet, CSV or JSON lines, a folder of Parquet files, or a stream of JSON lines.

A file or folder appears under its name when all rows are in it, not before. Nothing that exists is replaced; a pipe or
device gets the rows at once. No target lies inside the table or its external roots.
"""

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from lakesweep.errors import RefusedError, StorageError, UsageError
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.reading.texts import csv_head, csv_lines, json_lines
from lakesweep.operations.reading.types import arrow_schema, load_arrow
from lakesweep.storage.local.output import created, is_direct
from lakesweep.storage.location import parse_location

STREAM = "-"
ENDINGS = (".parquet", ".csv", ".jsonl")
"""Of targets that are one file."""
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}$")
"""What people end the name of a file with, not that of a folder."""


class Target(Protocol):
    """Takes rows."""

    def write(self, split: int, batch: Any) -> None:
        """Write the rows of a record batch.

        Args:
            split: The number of the split, which ascends.
            batch: The rows.
        """


@contextmanager
def opened(path: str, plan: ReadPlan, emit: Callable[[str], None]) -> Iterator[Target]:
    """Open a target, and give it its name at the end, if no error ended the block.

    Args:
        path: A path that ends in `.parquet`, `.csv` or `.jsonl`, any other path for a folder, or `-`.
        plan: The plan.
        emit: Writes a text of several lines to the stream.

    Raises:
        UsageError: The path is no local path, or its folder does not exist.
        RefusedError: Something exists there that is no pipe or device (`target_exists`), or it lies inside the
            table (`target_in_table`).
        StorageError: The disk refused.
    """
    if path == STREAM:
        yield _Lines(emit, plan, json_lines)
        return
    final = checked_target(path, plan)
    try:
        with _open(final, plan) as target:
            try:
                yield target
            finally:
                target.close()
    except FileExistsError:
        raise _exists(final) from None
    except OSError as error:
        raise StorageError(f"{final}: expected to write rows there, but the disk refused: {error}") from error


def checked_target(path: str, plan: ReadPlan) -> Path:
    """Return the path of a new file or folder on this machine.

    Raises:
        UsageError: This is no local path, its folder does not exist, or it ends like a file of another format.
        RefusedError: Something exists there that is no pipe or device (`target_exists`), or it lies inside the
            table (`target_in_table`).
    """
    if "://" in path:
        raise UsageError(f"--to {path}: expected a path on this machine")
    final = Path(path)
    if not path.endswith(os.sep) and _ENDING.search(final.name) and final.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"--to {path}: expected {', '.join(ENDINGS)} at the end, or a folder without an ending, found "
            f"{final.suffix}; {path}/ makes a folder of this name"
        )
    if not final.absolute().parent.is_dir():
        raise UsageError(f"--to {path}: expected a folder {final.absolute().parent}, found none")
    check_outside(path, plan)
    _check_free(final)
    return final


def part_of(final: Path) -> Path:
    """Return the path of a target that is not whole yet."""
    return final.with_name(f".{final.name}.{os.getpid()}.part")


def check_outside(path: str, plan: ReadPlan) -> None:
    """Make sure that a target lies outside the table and its external roots.

    Raises:
        RefusedError: It lies inside one of them (`target_in_table`).
    """
    place = parse_location(path)
    for root in (plan.table, *plan.external_roots):
        try:
            within = parse_location(root)
        except UsageError:  # no store of this machine
            continue
        if within.contains(place):
            raise RefusedError(
                f"--to {path}: expected a path outside the table, found one inside {root}", code="target_in_table"
            )


def _check_free(final: Path) -> None:
    if os.path.lexists(final) and not (final.suffix.lower() in ENDINGS and is_direct(final)):
        raise _exists(final)


def _exists(final: Path) -> RefusedError:
    return RefusedError(f"--to {final}: expected a new file or folder, found one that exists", code="target_exists")


@contextmanager
def _open(final: Path, plan: ReadPlan) -> "Iterator[_File]":
    ending = final.suffix.lower()
    if ending not in ENDINGS:
        with _new_folder(final) as part:
            yield _Folder(part, plan)
        return
    with created(final) as file:
        if ending == ".parquet":
            yield _Parquet(file, plan)
        elif ending == ".csv":
            yield _Text(file, plan, csv_lines, csv_head([column.field for column in plan.columns]))
        else:
            yield _Text(file, plan, json_lines)


@contextmanager
def _new_folder(final: Path) -> Iterator[Path]:
    part = part_of(final)
    part.mkdir()
    try:
        yield part
        _check_free(final)
        part.rename(final)
    finally:
        with suppress(OSError):
            shutil.rmtree(part)


class _File(Target, Protocol):
    def close(self) -> None: ...


class _Lines:
    def __init__(self, emit: Callable[[str], object], plan: ReadPlan, lines: Callable[..., Iterator[str]]) -> None:
        self._emit = emit
        self._lines = lines
        self._fields = [column.field for column in plan.columns]

    def write(self, split: int, batch: Any) -> None:
        self._emit("".join(self._lines(batch, self._fields)))


class _Text(_Lines):
    def __init__(self, file: BinaryIO, plan: ReadPlan, lines: Callable[..., Iterator[str]], head: str = "") -> None:
        self._file = io.TextIOWrapper(file, "utf-8", newline="")
        super().__init__(self._file.write, plan, lines)
        self._file.write(head)

    def close(self) -> None:
        self._file.detach()


class _Parquet:
    def __init__(self, place: Path | BinaryIO, plan: ReadPlan) -> None:
        load_arrow()
        from pyarrow import parquet

        self._writer = parquet.ParquetWriter(place, arrow_schema(plan.columns), compression="zstd")

    def write(self, split: int, batch: Any) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Folder:
    """A Parquet file for each split with rows; one without rows, if there are none at all."""

    def __init__(self, path: Path, plan: ReadPlan) -> None:
        self._path = path
        self._plan = plan
        self._split: int | None = None
        self._file: _Parquet | None = None

    def write(self, split: int, batch: Any) -> None:
        if self._file is None or split != self._split:
            if self._file is not None:
                self._file.close()
            self._split, self._file = split, _Parquet(self._path / f"part-{split:05d}.parquet", self._plan)
        self._file.write(split, batch)

    def close(self) -> None:
        (self._file or _Parquet(self._path / "part-00000.parquet", self._plan)).close()
