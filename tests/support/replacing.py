"""A table whose snapshots are replaced, rolled back, fast-forwarded and expired, as its writers and operators do it.

    lake = ReplacingWorld()
    lake.commit()
    lake.replace_snapshot(lake.newest)        # what a writer without a lock does
    assert [each.now.id for each in lake.sweep()] == [lake.newest]

Events of all new snapshots come to triage, some late, doubled or out of order. A sweep finds what is due without them.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lakesweep.control.state import read_states
from lakesweep.model.commits.lost import LostCommit
from lakesweep.model.commits.seen import Announced
from lakesweep.model.roots import branch_dir
from lakesweep.operations.maintenance.triage import lag_of, triage
from lakesweep.storage.store import Store
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.table_builder import TableBuilder
from tests.support.table_files import stable_uuid
from tests.support.world import World

SECOND_MS = 1000
OPTIONS = {"snapshot.num-retained.min": "4", "snapshot.num-retained.max": "12", "snapshot.time-retained": "1 h"}


class DigestStore(MemoryStore):
    """ETags are digests, and times whole seconds, as on S3."""

    _data = b""
    _in_parts = False

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self._data = data
        return super().put(key, data, if_absent=if_absent, if_match=if_match)

    def upload_in_parts(self, key: str) -> None:
        """Write an object again as a multipart upload of one part."""
        self._in_parts = True
        self.put(key, self.read(key).data)
        self._in_parts = False

    def _next(self) -> str:
        super()._next()
        digest = hashlib.md5(self._data, usedforsecurity=False)
        of_parts = hashlib.md5(digest.digest(), usedforsecurity=False).hexdigest()
        return f"{of_parts}-1" if self._in_parts else digest.hexdigest()


@dataclass
class Told:
    """What maintenance said."""

    lost: list[LostCommit] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    passes: int = 0


class ReplacingWorld(World):
    """One table, its events and its sweeps."""

    def __init__(
        self, seed: int = 0, *, versioned: bool = False, options: Mapping[str, str] | None = None, **more: str
    ) -> None:
        options = {**(OPTIONS if options is None else options), **more}
        super().__init__(store=DigestStore, options=options, versioned=versioned)
        self._policies = MemoryStore("memory://ops/fleet", self.counter, self.clock)
        self._policy: str | None = None
        self.random = Random(seed)
        self.told = Told()
        self.events: list[tuple[str, Announced]] = []
        """Of branches, and not delivered yet."""
        self._numbers = itertools.count()
        self._clock_s = self.now_ms // SECOND_MS
        self.store._clock = lambda: self.now_ms // SECOND_MS * SECOND_MS

    def maintainer(self, switch: Switch | None = None, *, branch: str | None = None, **arguments: Any) -> Maintainer:
        found = {"policy": self._policy, "open_store": opener(self._policies), **arguments}
        return super().maintainer(switch, branch=branch, **found)

    def rule(self, **words: object) -> None:
        """Let the fleet policy rule the table."""
        document = {"version": 1, "rules": [{"tables": self.store.location, **words}]}
        self._policies.put("policy.json", json.dumps(document).encode())
        self._policy = "memory://ops/fleet/policy.json"

    @property
    def newest(self) -> int:
        return max(self.ids())

    def later(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    # What writers do.

    def commit(self, table: TableBuilder | None = None, *, user: str = "", skew_s: int = 0) -> int:
        """Commit a file: the snapshot is made now, and written some milliseconds later.

        Args:
            table: The branch.
            user: The commit user.
            skew_s: The writer's clock is ahead by so much.
        """
        table = table or self.table
        made_ms = self.now_ms + skew_s * SECOND_MS
        self.later(0.05)
        number = next(self._numbers)
        snapshot_id = table.commit(f"+N{number}", time_ms=made_ms, user=user or f"writer-{number}", merge_base=True)
        self.announce(table.branch_name, snapshot_id)
        return snapshot_id

    def replace_snapshot(
        self,
        snapshot_id: int,
        *,
        made_before_s: float = 0.03,
        after_s: float = 0.2,
        skew_s: int = 0,
        branch: str = "main",
        user: str = "",
    ) -> str:
        """Replace a snapshot, as a writer does that had tested for it before it was there. Return its commit user.

        Args:
            snapshot_id: The snapshot.
            made_before_s: The new one was made so long before the other one was written.
            after_s: It is written so long after the other one.
            skew_s: The writer's clock is ahead by so much.
            branch: Of the snapshot.
            user: The commit user.
        """
        number = next(self._numbers)
        user = user or f"racer-{number}"
        folder = f"{branch_dir(branch)}snapshot/"
        path = f"{folder}snapshot-{snapshot_id}"
        written_ms = next(each.modified_ms for each in self.store.list(folder) if each.key == path)
        document = json.loads(self.store.read(path).data)
        lists = {
            key: f"manifest-list-{stable_uuid(f'{key} {number}')}-0"
            for key in ("baseManifestList", "deltaManifestList")
        }
        made_ms, now_ms = written_ms - int(made_before_s * 1000), self.now_ms
        self.now_ms = made_ms
        for key, name in lists.items():
            self.store.put(f"manifest/{name}", self.store.read(f"manifest/{document[key]}").data)
        document |= lists
        document |= {"uuid": stable_uuid(f"replaced {number}"), "commitUser": user}
        document["timeMillis"] = made_ms + skew_s * SECOND_MS
        self.now_ms = max(now_ms, written_ms + int(after_s * 1000))
        self.store.put(path, json.dumps(document, indent=2, separators=(",", " : ")).encode())
        self.announce(branch, snapshot_id)
        return user

    def announce(self, branch: str, snapshot_id: int) -> None:
        """Let S3 send the event of a snapshot that was just written."""
        folder = "" if branch == "main" else f"branch/branch-{branch}/"
        body = self.store.read(f"{folder}snapshot/snapshot-{snapshot_id}")
        self.events.append((branch, Announced(snapshot_id, body.etag, self.now_ms // 1000 * 1000, len(body.data))))

    # What is done to the past.

    def roll_back(self, by: int = 1) -> None:
        """Roll back as Java and pypaimon do."""
        self.table.rollback(self.newest - by)

    def fast_forward(self, name: str, *, rewrites_schemas: bool = True) -> None:
        """Fast-forward as Java does, or without schemas."""
        schemas = {key: entry for key, entry in self.store._objects.items() if key.startswith("schema/")}
        self.table.fast_forward(name)
        if not rewrites_schemas:
            self.store._objects |= schemas  # with their times
        else:
            for entry in list(self.store.list("schema/")):
                self.store.put(entry.key, self.store.read(entry.key).data)
        for snapshot_id in self.table.on_branch(name).ids("snapshot"):
            self.announce("main", snapshot_id)

    def fast_forward_by_ours(self, name: str) -> bool:
        """Fast-forward with Lakesweep, tell the builder, and tell whether it did."""
        before = self.etags()
        if self.run("fast-forward", branch=name).status != "done":
            return False
        branches = self.table._branches
        main, other = branches["main"], branches[name]
        first = min(other.roots["snapshot"])
        for kind in ("snapshot", "tag"):
            kept = {root: model for root, model in main.roots[kind].items() if model.id < int(first)}
            main.roots[kind] = kept | other.roots[kind]
        main.schemas[:] = other.schemas
        self.forget_what_is_gone()
        for snapshot_id in self.ids():
            path = f"snapshot/snapshot-{snapshot_id}"
            if self.etags()[path] != before.get(path):
                self.announce("main", snapshot_id)
        return True

    # What maintenance does.

    def deliver(self, *, keep: float = 0.0) -> list[LostCommit]:
        """Deliver events: in any order, some twice; keep some of them for later."""
        waiting, self.events = self.events, []
        self.random.shuffle(waiting)
        before = len(self.told.lost)
        by_branch: dict[str, list[Announced]] = {}
        for branch, event in waiting:
            if self.random.random() < keep:
                self.events.append((branch, event))
            by_branch.setdefault(branch, []).append(event)
        for branch, events in by_branch.items():
            for batch in (events, events[: self.random.randrange(2)]):
                if batch:
                    self._sort(branch, tuple(sorted(set(batch))))
        return self.told.lost[before:]

    def _sort(self, branch: str, announced: Sequence[Announced]) -> None:
        newest = announced[-1]
        table = self.maintainer(branch=branch).table
        if triage(table, newest.id, 0, newest.etag, announced).is_due:
            self.look(branch, tuple(announced))

    def sweep(self) -> list[LostCommit]:
        """Visit the branches as the sweep does, and make the passes that it asks for."""
        before = len(self.told.lost)
        states = read_states(self.area)
        for branch in sorted({"main", *states}):
            if lag_of(self.maintainer(branch=branch).table, states.get(branch)) is not None:
                self.look(branch)
        return self.told.lost[before:]

    def look(self, branch: str = "main", announced: tuple[Announced, ...] = ()) -> list[LostCommit]:
        """Make a pass."""
        report = self.maintain(on=branch, announced=announced, is_due=True)
        self.told.passes += 1
        self.told.lost += report.all_lost()
        self.told.doubts += [each for each in report.warnings if "either" in each]
        self.forget_what_is_gone()
        return list(report.all_lost())


def copy_of(store: Store) -> dict[str, Any]:
    """Return what a store holds."""
    return {entry.key: store.read(entry.key).data for entry in store.list("")}
