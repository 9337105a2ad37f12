"""A table that the engine writes, and copies of it on which the engine and Lakesweep act alike."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.ours import operate, run

Reads = Mapping[str, Mapping[str, int] | str]
"""Version -> rows and checksum, or why it cannot be read."""
Reader = Callable[[str], Reads]


@dataclass(frozen=True, slots=True)
class Losses:
    """Which of the versions that stay can be read after the engine, and after Lakesweep."""

    before: Reads
    after_engine: Reads
    after_ours: Reads

    @property
    def kept(self) -> Sequence[str]:
        """Return the versions that stay."""
        return [version for version in self.before if version in self.after_ours]

    @property
    def by_engine(self) -> Sequence[str]:
        """Return what the engine's run broke."""
        return [version for version in self.kept if self.after_engine.get(version) != self.before[version]]

    @property
    def by_ours(self) -> Sequence[str]:
        """Return what our run broke."""
        return [version for version in self.kept if self.after_ours[version] != self.before[version]]


@dataclass(frozen=True, slots=True)
class Stage:
    """The engine, and a table that is being written."""

    engine: Engine
    work: Path
    name: str

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Send the engine a command about the table."""
        return self.engine(command, table=f"d.{self.name}", **arguments)

    @property
    def location(self) -> Path:
        """Say where the table lies."""
        return self.engine.location(f"d.{self.name}")

    def create(self, **options: str) -> None:
        """Make an append table of two columns with a partition key; its writers expire nothing."""
        columns = [["p", "STRING"], ["k", "INT"], ["v", "STRING"]]
        settings = {**RETAIN_EVERYTHING, "bucket": "-1", **options}
        self("create", columns=columns, partition_keys=["p"], options=settings)

    def add(self, partition: str, **arguments: Any) -> int:
        """Commit one new file into a partition."""
        seed = int(time.monotonic_ns() % 10**9)
        return int(self("write", n=5, seed=seed, parts=[[partition]], **arguments)[-1])

    def replace(self, partition: str, **arguments: Any) -> int:
        """Commit a new file into a partition and take its other files out of the table."""
        return self.add(partition, overwrite={"p": partition}, **arguments)

    def copy(self, suffix: str) -> Stage:
        """Copy the table: no path in it is absolute."""
        copy = Stage(self.engine, self.work, self.name + suffix)
        shutil.copytree(self.location, copy.location)
        return copy

    def read(self) -> Reads:
        """Let the engine read every version of every branch."""
        return dict(self("scan_all"))

    def read_changes(self, count: int) -> Reads:
        """Let a streaming reader go on at each of the first commits in turn."""
        found: dict[str, Mapping[str, int] | str] = {}
        for number in range(1, count + 1):
            try:
                found[f"changes of commit {number}"] = self("stream", next=number)
            except EngineError as error:
                found[f"changes of commit {number}"] = f"failed: {error.error}"
        return found

    def expire(self, **arguments: Any) -> None:
        """Let the engine expire."""
        self("expire", older_than_ms=_soon_ms(), **arguments)

    def expire_ours(self, *, branch: str = "main", **arguments: int) -> None:
        """Let Lakesweep expire, called as the engine is."""
        argv = ["expire-snapshots", str(self.location), "--json", "--execute", "--branch", branch]
        argv += ["--control", str(self.work / "control"), "--older-than", str(_soon_ms())]
        for name, value in arguments.items():
            argv += ["--" + name.replace("_", "-"), str(value)]
        answer = run(argv)
        assert answer.exit_code == 0, f"{answer.messages} {answer.document}"

    def delete_tag_ours(self, name: str) -> None:
        """Let Lakesweep delete a tag."""
        answer = operate(
            self.location, "delete-tag", {"tag": [name]}, branch="main", control=self.work / "control" / self.name
        )
        assert answer.exit_code == 0 and answer.document["executed"], f"{answer.messages} {answer.document}"

    def lose(self, *, branch: str = "main", read: Callable[[Stage], Reads] | None = None, **arguments: int) -> Losses:
        """Expire copy A with the engine and copy B with Lakesweep, and read everything."""
        on_branch = {} if branch == "main" else {"branch": branch}
        return self.act(
            lambda copy: copy.expire(**arguments, **on_branch),
            lambda copy: copy.expire_ours(**arguments, branch=branch),
            read,
        )

    def act(
        self,
        engines: Callable[[Stage], None],
        ours: Callable[[Stage], None],
        read: Callable[[Stage], Reads] | None = None,
    ) -> Losses:
        """Let the engine act on copy A and Lakesweep on copy B, and read everything."""
        read = read or Stage.read
        before = read(self)
        broken = [version for version, found in before.items() if isinstance(found, str)]
        assert not broken, f"cannot be read to begin with: {broken}"
        a, b = self.copy("_a"), self.copy("_b")
        engines(a)
        ours(b)
        return Losses(before, read(a), read(b))


def _soon_ms() -> int:
    """Return now, so that age holds nothing back: commits of one test lie milliseconds apart."""
    return int(time.time() * 1000)
