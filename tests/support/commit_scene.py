"""A small table, a control location, and commits that change nothing but the history."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakesweep.commit.base import Base, read_base
from lakesweep.commit.environment import IDENTIFIER, Attempt, CommitEnvironment, Committed, Prepared
from lakesweep.commit.loop import commit
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000
_names = itertools.count()


class Acting(Switch):
    """Does something right before, or right after, the n-th request with a name."""

    def __init__(self, name: str, act: Callable[[], object], *, number: int = 1, after: bool = False) -> None:
        super().__init__()
        self._name, self._act, self._left, self._after = name, act, number, after

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self._left -= name == self._name
        is_now = name == self._name and self._left == 0
        if is_now and not self._after:
            self._act()
        answer = super()._run(name, call)
        if is_now and self._after:
            self._act()
        return answer


class Failing(Switch):
    """Answers requests with a name as a test says."""

    def __init__(self, name: str, answers: Mapping[int, Exception], *, takes_effect: bool = False) -> None:
        super().__init__()
        self._name, self._answers, self._takes_effect, self._number = name, answers, takes_effect, 0

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name != self._name:
            return super()._run(name, call)
        self._number += 1
        error = self._answers.get(self._number)
        if error is None:
            return super()._run(name, call)
        self.calls.append(name)
        if self._takes_effect:
            call()
        raise error


@dataclass
class Scene:
    """A table with three snapshots."""

    table: Any = None
    control: Any = None
    branch: str = "main"
    now_ms: int = START_MS
    slept: list[float] = field(default_factory=list)
    prepared: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counter = RequestCounter()
        self.table = self.table or MemoryStore("memory://bucket/t", self.counter, clock=lambda: self.now_ms)
        self.control = self.control or MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.area = ControlArea(self.control, self.table.location)
        self.builder = TableBuilder(self.table)
        for symbol in "ABC":
            self.builder.commit(f"+{symbol}")
        if self.branch != "main":
            self.builder.tag("t", snapshot=3)
            self.builder.branch(self.branch, "t")

    @property
    def folder(self) -> str:
        return "" if self.branch == "main" else f"branch/branch-{self.branch}/"

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += int(seconds * 1000)

    def env(self, switch: Switch | None = None, *, run: str = "r1", **changes: Any) -> CommitEnvironment:
        """Return the environment of a run; its requests go through a switch."""
        table: Store = self.table if switch is None else FaultyStore(self.table, switch, "table")
        control: Store = self.control if switch is None else FaultyStore(self.control, switch, "control")
        env = CommitEnvironment(
            store=table,
            area=replace(self.area, store=control),
            branch=self.branch,
            run_id=run,
            batch=0,
            options={},
            has_lock=True,
            sleep=self.sleep,
        )
        return replace(env, **changes)

    def prepare(self, attempt: Attempt) -> Prepared:
        """Prepare a snapshot with the files of its base, and an empty delta."""
        self.prepared.append(attempt)
        return prepared_on(attempt, self.table)

    def commit(self, switch: Switch | None = None, *, run: str = "r1", **changes: Any) -> Committed:
        return commit(self.env(switch, run=run, **changes), self.prepare)

    def base(self) -> Base:
        base = read_base(self.table, self.branch)
        assert base is not None
        return base

    def lease(self) -> LeaseDocument:
        return read_lease(self.area)

    def ids(self) -> list[int]:
        """Return the ids of all snapshots."""
        folder = f"{self.folder}snapshot/snapshot-"
        names = (entry.key for entry in self.table.list(f"{self.folder}snapshot/"))
        return sorted(int(name.removeprefix(folder)) for name in names if name.startswith(folder))

    def path(self, snapshot_id: int) -> str:
        return f"{self.folder}snapshot/snapshot-{snapshot_id}"

    def snapshot(self, snapshot_id: int) -> Snapshot:
        path = self.path(snapshot_id)
        return parse_snapshot(self.table.read(path).data, path)

    def foreign(self, snapshot_id: int | None = None, **fields: Any) -> str:
        """Write a snapshot as a writer without conditions does, and return its uuid. It replaces what is there."""
        newest = self.ids()[-1]
        document = json.loads(self.table.read(self.path(newest)).data)
        uuid = f"foreign-{next(_names)}"
        document |= {"id": snapshot_id or newest + 1, "uuid": uuid, "commitUser": "flink", **fields}
        self.table.put(self.path(document["id"]), json.dumps(document).encode())
        return uuid

    def remove(self, *snapshot_ids: int) -> None:
        for snapshot_id in snapshot_ids:
            self.builder.remove(self.path(snapshot_id))

    def alter(self) -> None:
        """Add a schema that changes an option."""
        document = json.loads(self.table.read(f"{self.folder}schema/schema-0").data)
        self.table.put(f"{self.folder}schema/schema-1", json.dumps(document | {"id": 1}).encode())

    def later(self) -> None:
        """Let the lease of a dead run end."""
        self.now_ms += LEASE_MS + DELETE_MARGIN_MS


def prepared_on(attempt: Attempt, table: Store, user: str | None = None) -> Prepared:
    """Return a snapshot with the files of its base, and an empty delta."""
    base = attempt.base.root.snapshot
    body = table.read(f"manifest/{base.base_manifest_list}").data
    names = [f"manifest-list-{attempt.uuid}-{number}" for number in (0, 1)]
    snapshot = replace(
        base,
        id=base.id + 1,
        uuid=attempt.uuid,
        schema_id=attempt.base.schema.id,
        base_manifest_list=names[0],
        base_manifest_list_size=len(body),
        delta_manifest_list=names[1],
        delta_manifest_list_size=len(body),
        commit_user=user or attempt.commit_user,
        commit_identifier=IDENTIFIER,
        commit_kind="OVERWRITE",
        time_ms=attempt.now_ms,
        operation=None,
    )
    return Prepared(snapshot, None, {f"manifest-{attempt.uuid}-0": b"x", names[0]: body, names[1]: body})
