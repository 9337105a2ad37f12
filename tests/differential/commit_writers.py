"""What the engine's writers do to a table, with what the model makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.differential.commit_model import Model, Row, contents_of
from tests.differential.commit_tables import DEFAULT_NAME, Kind, Partition
from tests.differential.engine import Engine
from tests.differential.writing import branch_root, snapshot_ids

LATE = "Etc/GMT+12"
"""Where clocks show twelve hours ago: files that are written there are old."""


@dataclass(slots=True)
class Writers:
    """Everybody who writes one table."""

    engine: Engine
    table: str
    kind: Kind
    random: Random
    model: Model
    done: list[str] = field(default_factory=list)
    """A line for each step."""
    columns: int = 0
    """How many were added to the table."""
    watermark: int = 1_700_000_000_000
    tags: int = 0
    """How many were made."""

    def begin(self) -> None:
        """Make the table and let some commits be in it."""
        self.engine("create", table=self.table, **self.kind.create)
        if self.kind.branch != "main":
            self._begin_branch()
        for partition in self.kind.partitions:
            self.put([partition], late=self.random.random() < 0.5)
        for _ in range(self.random.randint(0, 4)):
            self.anything()

    def _begin_branch(self) -> None:
        """Let main hold a row in each partition, and the branch the same."""
        rows = {partition: [("0", "of main")] for partition in self.kind.partitions}
        self.engine("put", table=self.table, rows=self._stated(rows))
        self.engine("tag", table=self.table, name="begin")
        self.engine("branch", table=self.table, name=self.kind.branch, tag="begin")
        self.model.put(rows)
        self.model.tagged["begin"] = self.model.contents
        self._committed()

    def anything(self) -> None:
        """Do what writers do on any day."""
        draw = self.random.random()
        if draw < 0.4:
            self.put(self._some(), late=self.random.random() < 0.4)
        elif draw < 0.55:
            self.overwrite(self._some()[:1])
        elif draw < 0.65:
            self.compact()
        elif draw < 0.72:
            self.delete()
        elif draw < 0.79:
            self.compact_manifests()
        elif draw < 0.86:
            self._do("statistics")
            self._committed()
        elif draw < 0.9 and self.kind.branch == "main":  # of a branch the engine cannot read tags
            self.tag()
        elif draw < 0.95:
            self.columns += 1
            self.engine("alter", **self.kind.at(self.table), add_columns=[[f"added_{self.columns}", "STRING"]])
            self.done.append("alter: another column")
        else:
            self.watermark += 60_000
            self.put(self._some(), watermark=self.watermark)

    def put(self, partitions: Sequence[Partition], *, late: bool = False, watermark: int | None = None) -> None:
        """Add rows to partitions."""
        rows = {partition: self._rows() for partition in partitions}
        words = {} if watermark is None else {"watermark": watermark}
        if late:
            self.engine("clock", name=LATE)
        try:
            self._do("put", rows=self._stated(rows), note=f"{list(rows)}{' late' if late else ''}", **words)
        finally:
            self.engine("clock", name="UTC")
        self.model.put(rows)
        self._committed()

    def overwrite(self, partitions: Sequence[Partition]) -> None:
        """Let partitions hold new rows only."""
        rows = {partition: self._rows() for partition in partitions}
        self._do("put", rows=self._stated(rows), overwrite=True, note=f"overwrite {list(rows)}")
        self.model.overwrite(rows)
        self._committed()

    def delete(self) -> None:
        """Delete rows, where the table can."""
        there = [partition for partition, rows in self.model.contents.items() if rows]
        if not there:
            return
        if self.kind.shape == "append with vectors":
            self._do("dv_delete", n=1)
            read = contents_of(self.kind, self.engine("rows", **self.kind.at(self.table)))
            for partition, rows in read.items():
                assert not set(rows) - set(self.model.contents[partition]), (partition, rows)
            self.model.learn(read)
            self._committed()
        elif self.kind.primary_key:
            partition = self.random.choice(sorted(there, key=repr))
            rows = self.random.sample(self.model.contents[partition], 1)
            self._do("put", rows=self._stated({partition: rows}), delete=True, note=f"delete in {partition}")
            self.model.delete({partition: [id for id, _ in rows]})
            self._committed()

    def drop(self, partition: Partition) -> None:
        """Drop one partition, whether or not it is there."""
        if not self.kind.keys:
            self._do("truncate")
            self.model.drop(lambda _: True)
        else:
            null = self.kind.options.get("partition.default-name", DEFAULT_NAME)
            values = (null if value is None else value for value in partition)
            self._do("drop_partitions", specs=[dict(zip(self.kind.names, values, strict=True))])
            # the name of null names null, and no string of that spelling
            self.model.drop(lambda other: other == (tuple(None if v == null else v for v in partition)))
        self._committed()

    def tag(self) -> None:
        """Name the newest snapshot."""
        name = f"t{self.tags}"
        self.tags += 1
        self._do("tag", name=name)
        self.model.tagged[name] = self.model.contents

    def compact(self) -> None:
        """Rewrite data files."""
        self._do("compact")
        self._committed()

    def compact_manifests(self) -> None:
        """Rewrite manifests."""
        self._do("compact_manifests")
        self._committed()

    def expire(self, keep: int) -> None:
        """Expire snapshots down to a number."""
        self._do("expire", retain_max=keep, retain_min=keep, time_retain_s=0)

    def roll_back(self) -> None:
        """Go back to a snapshot that is there."""
        there = [each[0] for each in self.engine("snapshots", **self.kind.at(self.table))["snapshots"]]
        # of a commit with a compaction the first snapshot may hide rows, which the model does not follow
        snapshot = self.random.choice([id for id in there if id in self.model.at][-4:])
        self._do("rollback", snapshot=snapshot)
        self.model.rolled_back(snapshot)

    def on_top(self, touched: Sequence[Partition]) -> list[Callable[[], object]]:
        """Return some of what writers must still be able to do, in a random order."""
        same = list(touched) or self._some()
        others = [partition for partition in self.kind.partitions if partition not in same] or same
        choose = self.random.choice
        steps: list[Callable[[], object]] = [
            lambda: self.put([choose(same)]),
            lambda: self.put([choose(others)]),
            lambda: self.overwrite([choose(same)]),
            lambda: self.overwrite([choose(others)]),
            lambda: self.drop(choose(same)),
            lambda: self.drop(choose(others)),
            self.compact,
            self.compact_manifests,
            self.delete,
        ]
        return [*self.random.sample(steps, 6), lambda: self.expire(self.random.randint(2, 6)), self.roll_back]

    def _some(self) -> list[Partition]:
        return self.random.sample(self.kind.partitions, self.random.randint(1, min(3, len(self.kind.partitions))))

    def _rows(self) -> list[Row]:
        ids = self.random.sample(range(12), self.random.randint(1, 4))
        return [(str(id), f"v{self.random.randrange(1 << 30)}") for id in ids]

    def _stated(self, rows: dict[Partition, list[Row]]) -> list[list[str | None]]:
        return [[*partition, *row] for partition, stated in rows.items() for row in stated]

    def _do(self, command: str, note: str = "", **words: object) -> None:
        self.done.append(f"{command} {note or words}")
        self.engine(command, **self.kind.at(self.table), **words)

    def _committed(self) -> None:
        """Remember what the newest snapshot holds."""
        found = snapshot_ids(branch_root(self.engine.location(self.table), self.kind.branch))
        self.model.committed(max(found, default=None))
