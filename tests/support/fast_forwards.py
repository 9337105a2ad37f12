"""Tables whose main becomes what branch `b` is, and what the engine makes of each of them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from lakesweep.model.plan import Action, Delete
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, Store
from tests.support.faulty_store import Switch
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_all
from tests.support.table_builder import TableBuilder
from tests.support.world import World

Scene = Callable[[TableBuilder], None]
LATEST = "snapshot/LATEST"
EARLIEST = "snapshot/EARLIEST"
_MAIN_ROOT = re.compile(r"(?:snapshot/snapshot|tag/tag|changelog/changelog)-.+")


def _commits(table: TableBuilder, first: int, last: int, letter: str = "A") -> None:
    """Commit snapshots, each of which replaces the file of the one before."""
    for i in range(first, last + 1):
        table.commit(f"+{letter}{i}", *([f"-{letter}{i - 1}"] if i > first else []), user=f"writer-{letter}")


def _diverged(table: TableBuilder, main: int = 10, branch: int = 8, at: int = 5) -> TableBuilder:
    """Main has 1 to `main`; the branch was made at `at` and has gone on to `branch`."""
    _commits(table, 1, at)
    table.tag("made", snapshot=at)
    other = table.branch("b", "made")
    for i in range(at + 1, main + 1):
        table.commit(f"+A{i}", f"-A{i - 1}", user="writer-A")
    for i in range(at + 1, branch + 1):
        other.commit(f"+B{i}", *([f"-B{i - 1}"] if i > at + 1 else []), user="writer-B")
    return other


def ahead(table: TableBuilder) -> None:
    """Nobody has written to main since the branch was made."""
    _diverged(table, main=5, branch=8)


def diverged(table: TableBuilder) -> None:
    """Both have gone on, main further."""
    _diverged(table)


def longer(table: TableBuilder) -> None:
    """Both have gone on, the branch further; it has hints of its own."""
    other = _diverged(table, main=7, branch=10)
    other.hint("EARLIEST", 5)


def behind(table: TableBuilder) -> None:
    """The branch has not gone on."""
    _diverged(table, branch=5)


def tagged(table: TableBuilder) -> None:
    """Both have tags, some of one name."""
    other = _diverged(table)
    for name, snapshot in (("early", 2), ("late", 7), ("last", 10), ("both", 6), ("older", 3), ("short", 9)):
        table.tag(name, snapshot=snapshot, ttl=timedelta(days=1) if name == "short" else None)
    for name, snapshot in (("theirs", 7), ("both", 6), ("older", 8)):
        other.tag(name, snapshot=snapshot)


def altered(table: TableBuilder) -> None:
    """Both have other columns since then: one more of main's, and another one of the branch's."""
    _commits(table, 1, 5)
    table.tag("made", snapshot=5)
    other = table.branch("b", "made")
    table.alter(types={"main_only": "INT"})
    table.commit("+A6")
    table.alter(types={"main_too": "INT"})
    table.commit("+A7")
    table.tag("altered", snapshot=7)
    other.alter(types={"theirs": "STRING"})
    other.commit("+B6")


def altered_alike(table: TableBuilder) -> None:
    """Both have one schema more than when the branch was made, each its own."""
    other = _diverged(table, main=7, branch=6)
    table.alter(types={"main_only": "INT"})
    table.commit("+A8")
    other.alter(types={"theirs": "INT"})
    other.commit("+B7")


def altered_once(table: TableBuilder) -> None:
    """The branch has a schema more than main."""
    other = _diverged(table)
    other.alter(options={"k": "v"})
    other.commit("+C9")


def expired_base(table: TableBuilder) -> None:
    """Main has nothing any more that the branch has; some ids are in both."""
    _diverged(table)
    _expire(table, 6)


def expired_both(table: TableBuilder) -> None:
    """Main has expired what it had in common, and the branch its first snapshots."""
    other = _diverged(table, main=10, branch=14)
    _expire(other, 6)
    _expire(table, 8)


def far_ahead(table: TableBuilder) -> None:
    """All ids of main are above those of the branch."""
    _diverged(table, main=10, branch=7)
    _expire(table, 8)


def far_ahead_altered(table: TableBuilder) -> None:
    """All ids of main are above those of the branch, which has a schema more."""
    other = _diverged(table, main=10, branch=6)
    other.alter(options={"k": "v"})
    other.commit("+C7")
    _expire(table, 8)


def far_behind(table: TableBuilder) -> None:
    """All ids of main are below those of the branch, which has lost what they had in common."""
    other = _diverged(table, main=6, branch=10)
    _expire(other, 7)


def rolled_back(table: TableBuilder) -> None:
    """Main was rolled back to before the branch was made, and has gone on."""
    _diverged(table)
    table.rollback(2)
    table.commit("+D3", "-A2")


def rolled_back_far(table: TableBuilder) -> None:
    """Main was rolled back, so ids are missing between it and the branch."""
    _diverged(table)
    table.rollback(2)


def rebuilt(table: TableBuilder) -> None:
    """The branch was made empty and is longer than main."""
    _commits(table, 1, 4)
    table.tag("two", snapshot=2)
    _commits(table.branch("b"), 1, 6, "B")


def rebuilt_shorter(table: TableBuilder) -> None:
    """The branch was made empty and is shorter than main."""
    _commits(table, 1, 6)
    table.tag("two", snapshot=2)
    table.tag("five", snapshot=5)
    _commits(table.branch("b"), 1, 3, "B")


def below(table: TableBuilder) -> None:
    """The branch was made empty and ends below the oldest snapshot of main."""
    _commits(table, 1, 7)
    _expire(table, 5)
    _commits(table.branch("b"), 1, 2, "B")


def rebuilt_altered(table: TableBuilder) -> None:
    """The branch was made empty, with a schema more, and main has as many snapshots."""
    _commits(table, 1, 4)
    other = table.branch("b")
    other.alter(types={"more": "INT"})
    _commits(other, 1, 4, "B")


def first_commits(table: TableBuilder) -> None:
    """Main has no snapshot."""
    _commits(table.branch("b"), 1, 3, "B")


def with_changelogs(table: TableBuilder) -> None:
    """Main has changelogs that outlive its snapshots, and consumers."""
    _diverged(table)
    for i in (1, 2, 3):
        table.changelog_document(i)
    _expire(table, 3)
    table.consumer("slow", 4)
    table.consumer("quick", 11)


def holes(table: TableBuilder) -> None:
    """The branch lacks ids that main has, and the other way round."""
    other = _diverged(table, main=9, branch=9)
    _expire(table, 5)
    other.remove(other.root(7))
    table.remove(table.root(8))


def hidden(table: TableBuilder) -> None:
    """The branch has snapshots below the one that EARLIEST names: the engine takes it for the first one."""
    _commits(table, 1, 6)
    table.tag("two", snapshot=2)
    table.tag("four", snapshot=4)
    other = table.branch("b")
    _commits(other, 1, 5, "B")
    other.hint("EARLIEST", 4)
    other.remove(other.root(2))


def of_other_times(table: TableBuilder) -> None:
    """Main lacks the first of what they have in common."""
    _commits(table, 1, 7)
    table.tag("made", snapshot=5)
    other = table.branch("b", "made")
    for i in (6, 7):
        store, path = table.store, table.root(i)
        store.put(other.root(i), store.read(path).data)
        other._branch.roots["snapshot"][i] = table.model(path)
    other.commit("+B8")
    table.commit("+A8")
    _expire(table, 5)


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene
    for scene in (
        ahead, diverged, longer, behind, tagged, altered, altered_alike, altered_once, expired_base, expired_both,
        far_ahead, far_ahead_altered, rebuilt_altered, far_behind, rolled_back, rolled_back_far, rebuilt,
        rebuilt_shorter, below, first_commits, with_changelogs, holes, of_other_times, hidden,
    )
}  # fmt: skip


def build(scene: str, clock: Callable[[], int] = lambda: 1_800_000_000_000) -> TableBuilder:
    """Return the table of a scene, in memory."""
    table = TableBuilder(MemoryStore("memory://bucket/db.db/t", clock=clock))
    SCENES[scene](table)
    return table


def _expire(table: TableBuilder, last: int) -> None:
    """Take the documents of a branch's snapshots up to one, as an expiry does that finds no file to take."""
    for i in [i for i in table.ids("snapshot") if i <= last]:
        table.remove(table.root(i))
    table.hint("EARLIEST", last + 1)


def documents(store: Store) -> dict[str, bytes]:
    """Return everything in the folders of roots and schemas, of all branches."""
    folders = ("snapshot/", "changelog/", "tag/", "schema/", "consumer/", "branch/")
    return {entry.key: store.read(entry.key).data for folder in folders for entry in store.list(folder)}


def engine_end(before: Mapping[str, bytes], name: str = "b") -> dict[str, bytes]:
    """Return the documents that the engine would leave, but for an EARLIEST that names nothing, which is mended.

    Source: Paimon `FileSystemBranchManager#fastForward`.
    """
    folder = f"branch/branch-{name}/"
    theirs = {path.removeprefix(folder): body for path, body in before.items() if path.startswith(folder)}
    ids = sorted(_number(path) for path in theirs if path.startswith("snapshot/snapshot-"))
    hint = int(theirs.get("snapshot/EARLIEST", b"-1"))
    first = hint if hint in ids else ids[0]
    first_schema = json.loads(theirs[f"snapshot/snapshot-{first}"])["schemaId"]

    def goes(path: str, body: bytes) -> bool:
        if path.startswith("snapshot/snapshot-"):
            return _number(path) >= first
        if path.startswith("schema/schema-"):
            return _number(path) >= first_schema
        if path.startswith("tag/tag-"):
            return bool(json.loads(body)["id"] >= first)
        return path == LATEST

    left = {path: body for path, body in before.items() if not goes(path, body)}
    end = left | {path: body for path, body in theirs.items() if path.split("/")[0] in ("snapshot", "schema", "tag")}
    if EARLIEST in end and f"snapshot/snapshot-{int(end[EARLIEST])}" not in end:
        end[EARLIEST] = str(min(_number(path) for path in end if path.startswith("snapshot/snapshot-"))).encode()
    return end


def apply(store: Store, actions: tuple[Action, ...]) -> Iterator[Action]:
    """Carry actions out one by one, and yield each when it is done."""
    for action in actions:
        if isinstance(action, Delete):
            (result,) = store.delete([DeleteRequest(action.path, action.etag)])
            assert result.code == "deleted", (action, result)
        else:
            data = action.body.encode("utf-8", "surrogateescape")
            store.put(action.path, data, if_absent=action.if_absent, if_match=action.etag)
        yield action


class Onlooker:
    """Reads main as it is, and knows which documents and schemas belong together."""

    def __init__(self, store: Store, name: str = "b") -> None:
        """Note what main and the branch have, before anything moves."""
        self._store = store
        before = documents(store)
        folder = f"branch/branch-{name}/"
        theirs = {path.removeprefix(folder): body for path, body in before.items() if path.startswith(folder)}
        self._homes: tuple[Mapping[str, bytes], ...] = (before, theirs)
        self.had_snapshots = any(path.startswith("snapshot/snapshot-") for path in before)

    def know(self, other: Mapping[str, bytes]) -> None:
        """Take the documents of another time for a table whose roots and schemas belong together, too."""
        self._homes = (*self._homes, other)

    def look(self) -> None:
        """Fail unless main can be read whole, each root with the schemas that it was written with."""
        read_all(self._store)
        now = documents(self._store)
        if self.had_snapshots:
            assert any(path.startswith("snapshot/snapshot-") for path in now), "main has no snapshot"
        for path, body in now.items():
            if _MAIN_ROOT.fullmatch(path):
                schema_id = json.loads(body)["schemaId"]
                homes = [home for home in self._homes if home.get(path) == body]
                assert homes, f"{path} was nowhere before"
                assert any(self._reads(now, home, schema_id) for home in homes), f"{path} has schemas of another branch"

    def _reads(self, now: Mapping[str, bytes], home: Mapping[str, bytes], schema_id: int) -> bool:
        paths = [f"schema/schema-{i}" for i in range(schema_id + 1)]
        return all(now.get(path) == home[path] for path in paths if path in home)


def _number(path: str) -> int:
    return int(path.rpartition("-")[2])


HOUR_MS = 3_600_000


class ForwardWorld(World):
    """The table of a scene, whose branch main is forwarded to."""

    def __init__(self, scene: str) -> None:
        super().__init__()
        self.table = build(scene, self.clock)
        self.store = self.table.store
        self.before = documents(self.store)
        self.onlooker = Onlooker(self.store)

    def forward(self, switch: Switch | None = None) -> RunReport:
        """Fast-forward, under a switch if there is one."""
        return self.maintainer(switch).run("fast-forward", branch="b")

    def expected(self) -> dict[str, bytes]:
        """Return the documents of Paimon's end, LATEST apart."""
        end = engine_end(self.before)
        end.pop(LATEST, None)
        return end

    def now(self) -> dict[str, bytes]:
        """Return the documents, LATEST apart."""
        found = documents(self.store)
        found.pop(LATEST, None)
        return found


def calls(scene: str) -> list[str]:
    """Return the requests that a fast-forward makes."""
    switch = Switch()
    assert ForwardWorld(scene).forward(switch).status == "done"
    return switch.calls


def writes(scene: str) -> list[int]:
    """Return the numbers of those that change something: between two of them a death is the same everywhere."""
    return [number for number, name in enumerate(calls(scene), 1) if name.split()[1] in ("put", "delete")]


IN_PLACE = ("holes", "rebuilt_altered")
"""Scenes in which the newest snapshots have one id. A commit that comes between the last question for one and the
request that replaces the newest stands on the branch's then: nobody can tell. It is said."""


class Commit:
    """A commit of another writer, on what main has when it comes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = ""
        self.body = b""
        self.on: tuple[str, bytes] = ("", b"")
        """The snapshot that it follows on."""
        self.schema: tuple[str, bytes] = ("", b"")

    def __call__(self) -> None:
        store = self._store
        ids = [int(e.key.rpartition("-")[2]) for e in store.list("snapshot/") if "snapshot-" in e.key]
        schemas = [int(entry.key.rpartition("-")[2]) for entry in store.list("schema/")]
        base = f"snapshot/snapshot-{max(ids)}"
        self.on = (base, store.read(base).data)
        newest = f"schema/schema-{max(schemas)}"
        self.schema = (newest, store.read(newest).data)
        document = {
            **json.loads(self.on[1]),
            "id": max(ids) + 1,
            "schemaId": max(schemas),
            "commitUser": "other",
            "commitKind": "ANALYZE",
        }
        self.path, self.body = f"snapshot/snapshot-{max(ids) + 1}", json.dumps(document).encode()
        store.put(self.path, self.body, if_absent=True)
        store.put(LATEST, str(max(ids) + 1).encode())


def after_planning(made: list[str]) -> range:
    """Return the numbers of the requests that follow on the plan; what was committed before is a part of it."""
    planned = next(number for number, name in enumerate(made, 1) if name.endswith("header.json"))
    return range(planned, len(made) + 1)
