"""The files of a table as the comparison sees them, and copies of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.differential.writing import external_root


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies below a table's directory and its external root; empty directories do not count."""

    files: Mapping[str, tuple[int, int]]
    """Path, relative to the table or absolute outside of it -> size and modification time. Without hints."""
    hints: Mapping[str, str]
    """Path of a hint -> its text."""

    @property
    def paths(self) -> frozenset[str]:
        """Return every path but those of hints."""
        return frozenset(self.files)

    @property
    def snapshots(self) -> frozenset[str]:
        """Return the paths of the main branch's snapshots."""
        return frozenset(path for path in self.files if path.startswith("snapshot/"))


def listing(location: Path) -> Listing:
    """List the files of a table."""
    files: dict[str, tuple[int, int]] = {}
    hints: dict[str, str] = {}
    for path in _walk(location):
        name = path.relative_to(location).as_posix()
        if path.name in ("EARLIEST", "LATEST") and path.parent.name in ("snapshot", "changelog"):
            hints[name] = path.read_text()
        else:
            status = path.stat()
            files[name] = (status.st_size, status.st_mtime_ns)
    for path in _walk(external_root(location)):
        status = path.stat()
        files[path.as_posix()] = (status.st_size, status.st_mtime_ns)
    return Listing(files, hints)


def _walk(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield Path(folder, name)


def save(location: Path, copy: Path) -> None:
    """Copy a table and its external files, with modification times."""
    shutil.copytree(location, copy / "table")
    if external_root(location).exists():
        shutil.copytree(external_root(location), copy / "external")


def restore(copy: Path, location: Path) -> None:
    """Make a table and its external files what they were when they were saved."""
    remove(location)
    shutil.copytree(copy / "table", location)
    if (copy / "external").exists():
        shutil.copytree(copy / "external", external_root(location))


def remove(location: Path) -> None:
    """Remove a table and its external files."""
    shutil.rmtree(location, ignore_errors=True)
    shutil.rmtree(external_root(location), ignore_errors=True)
