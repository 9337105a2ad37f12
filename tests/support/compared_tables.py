"""Tables about which every engine of orphan scans has to say what the local one says.

Each function makes a table, or some, has two engines plan them, and holds their answer against what was planted.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.session import Table
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.differential.planting import back_date, plant
from tests.support.engines_compared import Answer
from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import DAY_MS, S3Scene
from tests.support.random_scene import FolderScene, fill
from tests.support.s3_server import moto_settings

SETTINGS = StoreSettings()
Compare = Callable[..., Answer]
"""Plans a table at a location by some arguments, with two engines; settings and a control location may follow."""


def table_at(location: str, control: Store, settings: StoreSettings = SETTINGS) -> Table:
    counter = RequestCounter()
    return Table(
        ref=TableRef(location),
        store=open_store(location, counter=counter, settings=settings),
        area=ControlArea(control, location),
        open_store=lambda place: open_store(place, counter=counter, settings=settings),
        counter=counter,
        sleep=lambda _: None,
    )


def long_ago() -> int:
    return int(time.time() * 1000) - DAY_MS - 60_000


def fixture_table(name: str, compare: Compare, fixtures: Path, folder: Path) -> None:
    """Orphans of every kind planted in a table of the Java engine."""
    location = folder / "lake" / "db.db" / name
    shutil.copytree(fixtures / "tables" / name, location)
    for each, _, _ in os.walk(location):
        Path(each).chmod(0o755)  # the fixtures are read-only
    random = Random(name)
    keys = ["dt"] if any(path.name.startswith("dt=") for path in location.iterdir()) else []
    planted = plant(location, keys, random)
    young = frozenset(random.sample(sorted(planted), 3))
    back_date(location, young)

    answer = compare(str(location), OrphanArguments())

    if answer.plan is not None:
        assert answer.paths
        assert not answer.paths & young


def random_table(seed: int, compare: Compare, folder: Path) -> None:
    random = Random(seed)
    scene = FolderScene(folder, external=random.choice((None, "outside")))
    arguments = OrphanArguments(**fill(scene, random))
    compare(scene.store.location, arguments)


def one_name(copies: int, compare: Compare, folder: Path) -> None:
    """One name in many folders and in many manifests: all of its rows meet in one task."""
    scene = FolderScene(folder)
    scene.table.commit("+A", "+B")
    for _ in range(30):
        scene.table.commit("-A@0", "+A@5")
    name = scene.table.path("A").rpartition("/")[2]
    dead = f"data-{stable_uuid('dead')}-0.parquet"
    for number in range(copies):
        scene.put(f"dt={number}/bucket-0/{name}", b"")
        scene.put(f"dt={number}/bucket-0/{dead}", b"")
    scene.age()
    scene.drop(scene.table.path("B"))

    answer = compare(scene.store.location, OrphanArguments())

    assert answer.paths == {f"dt={number}/bucket-0/{dead}" for number in range(copies)}
    assert answer.facts["kept"]["live"] > copies
    assert [file["path"] for file in answer.facts["findings.missing"]["first"]] == [scene.table.path("B")]


def hostile_names(compare: Compare, folder: Path) -> None:
    """Live and dead, in control characters, quotes, letters of four bytes, and names that are no UTF-8 at all."""
    scene = FolderScene(folder)
    odd_texts = ["\x01\x1f\x7f", "a\nb\tc", "'\"`\\", "%2F%25", "\u2028\ufeff\U0001f300", "*?[x]{y}", "ä" * 60]
    partitions = [*odd_texts, "$1 ${x}"]
    for number, partition in enumerate(partitions):
        scene.table.commit(f"+F{number}", partition=(partition,))
        place = scene.table.path(f"F{number}").rpartition("/")[0]
        scene.put(f"{place}/data-{stable_uuid(partition)}-0.parquet")
        scene.put(f"{place}/{scene.table.path('F0').rpartition('/')[2]}\n")
        scene.put(f"{place}/data-{partition.replace('/', '')}.parquet")
    odd = os.fsencode(scene.store.location) + b"/dt=\xff\xfe/bucket-0"
    Path(os.fsdecode(odd)).mkdir(parents=True)
    for name in (f"/data-{stable_uuid('odd')}-0.parquet".encode(), b"/\xff.txt"):
        Path(os.fsdecode(odd + name)).write_bytes(b"odd")
    scene.age()

    answer = compare(scene.store.location, OrphanArguments())

    assert answer.plan is None or len(answer.paths) >= len(partitions)


def tables_on_s3(compare: Compare) -> None:
    """Keys that listings escape, and tables whose names begin alike."""
    scene = S3Scene(prefix="db.db/t")
    scene.table.commit("+A", partition=("a:b/c%",))
    scene.table.commit("+B", partition=("ü +&=",))
    folders = ["dt=a%3Ab%2Fc%25", "dt=a%253Ab%252Fc%2525", "dt=a b+ü", "dt=\u2028\U0001f300\x7f"]
    orphans = {scene.orphan(folder, folder=f"{folder}/bucket-0/") for folder in folders}
    for prefix in ("db.db/t2", "db.db/t-", "db.db/t.b/x"):
        other = S3Scene(prefix=prefix, bucket=scene.bucket)
        other.table.commit("+A")
        other.orphan(prefix)
    scene.age()

    answer = compare(scene.store.location, OrphanArguments(), moto_settings(), f"s3://{scene.bucket}/control")

    assert answer.paths == orphans


def pypaimon_tables(compare: Compare, folder: Path) -> None:
    """Partitioned, plain and with a primary key: partitions overwritten, and snapshots gone whose files are left."""
    catalog = CatalogFactory.create({"warehouse": str(folder / "lake")})
    catalog.create_database("db", True)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    shapes: dict[str, dict[str, Any]] = {
        "partitioned": {"partition_keys": ["day"], "options": {"bucket": "-1"}},
        "plain": {"options": {"bucket": "-1"}},
        "keyed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    }
    for name, shape in shapes.items():
        catalog.create_table(f"db.{name}", Schema.from_pyarrow_schema(columns, **shape), False)
        table = catalog.get_table(f"db.{name}")
        for number in range(4):
            builder = table.new_batch_write_builder()
            if name == "partitioned" and number == 3:
                builder = builder.overwrite({"day": "d0"})
            writer, committer = builder.new_write(), builder.new_commit()
            days = ["d0"] * 10 if number == 3 else [f"d{row % 3}" for row in range(10)]
            writer.write_arrow(pa.table({"id": range(10 * number, 10 * number + 10), "day": days}, schema=columns))
            committer.commit(writer.prepare_commit())
            writer.close()
            committer.close()
        location = folder / "lake" / "db.db" / name
        for number in (1, 2):
            (location / "snapshot" / f"snapshot-{number}").unlink()
        plant(location, ["day"] if name == "partitioned" else [], Random(name))
        back_date(location)

        answer = compare(str(location), OrphanArguments())

        assert {"manifest_list", "data"} <= answer.facts["by_kind"].keys(), answer.facts["by_kind"]
