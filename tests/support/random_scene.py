"""Tables at random, with something of everything that an orphan scan meets, for engines that are compared.

Nobody says here what goes: two engines look at the same table. That nothing goes which a root needs is checked beside.
"""

import os
import time
from random import Random
from typing import Any

from lakesweep.errors import StorageError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
from tests.differential.planting import _BESIDE_BUCKETS, _ELSEWHERE, _IN_BRANCHES, _IN_BUCKETS
from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import DAY_MS, HOUR_MS, OrphanScene

OUTSIDE = "memory://outside/ext"
PARTITIONS = ("v", "ü", "a:b/c%", "+ &?#'\"", "\x01\x7f", "x\ny", "\u2028\U0001f300", "2026-01-01", "v" * 60)


class FolderScene(OrphanScene):
    """The same in folders, by the real clock; what time passes, files are back-dated by."""

    def __init__(self, folder: Any, **table: Any) -> None:
        """Begin with an empty table in `folder/db.db/t`, with an external root beside if `external` says so."""
        self.folder = folder
        external = table.pop("external", None)
        externals = {}
        if external is not None:
            place = LocalStore(str(folder / "ext"))
            (folder / "ext").mkdir()
            externals = {place.location: place}
        super().__init__(store=LocalStore(str(folder / "db.db" / "t")), **table)
        if externals:
            options = {"data-file.external-paths": ",".join(externals)}
            self.table.externals = externals
            self.table._files.externals = externals
            self.table.alter(options=options)
            (self.external,) = externals.values()  # type: ignore[assignment]
        self.control = LocalStore(str(folder / "control"))  # type: ignore[assignment]
        self.now_ms = int(time.time() * 1000)

    def put(self, path: str, data: bytes = b"orphan", *, age_ms: int | None = None) -> str:
        self.store.put(path, data)
        if age_ms is not None:
            then = time.time() - age_ms / 1000
            os.utime(f"{self.store.location}/{path}", (then, then))
        return path

    def age(self, by_ms: int = 10 * DAY_MS) -> None:
        for root in ("db.db", "ext"):
            for folder, _, names in os.walk(self.folder / root):
                for name in names:
                    path = f"{folder}/{name}"
                    then = os.lstat(path).st_mtime - by_ms / 1000
                    os.utime(path, (then, then), follow_symlinks=False)


def fill(scene: OrphanScene, random: Random) -> dict[str, Any]:
    """Make a table of many things; return arguments of a scan."""
    table = scene.table
    symbols: list[str] = []
    count = 0

    def new(prefix: str = "F") -> str:
        nonlocal count
        count += 1
        return f"{prefix}{count}"

    view = table
    for _ in range(random.randrange(2, 8)):
        live = sorted(symbols)
        added = [new() for _ in range(random.randrange(1, 4))]
        entries = [f"+{name}@0" for name in added]
        more: dict[str, Any] = {"partition": {name: (random.choice(PARTITIONS),) for name in added}}
        if scene.external is not None and random.random() < 0.5:
            folder = f"{scene.external.location}/dt=v/bucket-0"
            more["external"] = {added[0]: f"{folder}/data-{stable_uuid(added[0])}-0.parquet"}
        gone = random.sample(live, min(len(live), random.choice((0, 0, 1, 2))))
        entries += [f"-{name}" for name in gone]
        if live and random.random() < 0.4:  # a level goes up: one name goes and comes in one commit
            name = random.choice(live)
            if name not in gone:
                entries += [f"-{name}@0", f"+{name}@5"]
        if random.random() < 0.4:
            more["extra"] = {name: random.choice((["index"], ["index", "x.y"])) for name in added[-1:]}
        if random.random() < 0.3:
            more["changelog"] = [f"+{new('L')}"]
        if random.random() < 0.3:
            more["index"] = {new("i"): b"\0\0\0\1"}
        if random.random() < 0.2:
            more["statistics"] = new("s")
        try:
            view.commit(*entries, **more)
        except (ValueError, KeyError):
            view.commit(*[f"+{name}" for name in added])
            gone = []
        symbols = [name for name in (*symbols, *added) if name not in gone]
        if view is table:
            step = random.random()
            if step < 0.15:
                table.merge_manifests()
            elif step < 0.35:
                table.tag(new("t"))
            elif step < 0.45:
                name = new("t")
                table.tag(name)
                branch = table.branch(new("b"), from_tag=name)
                branch.commit(f"+{new('B')}")
    roots = [root for root in table.roots() if "/snapshot-" in f"/{root}" and not root.startswith("branch/")]
    for root in roots[: random.choice((0, 0, 1, len(roots) - 1))]:
        table.remove(root)  # an expiry that ended before it took files
    _lose(scene, random)
    _plant(scene, random)
    scene.age()
    for number in range(random.randrange(3)):
        scene.put(f"dt=v/bucket-0/data-{stable_uuid(f'young {number} {random.random()}')}-0.parquet", age_ms=HOUR_MS)
    arguments: dict[str, Any] = {}
    if scene.external is not None and random.random() < 0.6:
        arguments["owned_external"] = (scene.external.location,)
    return arguments


def _lose(scene: OrphanScene, random: Random) -> None:
    """Lose files of any kind."""
    keys = sorted(scene.listed())
    kinds = [
        [key for key in keys if "bucket-" in key],
        [key for key in keys if "bucket-" in key and key.count(".") > 1],
        [key for key in keys if "changelog-" in key.rpartition("/")[2]],
        [key for key in keys if key.startswith(("index/", "statistics/"))],
        [key for key in keys if key.startswith("manifest/manifest-list-")],
        [key for key in keys if key.startswith("manifest/manifest-") and "-list-" not in key],
        [key for key in keys if key.startswith("manifest/index-")],
    ]
    chosen: set[str] = set()
    if random.random() < 0.6:
        for found in random.choices(kinds[:4], k=random.randrange(1, 4)):
            chosen |= set(random.sample(found, min(len(found), random.randrange(1, 3))))
    if random.random() < 0.25:
        found = random.choice(kinds[4:])
        chosen |= set(random.sample(found, min(len(found), 1)))
    for key in sorted(chosen):
        scene.store.delete([DeleteRequest(key)])


def _plant(scene: OrphanScene, random: Random) -> None:
    """Put orphans of every kind, and what only looks like some."""

    def named(pattern: str) -> str:
        while "{uuid}" in pattern:
            pattern = pattern.replace("{uuid}", stable_uuid(str(random.random())), 1)
        return pattern.replace("BUCKET", "0")

    def put(path: str) -> None:
        try:
            scene.put(path, b"planted " + random.randbytes(random.randrange(9)))
        except StorageError:
            pass  # a folder stands there

    keys = sorted(scene.listed())
    folders = sorted({key.rpartition("/")[0] for key in keys if "bucket-" in key} | {"dt=v/bucket-0"})
    for folder in random.sample(folders, min(len(folders), 3)):
        for pattern in random.sample(_IN_BUCKETS, 12):
            put(f"{folder}/{named(pattern)}")
        for pattern in random.sample(_BESIDE_BUCKETS, 3):
            put(f"{folder.rpartition('/')[0]}/{named(pattern)}")
    live = [key for key in keys if key.endswith(".parquet")]
    dead = f"dt=v/bucket-0/data-{stable_uuid(str(random.random()))}-0.parquet"
    for owner in [*random.sample(live, min(len(live), 2)), dead]:  # the owner of the last is nowhere
        for end in random.sample((".index", "-3.index", ".row", ".blobref", ".128.remote-file.v1.lookup"), 3):
            put(owner + end)
    if live:  # the name of a live file in other folders
        for folder in random.sample(folders, min(len(folders), 2)):
            put(f"{folder}/{live[0].rpartition('/')[2]}")
    for pattern in random.sample(_ELSEWHERE, 20):
        put(named(pattern))
    for branch in {key.split("/")[1] for key in keys if key.startswith("branch/")}:
        for pattern in random.sample(_IN_BRANCHES, 3):
            put(f"branch/{branch}/{named(pattern)}")
    if random.random() < 0.4:  # more than are shown
        for number in range(30):
            put(f"unknown/{random.randrange(1000):04}-{number}.txt")
    if random.random() < 0.4:
        put("dt=nested/x/schema/schema-0")
        for _ in range(30):
            put(named("dt=nested/x/dt=v/bucket-0/data-{uuid}-0.parquet"))
        put(named("dt=nested/y/bucket-0/data-{uuid}-0.parquet"))
    if random.random() < 0.5:
        for partition in PARTITIONS:
            if "/" not in partition:
                put(named(f"dt={partition}/bucket-0/data-{{uuid}}-0.parquet"))
    if scene.external is not None:
        for pattern in random.sample(_IN_BUCKETS, 8):
            scene.external.put(f"dt=v/bucket-0/{named(pattern)}", b"outside")
        for number in range(random.choice((0, 30))):
            scene.external.put(f"zz/{number}.txt", b"")
