"""A large table of the running system, with orphans: metadata as the engine would leave it, and files that are filler.

It is that of `benchmarks/orphan_tables.py`: one file in a hundred is an orphan. All of it was written long ago, nothing
of it expires, and no event tells of it.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import orphan_tables
from benchmarks.large_table import START_MS
from benchmarks.orphan_tables import ScannedTable, Shape
from tests.support.system.deployed import PREFIX, System
from tests.support.system.filler import Filler


@dataclass(frozen=True, slots=True)
class FilledTable:
    """Where it is, and what should become of it."""

    location: str
    shape: Shape
    orphans: frozenset[str]
    """Keys below the table."""
    others: frozenset[str]
    """What is to stay, documents included."""

    def problems(self, system: System) -> list[str]:
        """Say what is not as it should be once the orphans should be gone."""
        there = {each.key for each in system.store(self.location.partition(f"/{PREFIX}/")[2]).list("")}
        left, lost = sorted(self.orphans & there), sorted(self.others - there)
        return [
            *([f"{self.location}: {len(left)} orphans are still there, such as {left[0]}"] if left else []),
            *([f"{self.location}: {len(lost)} objects are gone, such as {lost[0]}"] if lost else []),
        ]


class _Written(ScannedTable):
    """Writes metadata, and notes data files instead of writing them."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder, shape)
        self.created: list[str] = []

    def _create(self, partition: int, name: str) -> None:
        self.created.append(f"{orphan_tables._bucket(partition)}/{name}")


def write_filled(system: System, name: str, shape: Shape) -> FilledTable:
    """Write such a table.

    Args:
        system: Where.
        name: Its path below the warehouse.
        shape: How large it is.
    """
    prefix = f"{PREFIX}/{name}/"
    with tempfile.TemporaryDirectory(prefix="lakesweep-filled-", dir="build") as folder:
        table = _Written(Path(folder) / "table", shape)
        table.write()
        documents = dict(_documents(Path(folder) / "table"))
    rule = system.rules["SnapshotWrittenRule"]
    told, rule.on_delivery = rule.on_delivery, lambda _: False
    outside = system.backdoor(name)
    for key, body in documents.items():
        outside.put(key, body)
    outside.age(system.clock.now() - START_MS / 1000)
    rule.on_delivery = told
    with system.aws.alone():
        filler = system.aws.fillers.setdefault(system.bucket, Filler(START_MS / 1000))
        filler.add(prefix + key for key in table.created)
    live = len(table.created) - shape.orphans
    return FilledTable(
        system.location(name),
        shape,
        orphans=frozenset(table.created[live:]),
        others=frozenset((*table.created[:live], *documents)),
    )


def _documents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name in ("schema", "manifest", "snapshot"):
        for path in sorted((folder / name).iterdir()):
            yield f"{name}/{path.name}", path.read_bytes()
