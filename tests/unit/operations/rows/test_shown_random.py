"""Who shows rows, on random tables: every root is read, and its rows tell whether the answer is right."""

from random import Random

import pytest

from lakesweep.model.commits.rows import RowsReport
from lakesweep.runs.parameters.time_travel import Version
from tests.support.root_model import BranchModel
from tests.support.rows_read import read_rows
from tests.support.world import World

DAYS, ROWS = ("d1", "d2", "d3"), 6
CONDITIONS = (
    "v = 'v00003'",
    "dt = 'd1' AND v IN ('v00001', 'v00004')",
    "dt > 'd1' AND v < 'v00002'",
    "dt IN ('d1', 'd3')",
    "v LIKE 'v0000%' AND NOT v = 'v00000'",
    "dt = 'd9'",
)
STEPS = ("add", "add", "delete", "delete", "drop", "compact", "tag", "branch", "back", "expire", "merge")


class History:
    """A table with random commits, tags and branches, and which rows the newest snapshot of each branch deletes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(real_rows=True, partition_keys=["dt"], options={"deletion-vectors.enabled": "true"})
        self.builders = {"main": self.world.table}
        self.deleted: dict[str, dict[str, dict[str, set[int]]]] = {"main": {}}
        """Branch -> snapshot or tag -> data file -> positions."""
        self.number = 0

    def new(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def now(self, branch: str) -> dict[str, set[int]]:
        ids = self.builders[branch].ids("snapshot")
        return {} if not ids else {k: set(v) for k, v in self.deleted[branch][str(ids[-1])].items()}

    def live(self, branch: str) -> list[str]:
        table = self.builders[branch]
        ids = table.ids("snapshot")
        return sorted(table.symbols(table.live(branch, ids[-1]))) if ids else []

    def step(self) -> None:
        branch = self.random.choice(sorted(self.builders))
        table, live = self.builders[branch], self.live(branch)
        kind = self.random.choice(
            ("add", "add", "delete", "delete", "drop", "compact", "tag", "branch", "back", "expire", "merge")
        )
        if kind == "add" or not live:
            self.commit(branch, [f"+{self.new('F')}"], (self.random.choice(DAYS),))
        elif kind == "delete":
            found = self.now(branch)
            for file in self.random.sample(live, self.random.randint(1, min(2, len(live)))):
                found.setdefault(file, set()).update(self.random.sample(range(ROWS), self.random.randint(1, 3)))
            self.commit(branch, [], deleted=found)
        elif kind in ("drop", "compact"):
            gone = self.random.choice(live)
            added = [f"+{self.new('F')}"] if kind == "compact" else []
            found = {file: rows for file, rows in self.now(branch).items() if file != gone}
            self.commit(branch, [f"-{gone}", *added], (self.day(gone),), found)
        elif kind == "tag":
            name = self.new("t")
            table.tag(name)
            self.deleted[branch][name] = self.now(branch)
        elif kind == "branch" and branch == "main" and len(self.builders) < 3:
            tags = sorted(name for name in self.deleted["main"] if name.startswith("t"))
            if tags:
                tag, name = self.random.choice(tags), self.new("b")
                self.builders[name] = table.branch(name, tag)
                first = str(self.builders[name].ids("snapshot")[-1])
                self.deleted[name] = {first: self.deleted["main"][tag], tag: self.deleted["main"][tag]}
        elif kind == "back":
            target = self.random.choice(table.ids("snapshot"))
            table.rollback_as_latest(target)
            self.deleted[branch][str(table.ids("snapshot")[-1])] = self.deleted[branch][str(target)]
        elif kind == "expire" and len(table.ids("snapshot")) > 1:
            table.remove(table.root(table.ids("snapshot")[0]))
        elif kind == "merge":
            self.deleted[branch][str(table.ids("snapshot")[-1] + 1)] = self.now(branch)
            table.merge_manifests()

    def day(self, symbol: str) -> str:
        return self.world.table.path(symbol).partition("/")[0].removeprefix("dt=")

    def commit(
        self,
        branch: str,
        entries: list[str],
        partition: tuple[str, ...] = (),
        deleted: dict[str, set[int]] | None = None,
    ) -> None:
        table, found = self.builders[branch], self.now(branch) if deleted is None else deleted
        index = None
        if deleted is not None:
            by_day: dict[str, dict[str, list[int]]] = {}
            for file, rows in found.items():
                by_day.setdefault(self.day(file), {})[file] = sorted(rows)
            index = {self.new("I"): vectors for vectors in by_day.values()}
        files = [entry[1:] for entry in entries if entry.startswith("+")]
        number = table.commit(
            *entries, index=index, partition=dict.fromkeys(files, partition), rows=dict.fromkeys(files, ROWS)
        )
        self.deleted[branch][str(number)] = found


def roots_with_rows(history: History, where: str) -> set[tuple[str, str, str]]:
    found = set()
    for branch, table in history.builders.items():
        state: BranchModel = table._branch
        for kind, versions in (("snapshot", state.ids("snapshot")), ("tag", list(state.roots["tag"]))):
            for name in versions:
                version = Version(snapshot_id=int(name)) if kind == "snapshot" else Version(tag=str(name))
                if read_rows(history.world.store, version, branch=branch, where=where):
                    found.add((branch, kind, str(name)))
    return found


def shown(history: History, branch: str, where: str) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """Return who shows rows for certain, and who may."""
    report = history.world.run("delete-rows", on=branch, execute=False, where=where, confirm=True)
    if report.commits is None:
        assert report.status == "nothing_to_do"
        return set(), set()
    assert isinstance(report.commits, RowsReport) and report.commits.shown_by is not None, report
    sets: tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]] = set(), set()
    for each in report.commits.shown_by:
        for part in each.roots.split(", "):
            words = part.split()
            ids = range(int(words[1]), int(words[3]) + 1) if words[2:3] == ["to"] else [words[1]]
            sets[not each.is_certain].update((each.branch, each.kind, str(name)) for name in ids)
    return sets


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(seed: int) -> None:
    """A root with such rows is named, and one that is named for certain has them."""
    history = History(seed)
    for _ in range(history.random.randint(4, 16)):
        history.step()
    for branch in history.builders:
        where = history.random.choice(CONDITIONS)
        truth = roots_with_rows(history, where)
        certain, perhaps = shown(history, branch, where)
        assert truth <= certain | perhaps, (where, truth - certain - perhaps)
        assert certain <= truth, (where, certain - truth)
        own = {name for name in truth if name[:2] == (branch, "snapshot")}
        newest = (branch, "snapshot", str(history.builders[branch].ids("snapshot")[-1]))
        assert (newest in certain) == (newest in own), where


def test_histories_have_what_matters() -> None:
    """Roots that show rows for certain, that may show some and do, that may and do not, and that do not."""
    kinds = {"certain": 0, "perhaps, and does": 0, "perhaps": 0, "none": 0, "several branches": 0}
    for seed in range(0, 60, 6):
        history = History(seed)
        for _ in range(12):
            history.step()
        where = CONDITIONS[seed // 6 % len(CONDITIONS)]
        truth = roots_with_rows(history, where)
        certain, perhaps = shown(history, "main", where)
        kinds["certain"] += len(certain)
        kinds["perhaps, and does"] += len(perhaps & truth)
        kinds["perhaps"] += len(perhaps - truth)
        kinds["none"] += not certain | perhaps
        kinds["several branches"] += len(history.builders) > 1
    assert all(kinds.values()), kinds
