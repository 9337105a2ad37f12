"""What earlier runs remember changes nothing: after any history a warm run ends where a cold one does.

The histories are random. A maintainer that remembers comes at random moments, with passes, dry runs and stored plans;
beside it another one, with a control location of its own, expires the same table. Everything else that happens to a
table happens too: rollbacks, tags, branches, consumers. At the end the table is copied, one copy is maintained by the
one that remembers and the other by one that knows nothing.
"""

import random

import pytest

from lakesweep.model.report import RunReport
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder

LOCATION = "memory://bucket/t"
RETENTIONS = (
    {"snapshot.num-retained.max": "3"},
    {"snapshot.num-retained.max": "3", "changelog.num-retained.max": "6", "changelog-producer": "lookup"},
    {"snapshot.num-retained.max": "3", "changelog.num-retained.max": "6"},
    {"snapshot.num-retained.max": "4", "changelog.num-retained.max": "5", "changelog-producer": "input"},
)
STATED = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1000000 d"}
STEPS = 24


class History:
    """A table, those who work on it, and what happens by chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.options = STATED | self.random.choice(RETENTIONS)
        self.has_producer = "changelog-producer" in self.options
        self.store = MemoryStore(LOCATION)
        self.table = TableBuilder(self.store, primary_keys=("k",), options=self.options)
        self.main = Maintainer(self.store)
        self.other = Maintainer(self.store)
        self.number = 0

    def run(self) -> None:
        acts = [self.commit] * 10 + [self.tag, self.untag, self.branch, self.branch_commit, self.rollback]
        acts += [self.as_latest, self.consumer, self.drop_branch]
        acts += [self.warm] * 4 + [self.look, self.stored, self.expire_elsewhere]
        self.commit()
        for _ in range(STEPS):
            self.random.choice(acts)()

    def commit(self, table: TableBuilder | None = None) -> None:
        table = table or self.table
        self.number += 1
        newest = f"{table._prefix}snapshot/snapshot-{table._branch.head.id}" if table._branch.head else None
        live = sorted({(file.symbol, file.level) for file in table.model(newest).live}) if newest else []
        gone = self.random.sample(live, min(len(live), self.random.choice((0, 0, 1, 2))))
        entries = [f"-{symbol}@{level}" for symbol, level in gone]
        if gone and self.random.random() < 0.3:
            entries.append(f"+{gone[0][0]}@{gone[0][1] + 1}")
        added = [f"F{self.number}x{index}" for index in range(self.random.randrange(3))]
        table.commit(
            *entries,
            *(f"+{symbol}" for symbol in added),
            kind="COMPACT" if gone else "APPEND",
            file_source={symbol: int(bool(gone)) for symbol in added},
            changelog=[f"+L{self.number}"] if self.has_producer and self.random.random() < 0.5 else (),
            merge_base=self.random.random() < 0.15,
        )

    def branches(self) -> list[str]:
        return sorted(
            {root.split("/")[1].removeprefix("branch-") for root in all_roots(self.store) if "branch/" in root}
        )

    def snapshots(self) -> list[int]:
        return [int(root.rpartition("-")[2]) for root in all_roots(self.store) if root.startswith("snapshot/")]

    def tags(self) -> list[str]:
        return [root.removeprefix("tag/tag-") for root in all_roots(self.store) if root.startswith("tag/")]

    def tag(self) -> None:
        self.number += 1
        name = self.random.choice(["again", f"t{self.number}"])
        self.table.tag(name, snapshot=self.random.choice(self.snapshots()))

    def untag(self) -> None:
        if self.tags():
            self.table.remove(f"tag/tag-{self.random.choice(self.tags())}")

    def branch(self) -> None:
        if not self.tags():
            return
        self.number += 1
        self.table.branch(f"b{self.number}", from_tag=self.random.choice(self.tags()))

    def branch_commit(self) -> None:
        if self.branches():
            self.commit(self.table.on_branch(self.random.choice(self.branches())))

    def drop_branch(self) -> None:
        if self.branches():
            name = self.random.choice(self.branches())
            for found in list(self.store.list(f"branch/branch-{name}/")):
                self.table.remove(found.key)
            del self.table._branches[name]

    def rollback(self) -> None:
        target = self.random.choice(sorted(self.snapshots()))
        for kind, roots in self.table._branch.roots.items():  # the builder does not know what expired
            for name in [name for name in roots if not self.table.exists(f"{kind}/{kind}-{name}")]:
                del roots[name]
        self.table.rollback(target)

    def as_latest(self) -> None:
        self.number += 1
        if len(self.snapshots()) > 1:
            self.table.rollback_as_latest(self.random.choice(sorted(self.snapshots())[:-1]))

    def consumer(self) -> None:
        if self.table.exists("consumer/consumer-c"):
            self.table.remove("consumer/consumer-c")
        else:
            self.table.consumer("c", self.random.choice(self.snapshots()))

    def warm(self) -> None:
        self.checked(self.main.run("maintain", all_branches=self.random.random() < 0.5))

    def look(self) -> None:
        self.main.run("maintain", execute=False)

    def stored(self) -> None:
        report = self.main.run("maintain", execute=False)
        step = next(step for step in report.steps or () if step.operation == "expire-snapshots")
        if step.status == "planned" and step.plan is not None:
            self.checked(self.main.execute(step.plan.header.plan_id))

    def expire_elsewhere(self) -> None:
        self.checked(self.other.run("maintain", all_branches=self.random.random() < 0.5))

    def checked(self, report: RunReport) -> None:
        assert report.status in ("done", "nothing_to_do"), report.refusal


def copy_of(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore(LOCATION)
    copied._objects, copied._version = dict(store._objects), store._version
    return copied


@pytest.mark.parametrize("seed", (*range(25), 87, 99, 158, 220, 245))
def test_a_run_that_remembers_ends_where_one_ends_that_knows_nothing(seed: int) -> None:
    history = History(seed)
    history.run()
    cold = Maintainer(copy_of(history.store))
    warm = Maintainer(copy_of(history.store), control=history.main.control)

    planned = [each.run("maintain", execute=False) for each in (cold, warm)]
    actions = [
        {action for step in report.steps or () if step.plan for action in step.plan.actions} for report in planned
    ]
    assert actions[0] == actions[1]
    for each in (cold, warm):
        history.checked(each.run("maintain", all_branches=True))
    ends = [{found.key for found in each.store.list("")} for each in (cold, warm)]
    assert ends[0] == ends[1]
    for each in (cold, warm):
        assert_all_readable(history.table, each.store)
