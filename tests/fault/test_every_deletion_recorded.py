"""A run dies or is stopped at any call and at any wait: the ledger has what is gone, and an undo brings all of it back.

A process that is killed writes nothing more. One that is stopped by Ctrl-C or a signal writes down what it did, and
gives the lease back.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from lakesweep.api.stored import list_runs, stored_report
from lakesweep.control.audit.object_history import begun_entry, history_of
from lakesweep.control.lease import read_lease
from lakesweep.control.ledger_rows import run_rows, runs_of_ledger
from lakesweep.errors import RefusedError, StorageError, TerminatedError
from lakesweep.execute.deletions.deleting import earlier_deletions
from lakesweep.model.plan import Delete
from lakesweep.storage.store import HiddenState
from lakesweep.table.stores import TableStores
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.world import World

DECOUPLED = {
    "changelog-producer": "input",
    "changelog.num-retained.max": "20",
    "changelog.num-retained.min": "15",
    "snapshot.num-retained.min": "1",
}


class _Stopping(Switch):
    """Raises what a signal raises, once: `stop` before the call, `stop_after` when it took effect."""

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self.calls.append(name)
        hit = len(self.calls) == self.at
        if hit and self.mode == "stop":
            raise KeyboardInterrupt
        result = call()
        if hit:
            raise TerminatedError("SIGTERM", 15)
        return result


class _World(World):
    """Its waits are calls, too."""

    def __init__(self, case: "Case", *, versioned: bool) -> None:
        super().__init__(versioned=versioned, options=dict(case.options))
        case.build(self)

    def sleep(self, seconds: float) -> None:
        self.switch.run("wait", lambda: World.sleep(self, seconds))

    def booked(self) -> frozenset[str]:
        """Return what the ledger says is gone."""
        gone: set[str] = set()
        for run_id in reversed(runs_of_ledger(self.area, 99)):
            for row in run_rows(self.area, run_id):
                path = str(row.get("key"))
                if row.get("result") == "deleted":
                    assert path not in gone, f"{path} is booked twice"
                    gone.add(path)
                elif row.get("result") == "restored":
                    gone.discard(path)
        return frozenset(gone)


@dataclass(frozen=True)
class Case:
    """One operation on one table."""

    operation: str
    build: Callable[[World], object]
    options: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)

    def run(self, maintainer: Maintainer) -> object:
        return maintainer.run(self.operation, **self.arguments)


def _four(stage: World) -> None:
    stage.replace_each(4)


def _tagged(stage: World) -> None:
    stage.replace_each(3)
    stage.table.tag("old", 1)
    stage.maintainer().expire()


def _live_tag(stage: World) -> None:
    stage.replace_each(3)
    stage.table.tag("old", 1)


CASES = {
    "expiry with grace": Case("expire-snapshots", _four, {}, {"retain_max": 1, "retain_min": 1, "grace": "30 s"}),
    "decoupled": Case("expire-snapshots", _four, DECOUPLED, {"retain_max": 1, "retain_min": 1, "grace": "10 s"}),
    "tag": Case("delete-tag", _tagged, {}, {"tag": "old"}),
    "tag alone": Case("delete-tag", _live_tag, {}, {"tag": "old"}),
    "rollback": Case("rollback", _four, {}, {"snapshot": 2}),
}


def _broken(case: Case, *, versioned: bool, at: int | None, mode: str) -> _World:
    stage = _World(case, versioned=versioned)
    stage.switch = _Stopping(at, mode) if mode.startswith("stop") else Switch(at, mode)
    with contextlib.suppress(ProcessDeathError, KeyboardInterrupt):
        case.run(stage.maintainer())
    return stage


MODES = ("death", "death_after", "stop", "stop_after")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_gone_is_booked_and_comes_back(name: str, versioned: bool, mode: str) -> None:
    """Before the rerun the run is listed and explains what is gone; after it the ledger is complete, and undo is."""
    case = CASES[name]
    first = _World(case, versioned=versioned)
    before, booked_before = first.bodies(), first.booked()
    normal = _broken(case, versioned=versioned, at=None, mode="death")
    total, undone = len(normal.switch.calls), 0
    assert normal.booked() - booked_before == before.keys() - normal.bodies().keys()
    # Every call by default where it matters most: a process that is killed, on a bucket with versions.
    every = 1 if versioned and mode == "death_after" else EVERY
    for at in range(1 + MODES.index(mode) % every, total + 1, every):
        stage = _broken(case, versioned=versioned, at=at, mode=mode)
        where = f"{mode} at call {at}, {stage.switch.calls[at - 1]}"
        stage.switch = Switch()
        maintainer = Maintainer(stage.store, control=stage.control, sleep=stage.sleep)
        gone = before.keys() - stage.bodies().keys()
        listed = list_runs(maintainer.table, 9)["runs"]
        if gone:
            assert {run["status"] for run in listed} & {"running", "unfinished", "partial", "done"}, where
            for path in gone:
                entries = history_of(stage.area, path).entries or (begun_entry(stage.area, path),)
                assert entries[0] is not None, f"{where}: {path} is gone, and no run knows"
        if mode.startswith("stop") and "lease.json" not in where:
            assert read_lease(stage.area).expires_ms == 0, f"{where}: the lease is not given back"

        stage.wait()
        case.run(maintainer)
        assert stage.bodies().keys() == normal.bodies().keys(), where
        gone = before.keys() - stage.bodies().keys()
        assert stage.booked() - booked_before == gone, where
        runs = list_runs(maintainer.table, 9)["runs"]
        ended = next(run for run in runs if run["status"] == "done" and run["operation"] == case.operation)
        if not versioned and name not in ("rollback", "tag alone"):
            continue
        report = maintainer.run("undo", run_id=ended["run_id"])
        assert report.status == "done", f"{where}: {report.refusal}"
        assert stage.bodies() == before, where
        undone += 1
    assert undone or not versioned


def test_a_run_is_listed_while_it_waits() -> None:
    """It is under way, with what it has deleted so far; its report is not there yet, and the answer says so."""
    case = CASES["expiry with grace"]
    stage = _World(case, versioned=True)
    seen: list[Mapping[str, object]] = []

    def look(seconds: float) -> None:
        maintainer = Maintainer(stage.store, control=stage.control)
        seen.extend(list_runs(maintainer.table, 9)["runs"])
        with pytest.raises(RefusedError) as refused:
            stored_report(maintainer.table, str(seen[0]["run_id"]))
        assert refused.value.code == "run_unfinished"
        World.sleep(stage, seconds)

    case.run(Maintainer(stage.store, control=stage.control, sleep=look))
    assert {(run["status"], run["operation"], run["deleted"]) for run in seen} == {("running", "expire-snapshots", 3)}


class _Silent(MemoryStore):
    """Never says what its deletions hide."""

    code = "not_implemented"
    asked = 0

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        self.asked += 1
        raise StorageError("list versions of it: no", code=self.code)


@pytest.mark.parametrize("code", ["not_implemented", "access_denied", "no_such_bucket"])
def test_a_store_that_lists_no_versions_keeps_no_plan_from_its_end(code: str) -> None:
    """The run died after its documents were gone; the next one goes by what the dead run was about to do."""
    case = CASES["expiry with grace"]
    before = _World(case, versioned=True).bodies()
    calls = _broken(case, versioned=True, at=None, mode="death").switch.calls
    deleted = next(number for number, call in enumerate(calls, 1) if call.startswith("table delete"))
    stage = _broken(case, versioned=True, at=deleted, mode="death_after")
    assert before.keys() - stage.bodies().keys()
    stage.store.__class__ = _Silent
    stage.store.code = code  # type: ignore[attr-defined]
    stage.wait()
    stage.switch = Switch()
    report = case.run(Maintainer(stage.store, control=stage.control, sleep=stage.sleep))
    assert report.status in ("done", "nothing_to_do"), report.refusal  # type: ignore[attr-defined]
    assert stage.booked() == before.keys() - stage.bodies().keys()


def test_a_store_that_lists_no_versions_is_asked_once() -> None:
    """The answer to the next thousand keys would be the same."""
    store = _Silent("memory://bucket/t")
    suspects = [Delete("data", "data", f"bucket-0/data-{number}.orc", 1, None, "x") for number in range(5000)]
    found = earlier_deletions(TableStores(store), suspects, 0, lambda: None)
    assert (store.asked, len(found.untold)) == (1, 5000)
