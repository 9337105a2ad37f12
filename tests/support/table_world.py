"""A table in which everything happens at once, and what of it must never be missing.

Writers write files first and commit them later, up to a day less some hours later; tags, branches, rollbacks and the
expiry of other engines change the roots; each of them is an *act*, a generator that makes one request a step. The world
knows what a reader of each root needs, from the model that the root was built of, and holds every request against it:

- Whoever takes a file that a root needs has done harm, but for an expiry that takes the root too.
- A root that appears has all that it needs.
- What a scan has planned to take is needed by no root that is there then or comes later.

What the world promises in turn is what every collector of garbage must be able to rely on: files are committed in time,
a root is made from one that is there, what moves has a new root before it loses the old one, and in the span of two
collections of roots no reference moves twice where a listing cannot see it.
"""

import itertools
import json
import uuid
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from lakesweep.model.plan import Plan
from lakesweep.storage.store import DeleteRequest, DeleteResult, Page, StoredObject
from tests.support.binary_row import encode_row
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import (
    DataFile,
    Entry,
    IndexFile,
    Manifest,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from tests.support.root_model import RootKind, RootModel

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 1_800_000_000_000
AGE_MS = DAY_MS
"""What a scan takes is older than this."""
LAG_MS = 20 * HOUR_MS
"""From the first file of a commit to the commit."""
_NO_ROW = encode_row((), ())

Act = Iterator[None]
Change = Callable[[RootModel | None], Sequence[Entry] | None]
"""What a commit does to a state; `None`: it cannot be done to this one."""


class Harm(AssertionError):
    """A reader of a root that is there misses a file, or will."""


class WorldStore(MemoryStore):
    """Tells the world of each document that comes and each object that goes, whoever does it."""

    world: "World"

    def __init__(self, location: str, clock: Callable[[], int]) -> None:
        super().__init__(location, clock=clock)
        self._keys: list[str] = []

    def page(self, prefix: str, after: str, until: str | None, count: int) -> Page:
        """Return the first objects of a listing; without looking at all others, of which there are many pages."""
        start = max(bisect_right(self._keys, after), bisect_left(self._keys, prefix))
        found = itertools.takewhile(
            lambda key: key.startswith(prefix) and (until is None or key <= until),
            itertools.islice(self._keys, start, start + count),
        )
        entries = ((key, self._objects[key]) for key in found)
        return tuple(StoredObject(key, len(data), etag, time_ms) for key, (data, etag, time_ms) in entries)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if key not in self._objects:
            insort(self._keys, key)
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        self.world.came(key, data)
        return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        results = super().delete(requests)
        for result in results:
            if result.code == "deleted":
                del self._keys[bisect_left(self._keys, result.key)]
                self.world.went(result.key)
        return results


class World:
    """One table and everything that is true of it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.now_ms = START_MS
        self.store = WorldStore("memory://bucket/t", clock=lambda: self.now_ms)
        self.store.world = self
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.decoupled = random.random() < 0.4
        self.has_producer = random.random() < 0.4
        self.quarantine_ms = DAY_MS if random.random() < 0.25 else None
        """Where all scans wait for a second one, commits may take so much longer."""
        self.lag_ms = LAG_MS + (self.quarantine_ms or 0)
        self.is_careless = random.random() < 0.1
        """The engine's expiry asks no other branch, as the real one does."""
        self.models: dict[str, RootModel] = {}
        """By the delta list, of which every commit has one of its own."""
        self.roots: dict[str, RootModel] = {}
        self.needs: dict[str, frozenset[str]] = {}
        self.doomed: set[str] = set()
        """Snapshots that the engine is expiring: its readers are gone, its files are going, its document is there."""
        self.held: Counter[str] = Counter()
        """Snapshots, or folders of branches, that somebody is about to go back or forward to: nobody takes them."""
        self.planned: set[str] = set()
        self.seen: Counter[str] = Counter()
        """What happened, so that a summary shows that something did."""
        self.is_putting_back = False
        """An expiry of ours writes: what it puts back may be what the engine's expiry has taken for dead meanwhile."""
        self.is_collecting = False
        self.collects = 0
        self.made_at: dict[str, int] = {}
        """Root -> how many collections had begun when it came."""
        self.moved_at: dict[str, int] = {}
        """What a root needed that went while its other holders were new -> the same."""
        self.is_looking = False
        """Between the look of a scan and the deletions that it is for."""
        self.excused: set[str] = set()
        """What commits need that outstayed the age limit while a scan was under way: only its look can see them."""
        options = {"bucket": "-1", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1000 d"}
        options["snapshot.num-retained.max"] = str(random.choice((1, 1, 2, 3)))
        if self.decoupled:
            options |= {"changelog.num-retained.max": str(random.choice((4, 6))), "changelog.time-retained": "1000 d"}
        if self.has_producer:
            options["changelog-producer"] = "input"
        self.schema = json.dumps(
            {
                "version": 3,
                "id": 0,
                "fields": [{"id": 0, "name": "v", "type": "STRING"}],
                "highestFieldId": 0,
                "partitionKeys": [],
                "primaryKeys": [],
                "options": options,
                "timeMillis": START_MS,
            }
        ).encode()
        self.store.put("schema/schema-0", self.schema)
        self.first_id = random.choice((1, 7, 8, 9, 97, 98))  # names of snapshots are listed as text: 10 before 9
        for _ in range(3):
            for _ in append(self, "main", crashes=False):
                pass
        self.now_ms += random.choice((0, HOUR_MS, 3 * DAY_MS))

    # What is true.

    def came(self, key: str, data: bytes) -> None:
        """Judge a document that was written."""
        self.planned.discard(key)
        kind = kind_of(key)
        if kind is None:
            return
        document = json.loads(data)
        model = self.models[document["deltaManifestList"]]
        needs = model.needs(kind, has_producer=self.has_producer)
        if kind != "tag" and self._lost_its_changelog(model):
            # It was a tag's, whose snapshot may have taken its changelog away; or it comes of such a one.
            needs &= model.needs("tag") if kind == "snapshot" else self.store._objects.keys()
        self.roots[key], self.needs[key], self.made_at[key] = model, needs, self.collects
        self.doomed.discard(key)
        missing = needs - self.store._objects.keys()
        if missing and self.is_putting_back:
            self.seen["snapshots put back hollow"] += 1
        elif missing and not self.is_damaged:
            raise Harm(f"{key} appeared, and there is no {min(missing)}")
        self.needs[key] -= missing
        self._check_planned(key)

    def _lost_its_changelog(self, model: RootModel) -> bool:
        whole = model.needs("snapshot") - model.needs("tag")
        holders = [root for root, other in self.roots.items() if other is model and root not in self.doomed]
        return bool(holders) and not any(kind_of(root) != "tag" and whole <= self.needs[root] for root in holders)

    def _check_planned(self, root: str) -> None:
        sought = (self.needs[root] & self.planned) - self.excused
        if sought and root not in self.doomed:
            raise Harm(f"{root} needs {min(sought)}, which a plan takes")

    def went(self, key: str) -> None:
        """Judge a deletion."""
        if key in self.roots:
            del self.roots[key], self.needs[key]
            self.doomed.discard(key)
            return
        for root, needs in self.needs.items():
            if key in needs and root not in self.doomed:
                raise Harm(f"{root} needs {key}, which was deleted")

    def note_plan(self, plan: Plan) -> Plan:
        """Judge a plan, now and from now on."""
        self.is_collecting = False
        self.planned = {delete.path for delete in plan.deletes}
        for root in self.needs:
            self._check_planned(root)
        self.seen["files planned"] += len(self.planned)
        return plan

    @property
    def is_damaged(self) -> bool:
        """Tell whether the engine took files that a root needs, so that no scan knows what may go."""
        return bool(self.seen["files that the engine took from a branch"] or self.seen["snapshots put back hollow"])

    def incomplete(self) -> set[str]:
        """Return the roots of which a file is gone, so that a scan may not know what they need."""
        return {root for root, model in self.roots.items() if not model.needs("snapshot") <= self.store._objects.keys()}

    def orphans(self) -> set[str]:
        """Walk all that can be reached from the roots, and return what is neither reached nor a document."""
        objects = self.store._objects.keys()
        names: set[str] = set()
        for model in self.roots.values():
            lists = (("base", model.base), ("delta", model.delta), ("changelog", model.changelog))
            for which, manifests in lists:
                name = model.document.get(f"{which}ManifestList")
                names.add(name)
                for manifest in manifests if f"manifest/{name}" in objects else ():
                    names.add(manifest.name)
                    if f"manifest/{manifest.name}" in objects:
                        for entry in manifest.entries:
                            names |= {entry.file.name, *entry.file.extra_files}
            names |= {model.document.get("indexManifest"), model.document.get("statistics")}
            if f"manifest/{model.document.get('indexManifest')}" in objects:
                names |= {file.name for file in model.index}
        return {
            key
            for key in objects
            if key.startswith(("manifest/", "index/", "statistics/", "bucket-0/", "snapshot/."))
            and key.rpartition("/")[2] not in names
            and not (key.endswith(".index") and owner_of(key) in names)
        }

    # What acts ask.

    def head(self, branch: str) -> str | None:
        """Return the path of a branch's newest snapshot."""
        found = self.snapshots(branch)
        return found[-1] if found else None

    def snapshots(self, branch: str) -> list[str]:
        """Return the paths of a branch's snapshots, by id."""
        prefix = f"{folder_of(branch)}snapshot/snapshot-"
        return sorted((root for root in self.roots if root.startswith(prefix)), key=id_of)

    def tags(self, branch: str) -> list[str]:
        prefix = f"{folder_of(branch)}tag/tag-"
        return sorted(root for root in self.roots if root.startswith(prefix))

    def branches(self) -> list[str]:
        return sorted({root.split("/")[1].removeprefix("branch-") for root in self.roots if root.startswith("branch/")})

    def sources(self, roots: Iterable[str]) -> list[str]:
        """Return those roots that something may be made from."""
        return [root for root in roots if root not in self.doomed]

    def may_take(self, root: str) -> bool:
        """Tell whether a root may go: nothing that it needs has moved in this collection or the one before."""
        return not self.is_collecting or not any(
            self.collects - self.moved_at.get(path, -9) < 2 for path in self._moving(root)
        )

    def note_move(self, root: str) -> None:
        """Note that a root is about to go."""
        self.moved_at |= dict.fromkeys(self._moving(root), self.collects)

    def _moving(self, root: str) -> set[str]:
        """Return what a listing may miss when this root goes: what others hold, and none for long."""
        others = [other for other in self.roots if other != root and other not in self.doomed]
        old = [other for other in others if self.made_at[other] <= self.collects - 2]
        young = set().union(*(self.needs[other] for other in others))
        return set(young.intersection(self.needs.get(root, ())).difference(*(self.needs[other] for other in old)))

    def name(self, prefix: str, suffix: str = "") -> str:
        return f"{prefix}-{uuid.UUID(int=self.random.getrandbits(128))}{suffix}"

    def put(self, key: str, data: bytes = b"x", *, began_ms: int | None = None) -> None:
        """Write an object; one that comes in parts has the time at which its writer began."""
        self.store.put(key, data)
        if began_ms is not None:
            self.store.set_modified(key, began_ms)

    def remove(self, key: str) -> None:
        self.store.delete([DeleteRequest(key)])

    def body(self, root: str) -> bytes:
        return self.store._objects[root][0]

    def data_file(self, prefix: str = "data", source: int = 0) -> DataFile:
        return DataFile(
            symbol="", name=self.name(prefix, "-0.avro"), folder="bucket-0/", partition=(), partition_row=_NO_ROW,
            bucket=0, total_buckets=-1, size=1, rows=1, schema_id=0, creation_ms=START_MS, file_source=source,
        )  # fmt: skip


def kind_of(key: str) -> RootKind | None:
    """Return what kind of root lies at a key."""
    folder, _, name = key.rpartition("/")
    folder = folder.rpartition("/")[2]
    kinds: tuple[RootKind, ...] = ("snapshot", "tag", "changelog")
    for kind in kinds:
        if folder == kind and name.startswith(f"{kind}-"):
            return kind
    return None


def folder_of(branch: str) -> str:
    return "" if branch == "main" else f"branch/branch-{branch}/"


def id_of(root: str) -> int:
    return int(root.rpartition("-")[2])


def owner_of(key: str) -> str:
    """Return the data file of an index file that lies beside it: `data-...-0.avro` of `data-...-0.avro-1.index`."""
    return key.rpartition("/")[2].partition(".avro")[0] + ".avro"


# Writers.


def append(world: World, branch: str, *, crashes: bool = True) -> Act:
    """New files, sometimes with an index beside them or statistics; they come one after the other."""
    random, began_ms = world.random, world.now_ms
    files = []
    for _ in range(random.choice((1, 1, 2))):
        file, file_began_ms = world.data_file(), world.now_ms
        if random.random() < 0.2:
            file = replace(file, extra_files=(f"{file.name}.index",))
        if crashes and random.random() < 0.3:
            yield  # it comes in parts
        world.put(file.path, began_ms=file_began_ms)
        yield
        for extra in file.extra_paths:
            world.put(extra)
            yield
        files.append(file)
    changelog = []
    if world.has_producer and random.random() < 0.7:
        changelog = [Entry("+", world.data_file("changelog"))]
        world.put(changelog[0].file.path)
        yield
    yield from commit(
        world, branch, lambda head: [Entry("+", file) for file in files], began_ms, crashes, changelog=changelog
    )


def rewrite(world: World, branch: str) -> Act:
    """Delete some files of a state and add others instead, or none: a compaction, an overwrite, a deletion."""
    random, began_ms = world.random, world.now_ms
    head = world.head(branch)
    live = world.roots[head].live if head else ()
    if not live:
        return
    gone = random.sample(live, random.randint(1, len(live)))
    added = [world.data_file(source=1)] if random.random() < 0.7 else []
    for file in added:
        world.put(file.path)
        yield

    def change(head: RootModel | None) -> Sequence[Entry] | None:
        there = {file.identity for file in head.live} if head else set()
        if not all(file.identity in there for file in gone):
            return None
        return [*(Entry("-", file) for file in gone), *(Entry("+", file) for file in added)]

    yield from commit(world, branch, change, began_ms)


def rewrite_index(world: World, branch: str) -> Act:
    """Give a file another index beside it: its name follows from the one before, so a second try writes it again."""
    began_ms, head = world.now_ms, world.head(branch)
    live = world.roots[head].live if head else ()
    if not live:
        return
    file = world.random.choice(live)
    number = (
        int(file.extra_files[0].rpartition("-")[2].removesuffix(".index")) if "-0.avro-" in str(file.extra_files) else 0
    )
    name = f"{file.name}-{number + 1}.index" if file.extra_files else f"{file.name}.index"
    other = replace(file, extra_files=(name,))
    world.put(file.folder + name, b"index")
    yield

    def change(head: RootModel | None) -> Sequence[Entry] | None:
        there = {known.identity for known in head.live} if head else set()
        return [Entry("-", file), Entry("+", other)] if file.identity in there else None

    yield from commit(world, branch, change, began_ms)


def merge(world: World, branch: str) -> Act:
    """Write the base anew, without what was deleted."""
    yield from commit(world, branch, lambda head: [] if head else None, world.now_ms, merge_base=True)


def as_latest(world: World, branch: str) -> Act:
    """Commit what an earlier snapshot was, which a tag holds from now on."""
    found = world.sources(world.snapshots(branch)[:-1])
    if not found:
        return
    target = world.random.choice(found)
    model = world.roots[target]
    path = f"{folder_of(branch)}tag/{world.name('tag-back')}"
    world.put(path, world.body(target))
    yield

    def change(head: RootModel | None) -> Sequence[Entry] | None:
        now = {file.identity: file for file in head.live} if head else {}
        then = {file.identity: file for file in model.live}
        delta = [Entry("-", file) for identity, file in now.items() if identity not in then]
        return delta + [Entry("+", file) for identity, file in then.items() if identity not in now]

    with hold(world, path):
        if path in world.roots:
            yield from commit(world, branch, change, world.now_ms, merge_base=True)


def commit(
    world: World,
    branch: str,
    change: Change,
    began_ms: int,
    crashes: bool = True,
    *,
    changelog: Sequence[Entry] = (),
    merge_base: bool = False,
) -> Act:
    """Write manifests, lists and the snapshot, as often as another commit comes first."""
    random, store = world.random, world.store
    is_late = crashes and random.random() < 0.1
    written: list[str] = []

    def manifests(groups: Iterable[Sequence[Entry]]) -> Iterator[tuple[Manifest, bytes]]:
        for entries in groups:
            body = encode_manifest(entries)
            yield Manifest(world.name("manifest", "-0"), len(body), tuple(entries)), body

    def put(name: str, body: bytes) -> None:
        written.append(name)
        world.put(name, body)

    for _ in range(4):
        if crashes and random.random() < 0.12:
            return
        head = world.head(branch)
        if head is None and branch != "main":
            return
        before = world.roots[head] if head else None
        entries = change(before)
        if entries is None:
            return
        base = (*before.base, *before.delta) if before else ()
        prepared = []
        gone = {entry.file.identity for manifest in base for entry in manifest.entries if entry.sign == "-"}
        comes_back = any(entry.sign == "+" and entry.file.identity in gone for entry in entries)
        if merge_base or comes_back or len(base) > 4:
            live = [Entry("+", file) for file in (before.live if before else ())]
            merged = list(manifests([live] if live else []))
            prepared += merged
            base = tuple(manifest for manifest, _ in merged)
        new = list(manifests([entries] if entries else []))
        changes = list(manifests([changelog] if changelog else []))
        prepared += [*new, *changes]
        for manifest, body in prepared:
            put(f"manifest/{manifest.name}", body)
            yield
        rows = sum(1 if entry.sign == "+" else -1 for entry in entries)
        document: dict[str, Any] = {
            "version": 3,
            "id": id_of(head) + 1 if head else world.first_id,
            "schemaId": 0,
            "commitUser": "world",
            "commitIdentifier": 1,
            "commitKind": "APPEND",
            "timeMillis": world.now_ms,
            "totalRecordCount": (before.document["totalRecordCount"] if before else 0) + rows,
            "deltaRecordCount": rows,
        }
        index = before.index if before else ()
        if before and "indexManifest" in before.document:
            document["indexManifest"] = before.document["indexManifest"]
        if random.random() < 0.15:
            name = world.name("index", "-0")
            index = (IndexFile("", name, f"index/{name}", 1, "HASH", _NO_ROW, 0, 1),)
            document["indexManifest"] = world.name("index-manifest", "-0")
            put(index[0].path, b"x")
            yield
            put(f"manifest/{document['indexManifest']}", encode_index_manifest(index))
            yield
        if random.random() < 0.1:
            document["statistics"] = world.name("stat", "-0")
            put(f"statistics/{document['statistics']}", b"{}")
            yield
        model = RootModel(document, base, tuple(m for m, _ in new), tuple(m for m, _ in changes), index)
        lists = {"base": model.base, "delta": model.delta} | ({"changelog": model.changelog} if changelog else {})
        for number, (which, of_list) in enumerate(lists.items()):
            name, body = world.name("manifest-list", f"-{number}"), encode_manifest_list(of_list)
            document |= {f"{which}ManifestList": name, f"{which}ManifestListSize": len(body)}
            put(f"manifest/{name}", body)
            yield
        world.models[document["deltaManifestList"]] = model
        path = f"{folder_of(branch)}snapshot/snapshot-{document['id']}"
        body = json.dumps(document).encode()
        if crashes and random.random() < 0.1:
            world.put(f"snapshot/.snapshot-{document['id']}.{uuid.UUID(int=random.getrandbits(128))}.tmp", body)
            yield
        for _ in range(40):
            if not is_late or world.now_ms - began_ms > world.lag_ms + AGE_MS - LAG_MS:
                break
            yield
        while is_late and world.is_looking:
            yield
        if is_late and not store._objects.keys() >= model.needs("snapshot", has_producer=world.has_producer):
            return  # it finds out that it comes too late
        if not is_late and world.now_ms - began_ms > world.lag_ms:
            return
        if world.head(branch) != head or (head and world.roots[head] is not before) or head in world.doomed:
            continue
        if is_late and world.now_ms - began_ms > world.lag_ms:
            world.excused |= model.needs("snapshot")
            world.seen["late commits"] += 1
        world.put(path, body)
        world.seen["commits"] += 1
        yield
        world.put(f"{folder_of(branch)}snapshot/LATEST", str(document["id"]).encode())
        return


# Roots.


def tag(world: World, branch: str) -> Act:
    """Tag a snapshot or what another tag holds, under a new name or in the place of another tag."""
    found = world.sources([*world.snapshots(branch), *world.tags(branch)])
    if not found:
        return
    source = world.random.choice(found)
    body = world.body(source)
    yield
    if source not in world.roots or source in world.doomed or world.body(source) != body:
        return
    name = world.random.choice(("again", "t1", "t2", "t3"))
    path = f"{folder_of(branch)}tag/tag-{name}"
    while path in world.roots and not world.may_take(path):
        yield
    if source not in world.roots or source in world.doomed or world.body(source) != body:
        return
    if path in world.roots:
        world.note_move(path)
    world.put(path, body)
    world.seen["tags"] += 1


def delete_tag(world: World, branch: str) -> Act:
    found = world.tags(branch)
    if found:
        yield from take(world, world.random.choice(found))
        world.seen["tags deleted"] += 1


def rename_tag(world: World, branch: str) -> Act:
    """A copy and a delete; names come in any order of a listing."""
    found = world.tags(branch)
    if not found:
        return
    old, new = world.random.choice(found), f"{folder_of(branch)}tag/tag-{world.random.choice('ax')}{world.name('r')}"
    body = world.body(old)
    yield
    if old not in world.roots or world.body(old) != body:
        return
    world.put(new, body)
    yield
    yield from take(world, old, body)
    world.seen["tags renamed"] += 1


def branch(world: World, branch: str) -> Act:
    """Make a branch of a tag: tag, snapshot, schema; sometimes the tag goes right after."""
    found = world.sources(world.tags("main"))
    names = [name for name in ("b", "c") if name not in world.branches()]
    if not found or not names:
        return
    source, folder = world.random.choice(found), folder_of(names[0])
    body = world.body(source)
    snapshot_id = json.loads(body)["id"]
    for path in (f"tag/{source.rpartition('/')[2]}", f"snapshot/snapshot-{snapshot_id}"):
        yield
        if source in world.roots and world.body(source) == body:
            world.put(folder + path, body)
    yield
    world.put(f"{folder}schema/schema-0", world.schema)
    world.seen["branches"] += 1
    if world.random.random() < 0.4:
        yield
        yield from take(world, source, body)


def drop_branch(world: World, branch: str) -> Act:
    """Document by document, in no order."""
    if branch == "main" or world.held[folder_of(branch)]:
        return
    found = [key for key in world.store._objects if key.startswith(folder_of(branch))]
    world.random.shuffle(found)
    for key in found:
        if key in world.store._objects:
            yield from take(world, key)
        yield
    world.seen["branches dropped"] += 1


def fast_forward(world: World, branch: str) -> Act:
    """Main goes on as the branch did: its own go, the branch's are copied; the branch may go right after."""
    if branch == "main":
        return
    ours = world.snapshots(branch)
    if not ours or world.doomed.intersection([*ours, *world.snapshots("main")]):
        return
    first = id_of(ours[0])
    gone = [root for root in world.snapshots("main") if id_of(root) >= first]
    gone += [root for root in world.tags("main") if world.roots[root].id >= first]
    with hold(world, folder_of(branch), ""):
        for root in reversed(gone):
            if root in world.roots and not world.held[root]:
                yield from take(world, root)
                yield
        for root in [*ours, *world.tags(branch)]:
            if root in world.roots:
                world.put(root.removeprefix(folder_of(branch)), world.body(root))
                yield
    world.seen["fast-forwards"] += 1
    if world.random.random() < 0.5:
        yield from drop_branch(world, branch)


def rollback(world: World, branch: str) -> Act:
    """LATEST, then later snapshots, the newest first, changelogs, tags: documents alone."""
    found = world.snapshots(branch)[:-1]
    if not found or world.doomed.intersection(world.snapshots(branch)):
        return
    folder, target = folder_of(branch), world.random.choice(found)
    later = [root for root in world.snapshots(branch) if id_of(root) > id_of(target)]
    later += [f"{folder}changelog/changelog-{id_of(root)}" for root in later]
    later += [root for root in world.tags(branch) if world.roots[root].id > id_of(target)]
    with hold(world, folder, target):
        world.put(f"{folder}snapshot/LATEST", str(id_of(target)).encode())
        yield
        for root in sorted(later, key=lambda root: "/tag/" in f"/{root}" or -id_of(root)):
            if root in world.roots and not world.held[root]:
                yield from take(world, root)
                yield
    world.seen["rollbacks"] += 1


def take(world: World, root: str, body: bytes | None = None) -> Act:
    """Remove a root, or another object, as soon as the world allows, and if it still is what it was."""
    while root in world.roots and not world.may_take(root):
        yield
    if root in world.store._objects and body in (None, world.body(root)) and not world.held[root]:
        world.note_move(root)
        world.remove(root)


@contextmanager
def hold(world: World, *roots: str) -> Iterator[None]:
    """Keep roots from everybody else."""
    world.held.update(roots)
    try:
        yield
    finally:
        world.held.subtract(roots)


def engine_expires(world: World, branch: str, *, dies: bool = True) -> Act:
    """The engine's order: files, manifests, lists, documents. It may die anywhere; the next one takes the rest."""
    random, folder = world.random, folder_of(branch)
    snapshots = world.snapshots(branch)
    keep = random.choice((1, 1, 2, 3))
    going = [root for root in snapshots if root in snapshots[:-keep] or root in world.doomed]
    if not going or going == snapshots or world.held[folder_of(branch)]:
        return
    if world.decoupled:
        for root in going:
            if root not in world.doomed and root in world.roots:
                world.put(f"{folder}changelog/changelog-{id_of(root)}", world.body(root))
                yield
    going = [root for root in going if root in world.roots]
    if world.held[folder]:
        return
    world.doomed.update(going)
    files = set().union(*(world.needs[root] for root in going)) if going else set()
    order = ("bucket-0/", "index/", "statistics/", "manifest/manifest-", "manifest/index-manifest-", "manifest/")
    for key in sorted(files, key=lambda key: (next(n for n, start in enumerate(order) if key.startswith(start)), key)):
        if dies and random.random() < 0.01:
            world.seen["expiries that died"] += 1
            return
        owners = [root for root in world.roots if root not in world.doomed and key in world.needs[root]]
        is_ours = [root for root in owners if root.startswith("branch/") == (branch != "main")]
        # The next index beside a file has the name that one before had, and its writer may not have committed yet.
        is_young = (
            key.endswith(".index") and world.now_ms - world.store._objects.get(key, (b"", "", 0))[2] < world.lag_ms
        )
        if key not in world.store._objects or is_young or is_ours or (owners and not world.is_careless):
            continue
        for root in owners:
            world.needs[root] -= {key}
            world.seen["files that the engine took from a branch"] += 1
        world.remove(key)
        yield
    for root in going:
        if root in world.roots and root in world.doomed:
            world.remove(root)
            yield
    world.seen["expiries of the engine"] += 1


def drop_changelog(world: World, branch: str) -> Act:
    """The oldest goes, and its files stay behind."""
    prefix = f"{folder_of(branch)}changelog/changelog-"
    found = sorted((root for root in world.roots if root.startswith(prefix)), key=id_of)
    if found:
        world.remove(found[0])
    yield


WRITERS = (append, append, append, rewrite, rewrite, rewrite_index, merge, as_latest)
CHANGES = (tag, tag, delete_tag, rename_tag, branch, drop_branch, fast_forward, rollback, drop_changelog)
