"""Tables whose branches move, and what must be true of them at every moment."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache

from lakesweep.errors import MaintenanceError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.model.report import RunReport
from lakesweep.model.roots import MAIN, branch_dir
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import TableReader, UnreadableRootError, all_roots, read_root
from tests.support.table_builder import TableBuilder
from tests.support.world import START_MS, World


def _build(store: MemoryStore) -> None:
    """Make a table with branches, tags above and below what it goes back to, and snapshots that became changelogs."""
    table = TableBuilder(store, partition_keys=("dt",), options={"bucket": "-1"})
    table.commit("+A", "+B", partition=("d1",))
    table.tag("t1")
    table.commit("+C", partition=("d1",), changelog=("+C",))
    table.changelog_document(2)
    table.commit("-A", "+D", partition=("d2",), changelog=("+D",))
    table.changelog_document(3)
    table.tag("t3")
    table.branch("b", from_tag="t3")
    table.branch("apart")
    for number in range(4, 8):
        gone = ("-E4",) if number == 6 else ()
        table.commit(*gone, f"+E{number}", partition=("d3",), index={f"i{number}": {"B": (number,)}})
    for snapshot_id in (1, 2, 3):
        table.remove(f"snapshot/snapshot-{snapshot_id}")
    table.hint("EARLIEST", 4)
    table.tag("t6", snapshot=6)
    table.tag("t7", snapshot=7)
    for name in ("t6", "t7"):
        store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
    branch = table.on_branch("b")
    for number in range(4, 7):
        branch.commit(f"+F{number}", partition=("d4",))
    branch.tag("u5", snapshot=5)
    branch.consumer("c", 5)
    store.put("branch/branch-b/snapshot/.snapshot-7.5b0e.tmp", b"{}")
    apart = table.on_branch("apart")
    for number in range(4, 9):
        apart.commit(f"+G{number}", partition=("d5",), snapshot_id=number)


Entries = dict[str, tuple[bytes, str, int]]


@cache
def planned(operation: str, kind: type[MemoryStore]) -> tuple[Entries, Entries, str]:
    """Return the objects of a table and of its control location with a plan, and the plan's id."""
    store, control = (kind(location, clock=lambda: START_MS) for location in ("memory://bucket/t", "memory://control"))
    _build(store)
    name, arguments = MOVES[operation]
    report = Maintainer(store, control=control).run(name, execute=False, **arguments)
    assert report.status == "planned" and report.plan is not None, report
    return store._objects, control._objects, report.plan.header.plan_id


@cache
def _objects() -> dict[str, bytes]:
    store = MemoryStore("memory://bucket/t")
    _build(store)
    return {key: data for key, (data, _, _) in store._objects.items()}


@cache
def _needs() -> dict[str, frozenset[str]]:
    """Return what each root needs."""
    store = MemoryStore("memory://bucket/t")
    _build(store)
    return {root: read_root(store, root).paths for root in all_roots(store) if has_schema(_objects(), root)}


def _is_below(root: str, end_id: int) -> bool:
    return root.startswith("snapshot/") and int(root.rpartition("-")[2]) < end_id


class MovingWorld(World):
    """That table, with a control location that has a plan, and a clock."""

    def __init__(self, operation: str, kind: type[MemoryStore] = MemoryStore) -> None:
        super().__init__(store=kind)
        self.operation = operation
        self.control = kind(self.control.location, self.counter, self.clock)
        objects, control, self.plan_id = planned(operation, kind)
        self.store._objects, self.control._objects = dict(objects), dict(control)
        self.committed: list[str] = []
        self.before = self.documents()
        self.former_newest = self.store.read("snapshot/snapshot-7").data
        self.wait()

    def execute(self, switch: Switch | None = None) -> RunReport:
        """Carry the plan out."""
        return self.maintainer(switch).execute(self.plan_id)

    def finish(self, switch: Switch | None = None) -> RunReport:
        """Run another operation, which finishes what is begun and finds nothing else to do."""
        return self.maintainer(switch).run("delete-tag", tag="nothing")

    def documents(self) -> dict[str, bytes]:
        """Return what lies in the table, documents with what they say."""
        return {key: data for key, (data, _, _) in self.store._objects.items()}

    def latest(self, branch: str = "main") -> int | None:
        """Return the newest snapshot as the engine finds it: by the hint, unless there is one right after."""
        ids = self.ids(f"{branch_dir(branch)}snapshot")
        with suppress(MaintenanceError):
            hint = int(self.store.read(f"{branch_dir(branch)}snapshot/LATEST").data)
            if hint > 0 and hint + 1 not in ids:
                return hint
        return max(ids, default=None)

    def write(self, snapshot_id: int, based_on: bytes, branch: str = "main") -> bool:
        """Publish a snapshot as a writer does, and tell whether it was the first with that id."""
        folder = f"{branch_dir(branch)}snapshot/"
        document = json.loads(based_on) | {"id": snapshot_id, "commitUser": "other", "commitIdentifier": self.now_ms}
        try:
            self.store.put(f"{folder}snapshot-{snapshot_id}", json.dumps(document).encode(), if_absent=True)
        except PreconditionFailedError:
            return False
        self.store.put(f"{folder}LATEST", str(snapshot_id).encode())
        self.committed.append(f"{folder}snapshot-{snapshot_id}")
        return True

    def commits(self, branch: str = "main") -> None:
        """Commit as the engine does, on the newest snapshot that it finds; not at all where it cannot read that."""
        latest = self.latest(branch)
        with suppress(ObjectNotFoundError):
            if latest is not None:
                based_on = self.store.read(f"{branch_dir(branch)}snapshot/snapshot-{latest}").data
                assert self.write(latest + 1, based_on, branch)

    def publish(self, snapshot_id: int) -> None:
        """Commit on what was the newest snapshot of main when the plan was made."""
        assert self.write(snapshot_id, self.former_newest)

    def roll_back(self, snapshot_id: int) -> None:
        """Roll main back as the engine does, all at once."""
        if f"snapshot/snapshot-{snapshot_id}" not in self.documents():
            return
        self.store.put("snapshot/LATEST", str(snapshot_id).encode())
        going = [f"snapshot/snapshot-{i}" for i in self.ids() if i > snapshot_id]
        going += [key for key, data in self.documents().items() if is_tag(key) and json.loads(data)["id"] > snapshot_id]
        self.remove(*going)

    def others_expire(self, end_id: int) -> None:
        """Expire main as the engine does, all at once, with the newest snapshot that it saw before the plan."""
        kept = [needs for root, needs in _needs().items() if not _is_below(root, end_id)]
        gone = [needs for root, needs in _needs().items() if _is_below(root, end_id)]
        files = frozenset().union(*gone) - frozenset().union(*kept)
        going = [f"snapshot/snapshot-{i}" for i in self.ids() if i < end_id]
        self.remove(*(path for path in files if not is_document(path)), *going)
        self.store.put("snapshot/EARLIEST", str(end_id).encode())

    def delete_tag(self, name: str) -> None:
        """Delete a tag of main as the engine does, all at once.

        Where its snapshot is not there, it takes what neither the tag before needs nor the next root: the tag after, or
        the oldest snapshot there is, be it before or after. Here what branches need stays, which the engine takes too.
        """
        path, ids = f"tag/tag-{name}", self.ids()
        tags = {key: int(json.loads(data)["id"]) for key, data in self.documents().items() if is_tag(key)}
        number = tags.pop(path, None)
        if number is None:
            return
        needed = read_root(self.store, path).paths if number not in ids else frozenset[str]()
        before = [key for key, each in sorted(tags.items(), key=lambda item: item[1]) if each < number][-1:]
        after = [(each, key) for key, each in tags.items() if each > number]
        after += [(ids[0], f"snapshot/snapshot-{ids[0]}")] if ids else []
        for neighbour in (*before, *(key for _, key in sorted(after)[:1])):
            needed -= read_root(self.store, neighbour).paths
        needed -= frozenset().union(*(paths for root, paths in _needs().items() if root.startswith("branch/")))
        self.remove(path, *(each for each in needed if not is_document(each)))

    def lose(self, path: str) -> None:
        """Lose a file."""
        self.remove(path)

    def remove(self, *paths: str) -> None:
        self.store.delete([DeleteRequest(path) for path in paths])


MOVES: dict[str, tuple[str, dict[str, object]]] = {
    "rollback": ("rollback", {"snapshot": 5}),
    "rollback to a tag": ("rollback", {"tag": "t1", "lose_tag": ["t3"]}),
    "fast-forward": ("fast-forward", {"branch": "b"}),
    "fast-forward without a base": ("fast-forward", {"branch": "apart"}),
    "new branch": ("create-branch", {"branch": "new", "tag": "t6"}),
    "branch that goes": ("delete-branch", {"branch": "b"}),
}
GOING = {"branch that goes": "b"}


@cache
def _checked(documents: tuple[tuple[str, bytes], ...]) -> None:
    """Read all roots of a table whose files are those of the world; of each state once."""
    store = MemoryStore("memory://bucket/t")
    for key, data in {**_objects(), **dict(documents)}.items():
        if key in dict(documents) or not is_document(key):
            store.put(key, data)
    reader = TableReader(store)
    for root in reader.roots():
        if has_schema(dict(documents), root):
            reader.read(root)


def has_schema(documents: Mapping[str, bytes], root: str) -> bool:
    """Tell whether a root's branch has a schema, without which nobody opens it."""
    folder = f"{root.split('/', maxsplit=1)[0]}/{root.split('/')[1]}/" if root.startswith("branch/") else ""
    return any(key.startswith(f"{folder}schema/") for key in documents)


def is_tag(key: str) -> bool:
    """Tell whether an object is a tag of main."""
    return key.startswith("tag/tag-") and "tag-success-file" not in key


def check_files(world: MovingWorld) -> None:
    """Fail unless every root reads, in a table that lost files."""
    reader = TableReader(world.store)
    for root in reader.roots():
        if has_schema(world.documents(), root):
            reader.read(root)


def is_document(key: str) -> bool:
    """Tell whether an object is one of those that move."""
    folder = key.removeprefix("branch/").partition("/")[2] if key.startswith("branch/") else key
    return folder.split("/", 1)[0] in ("snapshot", "changelog", "tag", "schema", "consumer")


def check_moment(world: MovingWorld, going: str | None = None) -> None:
    """Fail unless every root reads, and every branch that somebody can open finds its newest snapshot.

    Args:
        world: The table.
        going: A branch that is being deleted: who looks for its newest snapshot may fail.
    """
    documents = world.documents()
    _checked(tuple(sorted((key, data) for key, data in documents.items() if is_document(key))))
    assert all(key in documents for key in _objects() if not is_document(key))
    names = {key.split("/")[1].removeprefix("branch-") for key in documents if key.startswith("branch/")}
    for branch in {MAIN, *names} - {going}:
        latest, ids = world.latest(branch), world.ids(f"{branch_dir(branch)}snapshot")
        has_schema = any(key.startswith(f"{branch_dir(branch)}schema/") for key in documents)
        assert latest is None or not has_schema or latest in ids, (branch, latest, ids)


def assert_no_hole(ids: list[int]) -> None:
    assert not ids or ids == list(range(ids[0], ids[-1] + 1)), ids


class Watching(Switch):
    """Looks at the table right before each call."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name.startswith(("table put", "table delete")) or not self.calls:
            self._look()
        return super()._run(name, call)


@cache
def undisturbed(operation: str, kind: type[MemoryStore]) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """Return the calls of an operation, and what it leaves; checked at every moment."""
    world = MovingWorld(operation, kind)
    switch = Watching(lambda: check_moment(world, GOING.get(operation)))
    report = world.execute(switch)
    assert report.status == "done", report
    check_moment(world)
    return tuple(switch.calls), world.documents()


def assert_reads(world: MovingWorld, where: str) -> None:
    try:
        check_files(world)
    except UnreadableRootError as error:
        raise AssertionError(where) from error
