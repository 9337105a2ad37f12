"""Random histories of commits, rollbacks, branches, tags and expiries: whatever is there reads completely.

Tags go by this project's own operations here. When all tags are gone and snapshots have expired to the newest one,
no data file is left that the newest snapshot has not, unless rollbacks or branches were in between.
"""

import contextlib
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.model.report import RunReport
from tests.support.sampling import examples
from tests.support.table_builder import TableBuilder
from tests.support.world import ReadWorld


@dataclass(frozen=True)
class Step:
    """One thing that happens; numbers pick among what exists."""

    kind: str
    number: int
    other: int


KINDS = ("commit", "commit", "commit", "rollback as latest", "tag", "tag", "untag", "untag", "rename", "keep", "expire")
STEPS = st.lists(
    st.builds(Step, st.sampled_from((*KINDS, "branch", "retag", "rollback")), st.integers(0, 9), st.integers(0, 9)),
    min_size=5,
    max_size=25,
)


class TaggedWorld(ReadWorld):
    def __init__(self) -> None:
        super().__init__()
        self.table.commit("+A0", "+B0", index={"i0": {"A0": (1,)}}, statistics="s0")
        self.rolls_back = False

    def ended(self, report: RunReport, status: str | None = None) -> RunReport:
        assert report.status in ("done", "nothing_to_do"), report
        return super().ended(report)

    def tags(self, table: TableBuilder) -> list[str]:
        return sorted(str(name) for name in table._branch.roots["tag"])

    def take(self, number: int, step: Step) -> None:
        main = self.table
        branches = ["main", *(name for name in main._branches if name != "main")]
        branch = branches[step.other % len(branches)]
        table = main.on_branch(branch)
        ids, tags = table.ids("snapshot"), self.tags(table)
        self.now_ms += 20_000
        if not ids:
            return
        match step.kind:
            case "commit":
                live = sorted({file.symbol for file in table.model(table.root(ids[-1])).live})
                gone = [symbol for place, symbol in enumerate(live) if place in (step.number, step.other)]
                index = {f"i{number}": {"A0": (number,)}} if step.number % 2 else None
                statistics = f"s{number}" if step.number % 3 == 0 else None
                changes = [*(f"-{symbol}" for symbol in gone), f"+F{number}"]
                table.commit(*changes, index=index, statistics=statistics, merge_base=step.other == 0)
            case "rollback as latest":
                table.rollback_as_latest(ids[step.number % len(ids)])
            case "rollback" if len(ids) > 1 and branch == "main":
                self.rolls_back = True
                table.rollback(ids[step.number % len(ids)])
            case "tag":
                table.tag(f"t{number}", snapshot=ids[step.number % len(ids)])
            case "retag" if tags:
                name = tags[step.number % len(tags)]
                table.tag(f"r{number}", snapshot=int(table.document(table.root(name))["id"]))
            case "untag" if tags:
                some = {tags[step.number % len(tags)], tags[step.other % len(tags)]}
                self.run("delete-tag", on=branch, tag=sorted(some))
            case "rename" if tags:
                name = tags[step.number % len(tags)]
                body = self.store.read(table.root(name)).data
                model = table._branch.roots["tag"][name]
                self.run("rename-tag", on=branch, tag=name, target_tag=f"n{number}")
                table._branch.roots["tag"][f"n{number}"] = model
                assert self.store.read(table.root(f"n{number}")).data == body
            case "keep" if tags:
                self.run("expire-tags", on=branch, pattern="[tn]*", keep_last=str(step.number + 1))
            case "branch" if tags and len(branches) < 3 and branch == "main":
                made = table.branch(f"b{number}", from_tag=tags[step.number % len(tags)])
                made.commit(f"+X{number}")
            case "expire":
                self.expire(on=branch)
        self.assert_reads()


@settings(max_examples=examples(40), deadline=None)
@given(STEPS)
def test_no_history_loses_a_file(steps: list[Step]) -> None:
    world = TaggedWorld()
    for number, step in enumerate(steps, 1):
        world.take(number, step)
    for branch in list(world.table._branches):
        table = world.table.on_branch(branch)
        world.now_ms += 20_000
        table.commit(f"+Z{branch}")
        world.expire(on=branch)
        if tags := world.tags(table):
            world.run("delete-tag", on=branch, tag=tags)
        with contextlib.suppress(KeyError):
            assert world.tags(table) == []
    if (
        len(world.table._branches) == 1
        and not world.rolls_back
        and not any(s.kind == "rollback as latest" for s in steps)
    ):
        needed = set().union(*(world.table.referenced(root) for root in world.table.roots()))
        there = {entry.key for entry in world.store.list("") if entry.key.startswith("bucket-")}
        assert there <= needed, "no data file is left behind"
