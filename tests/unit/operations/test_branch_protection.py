"""A branch keeps what it needs as long as it exists, whatever is done to main or to another branch.

Each operation that removes anything is run on main and on another branch, alone, after each other one, and in random
histories. After each step every root of every branch reads completely.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from tests.support.every import EVERY
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_root
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000
DAY_MS = 86_400_000
OPTIONS = {
    "write-only": "true",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "changelog.num-retained.max": "3",
}


@dataclass
class World:
    """Main and two branches that share files of every kind; `b` is the one that must not be broken."""

    now_ms: int = START_MS
    runs: list[tuple[str, str]] = field(default_factory=list)
    """(run id, branch) of runs that deleted something."""
    has_rolled_back: bool = False

    def __post_init__(self) -> None:
        self.store = MemoryStore("memory://bucket/t", clock=lambda: self.now_ms, versioned=True)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.table = table = TableBuilder(self.store, options=OPTIONS, start_ms=START_MS - 3 * DAY_MS)
        table.commit(
            "+A", "+X", statistics="s1", extra={"A": ("x.index",)}, index={"i1": {"A": (1,)}}, changelog=["+L1"]
        )
        table.commit("-A", "+B", index={"i2": {"B": (1,)}}, changelog=["+L2"])
        table.tag("t", snapshot=1)
        table.tag("u", snapshot=2)
        table.commit("-B", "+C", statistics="s3", changelog=["+L3"])

    def branch(self, name: str, kind: str) -> None:
        """Make a branch, and let it have two commits and a tag of its own."""
        branch = self.table.branch(name, from_tag=None if kind == "empty" else "t")
        if kind == "of a snapshot":
            branch.remove(branch.root("t"))
        gone = () if kind == "empty" else ("-X",)
        branch.commit(f"+{name}1", *gone, statistics=f"s{name}", changelog=[f"+L{name}"])
        branch.tag(f"of-{name}")
        branch.commit(f"-{name}1", f"+{name}2", index={f"i{name}": {f"{name}2": (2,)}})

    def commit(self, on: str) -> None:
        """Commit nothing, so that all older snapshots may expire; by what the store has, which tests move about."""
        folder = "" if on == "main" else f"branch/branch-{on}/"
        found = [entry.key for entry in self.store.list(f"{folder}snapshot/") if "snapshot-" in entry.key]
        ids = [int(key.rpartition("/snapshot-")[2]) for key in found if key.rpartition("-")[2].isdigit()]
        if ids:
            newest = json.loads(self.store.read(f"{folder}snapshot/snapshot-{max(ids)}").data)
            # Its changelog is its own: of a version that a rollback took from a tag there may be none any more.
            copied = {key: value for key, value in newest.items() if not key.startswith("changelog")}
            body = json.dumps({**copied, "id": max(ids) + 1}).encode()
            self.store.put(f"{folder}snapshot/snapshot-{max(ids) + 1}", body)
            self.store.put(f"{folder}snapshot/LATEST", str(max(ids) + 1).encode())

    def run(self, operation: str, on: str = "main", **arguments: object) -> RunReport:
        maintainer = Maintainer(self.store, branch=on, control=self.control)
        report = run_operation(maintainer.table, operation, arguments, execute=True)
        self.has_rolled_back = self.has_rolled_back or operation == "rollback"
        if report.run_id is not None and report.status == "done":
            self.runs.append((report.run_id, on))
        return report

    def needs(self, name: str) -> Mapping[str, frozenset[str]]:
        """Return root -> what its readers open, of a branch."""
        return {
            root: read_root(self.store, root).paths
            for root in all_roots(self.store)
            if root.startswith(f"branch/branch-{name}/")
        }

    def check(self, before: Mapping[str, frozenset[str]], what: object) -> None:
        """Make sure that every root reads, and that `b` lacks nothing that it had.

        A version that a rollback took from a tag has no changelog files any more, and becomes a changelog all the same.
        """
        for root in all_roots(self.store):
            if not (self.has_rolled_back and "changelog/" in root):
                read_root(self.store, root)
        there = {entry.key for entry in self.store.list("")}
        for root, paths in before.items():
            assert paths <= there, (what, root, sorted(paths - there))


@dataclass(frozen=True)
class Step:
    """One operation on one branch."""

    name: str
    on: str = "main"

    def __call__(self, world: World) -> str:
        """Carry it out and return how it ended."""
        world.now_ms += 2 * DAY_MS  # what is an orphan is old enough
        if self.name == "commit":
            world.commit(self.on)
            return "done"
        if self.name == "undo":
            return self._undo(world)
        arguments = ARGUMENTS[self.name]
        if self.name == "expire-tags":
            arguments = {"older_than": world.now_ms}
        return world.run(self.name, self.on, **arguments).status

    def _undo(self, world: World) -> str:
        if not world.runs:
            return "nothing_to_do"
        run_id, on = world.runs[-1]
        return world.run("undo", on, run_id=run_id).status


ARGUMENTS: dict[str, dict[str, object]] = {
    "expire-snapshots": {"retain_max": 1, "retain_min": 1},
    "expire-changelogs": {"delete_all": True},
    "expire-tags": {},
    "delete-tag": {"tag": ["t", "u", "of-other"]},
    "rename-tag": {"tag": "t", "target_tag": "v"},
    "replace-tag": {"tag": "t"},
    "remove-orphan-files": {},
    "rollback": {"snapshot": 1},
    "maintain": {},
    "fast-forward": {"branch": "other"},
    "delete-branch": {"branch": "other"},
    "create-tag": {"tag": "w"},
}
OF_MAIN = ("remove-orphan-files", "fast-forward", "delete-branch")
STEPS = (
    *(Step(name) for name in (*ARGUMENTS, "commit", "undo")),
    *(Step(name, "other") for name in (*ARGUMENTS, "commit") if name not in OF_MAIN),
)
KINDS = ("of a tag", "of a snapshot", "empty")


def ids(step: Step) -> str:
    return f"{step.name} of {step.on}"


def world_with(kind: str) -> World:
    world = World()
    world.branch("b", kind)
    world.branch("other", "of a tag")
    return world


@pytest.mark.parametrize("step", STEPS, ids=ids)
def test_each_operation(step: Step) -> None:
    """On its own, and after main and the other branch have gone on and lost all that they may lose."""
    which = STEPS.index(step) % EVERY
    for kind in KINDS if EVERY == 1 else KINDS[which : which + 2]:
        world = world_with(kind)
        before = world.needs("b")
        step(world)
        world.check(before, (kind, step))
        for each in (*CLEARING, step, *CLEARING):
            each(world)
            if each is step or each is CLEARING[-1]:
                world.check(before, (kind, step, each))


CLEARING = (
    Step("commit"),
    Step("delete-tag"),
    Step("expire-snapshots"),
    Step("commit", "other"),
    Step("expire-tags", "other"),
    Step("expire-snapshots", "other"),
    Step("expire-changelogs"),
    Step("expire-changelogs", "other"),
    Step("remove-orphan-files"),
)


@pytest.mark.parametrize("first", STEPS, ids=ids)
def test_each_operation_after_each_other_one(first: Step) -> None:
    """And a scan for orphan files at the end, to which only roots matter."""
    seen: Counter[str] = Counter()
    stride = 3 * EVERY if EVERY > 1 else 1
    for second in dict.fromkeys((STEPS[0], *STEPS[STEPS.index(first) % stride :: stride])):
        world = world_with("of a snapshot")
        before = world.needs("b")
        for step in (first, second, Step("remove-orphan-files")):
            seen[step(world)] += 1
            world.check(before, (first, second, step))
    assert seen["done"], seen


@pytest.mark.parametrize("seed", range(10))
def test_random_histories(seed: int) -> None:
    """Also of the branch itself: it loses what it is told to lose, and all that is left reads."""
    random = Random(seed)
    world = world_with(random.choice(KINDS))
    own = tuple(Step(step.name, "b") for step in STEPS if step.on == "other")
    history: list[Step] = []
    for _ in range(14):
        step = random.choice(STEPS if random.random() < 0.7 else own)
        before = {} if step.on == "b" or step.name == "undo" else world.needs("b")
        history.append(step)
        step(world)
        world.check(before, history)
    for step in CLEARING:
        step(world)
        world.check({}, history)


def test_it_protects_no_longer_once_it_is_gone() -> None:
    """What only the branch held is an orphan then, and nothing is left of it after a scan."""
    world = World()
    for step in CLEARING:
        step(world)
    plain = {entry.key for entry in world.store.list("") if entry.key.startswith(("bucket-", "manifest/", "index/"))}
    world = world_with("of a tag")
    for step in CLEARING:
        step(world)
    assert {"A", "X", "b2"} <= world.table.present()
    for name in ("b", "other"):
        assert world.run("delete-branch", branch=name).status == "done"
    Step("remove-orphan-files")(world)
    left = {entry.key for entry in world.store.list("") if entry.key.startswith(("bucket-", "manifest/", "index/"))}
    assert left == plain


def test_a_branch_without_a_schema_protects_as_well() -> None:
    """As one has that is being made, or whose maker died: its roots count, whoever can open it."""
    for step in STEPS[::EVERY]:
        world = world_with("of a snapshot")
        before = world.needs("b")
        schema = world.store.read("branch/branch-b/schema/schema-0").data
        world.table.on_branch("b").remove("branch/branch-b/schema/schema-0")
        for each in (step, *CLEARING):
            each(world)
        world.store.put("branch/branch-b/schema/schema-0", schema)
        world.check(before, step)


def test_half_a_branch_that_another_engine_copied() -> None:
    """A snapshot alone, then its tag, then schemas: each is a root from the moment that it is listed."""
    for keep in (("snapshot/",), ("tag/",), ("snapshot/", "tag/")):
        world = World()
        world.table.branch("b", from_tag="t")
        whole = {entry.key: world.store.read(entry.key).data for entry in world.store.list("branch/")}
        for key in whole:
            if not key.startswith(tuple(f"branch/branch-b/{folder}" for folder in keep)):
                world.table.remove(key)
        for step in CLEARING[:-3]:
            if step.on == "main":
                step(world)
        Step("remove-orphan-files")(world)
        for key, body in whole.items():
            world.store.put(key, body)
        world.check({}, keep)
