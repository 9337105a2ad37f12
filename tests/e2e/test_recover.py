"""The recipes of `docs/recover.md`, command by command as the page shows them, on embedded S3.

pypaimon writes the table and reads it afterwards; the Java engine reads a copy of it, where there is one. What was
there before the accident is kept here in plain Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pypaimon import CatalogFactory, Schema

from lakesweep.storage.open import open_store
from lakesweep.storage.store import Store
from tests.conftest import REPOSITORY
from tests.differential.engine import Engine
from tests.support.page import Shown, difference, recipes, run_ids
from tests.support.reader import read_all
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint, moto_settings, seed_moto, versioned_bucket
from tests.unit.cli.command_line import Answer, call

PAGE = REPOSITORY / "docs" / "recover.md"
RECIPES = recipes(PAGE)
COLUMNS = pyarrow.schema([("id", pyarrow.int64()), ("day", pyarrow.string()), ("cents", pyarrow.int64())])
FOLDER = "warehouse/sales.db/orders"
OPTIONS = {
    "bucket": "-1",
    "write-only": "true",
    "snapshot.num-retained.min": "10",
    "snapshot.time-retained": "7 d",
    "sink.process-time-zone": "UTC",
}
ROWS_PER_DAY = 50

Row = tuple[int, str, int]


def rows_of(day: int, cents: int = 1) -> list[Row]:
    """Return what one load brings."""
    return [(day * 1000 + n, f"2026-01-{day:02}", (n + 1) * cents) for n in range(ROWS_PER_DAY)]


def _table(rows: list[Row]) -> pyarrow.Table:
    return pyarrow.table([list(column) for column in zip(*rows, strict=True)], schema=COLUMNS)


@dataclass
class Shop:
    """The table of the page, its bucket and the control location."""

    bucket: str
    control: str
    ids: dict[str, str] = field(default_factory=dict)
    """Ids of runs on the page -> those of this run."""

    @property
    def table(self) -> str:
        return f"s3://{self.bucket}/{FOLDER}"

    @property
    def store(self) -> Store:
        return open_store(self.table, settings=moto_settings())

    @property
    def catalog(self) -> Any:
        """Return a catalog that remembers nothing."""
        return CatalogFactory.create(
            {
                "warehouse": f"s3://{self.bucket}/warehouse",
                "s3.endpoint": moto_endpoint(),
                "s3.region": "us-east-1",
                "s3.access-key": "testing",
                "s3.secret-key": "testing",
                "s3.path-style-access": "true",
            }
        )

    def create(self) -> None:
        catalog = self.catalog
        catalog.create_database("sales", False)
        schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options=OPTIONS)
        catalog.create_table("sales.orders", schema, False)

    def load(self, rows: list[Row], *, overwrite: bool = False) -> None:
        """Commit rows, or replace their day by them."""
        builder = self.catalog.get_table("sales.orders").new_batch_write_builder()
        if overwrite:
            builder.overwrite({"day": rows[0][1]})
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(_table(rows))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, name: str = "sales.orders", **options: str) -> list[Row]:
        """Read the table with pypaimon; options have `_` for `-` and `.` after `scan`."""
        table = self.catalog.get_table(name)
        if options:
            table = table.copy({f"scan.{key.replace('_', '-')}": value for key, value in options.items()})
        builder = table.new_read_builder()
        columns = builder.new_read().to_arrow(builder.new_scan().plan().splits()).select(COLUMNS.names).to_pydict()
        return sorted(zip(*columns.values(), strict=True))

    def objects(self) -> dict[str, bytes]:
        store = self.store
        return {entry.key: store.read(entry.key).data for entry in store.list("")}

    def call(self, command: str, *words: str) -> Answer:
        return call(command, self.table, *words, "--endpoint-url", moto_endpoint(), "--region", "us-east-1")

    def clean_up(self) -> dict[str, Any]:
        """Remove every orphan file, however young: the server knows times in whole seconds."""
        time.sleep(2)
        cutoff = str((int(time.time()) - 1) * 1000)
        words = ("--older-than", cutoff, "--no-writers", "a test", "--execute", "--json")
        answer = self.call("remove-orphan-files", *words)
        assert answer.exit_code == 0, answer.messages
        return answer.document

    def follow(self, recipe: str, *, leaves_damage: bool = False) -> None:
        """Run what the page shows under a heading, in order; each command must print what the page shows."""
        for shown in RECIPES[recipe]:
            if shown.is_program:
                exec(shown.text, {"catalog": self.catalog, "rows_of_january_6": _table(rows_of(6))})
            else:
                self._run(shown)
        if leaves_damage:
            return
        store = self.store
        assert {entry.key for entry in store.list("") if _is_snapshot_or_tag(entry.key)} <= read_all(store).keys()

    def _run(self, shown: Shown) -> None:
        words = [self.ids.get(word, word) for word in shlex.split(shown.text.replace("$ORDERS", self.table))]
        assert words[0] == "lakesweep", shown.text
        places = ("--endpoint-url", moto_endpoint(), "--region", "us-east-1")
        answer = call(*words[1:], *places)
        text = (answer.printed + answer.messages).replace(" " + " ".join(places), "")
        text = text.replace(self.control, "lake-control").replace(self.bucket, "lake")
        if "LAKESWEEP_SHOW" in os.environ:
            print(f"$ {shown.text}\n{text}")
        self.ids |= run_ids(shown.printed, text.splitlines())
        assert answer.exit_code == 0, text
        assert (found := difference(shown.printed, text.splitlines())) is None, f"$ {shown.text}\n{found}"


def _is_snapshot_or_tag(key: str) -> bool:
    return "/snapshot-" in f"/{key}" or "/tag-" in f"/{key}"


@pytest.fixture(scope="module")
def loaded() -> dict[str, bytes]:
    """Five days, a commit each."""
    made = Shop(fresh_bucket(), "")
    made.create()
    for day in range(1, 6):
        made.load(rows_of(day))
    return made.objects()


@pytest.fixture
def shop(loaded: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The table as each recipe finds it before the accident. The bucket keeps versions."""
    made = Shop(versioned_bucket(), fresh_bucket())
    for key, data in loaded.items():
        seed_moto(made.bucket, [f"{FOLDER}/{key}"], data)
    monkeypatch.setenv("LAKESWEEP_CONTROL", f"s3://{made.control}/lakesweep")
    return made


class Java:
    """The Java engine, which reads copies; on machines without it, nobody."""

    def __init__(self, engine: Engine | None) -> None:
        self._engine = engine

    def read(self, shop: Shop, branch: str = "main") -> Any:
        """Return how many rows the engine reads, and their checksum."""
        if self._engine is None:
            return None
        location = self._engine.location("sales.orders")
        shutil.rmtree(location, ignore_errors=True)
        for key, data in shop.objects().items():
            path = location / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return self._engine("scan", table="sales.orders", branch=branch)


@pytest.fixture(scope="module")
def java(request: pytest.FixtureRequest) -> Java:
    listed = REPOSITORY / "build" / "engine-classpath.txt"
    classpath = os.environ.get("LAKESWEEP_ENGINE_CLASSPATH") or (listed.read_text().strip() if listed.is_file() else "")
    if not classpath or shutil.which("javac") is None:
        return Java(None)
    return Java(request.getfixturevalue("engine"))


def days(*numbers: int) -> list[Row]:
    """Return the rows of whole days."""
    return sorted(row for day in numbers for row in rows_of(day))


def test_every_recipe_is_run() -> None:
    """No heading of the page has commands that no test below runs."""
    text = Path(__file__).read_text(encoding="utf-8")
    assert [recipe for recipe in RECIPES if f'follow("{recipe}"' not in text] == []


def test_a_bad_load(shop: Shop, java: Java) -> None:
    """Rows are what they were before; the next load goes on from there."""
    was, before = java.read(shop), shop.read()
    assert before == days(1, 2, 3, 4, 5)
    shop.load(rows_of(6, cents=-1))
    shop.load(rows_of(5, cents=-1), overwrite=True)
    assert shop.read() != before
    shop.follow("A bad load")
    assert shop.read() == before
    assert java.read(shop) == was
    shop.load(rows_of(6))
    assert shop.read() == days(1, 2, 3, 4, 5, 6)


def test_a_bad_load_while_others_go_on(shop: Shop, java: Java) -> None:
    """Nothing is withdrawn, and the next load goes on from there."""
    was, before = java.read(shop), shop.read()
    shop.load(rows_of(6, cents=-1))
    shop.load(rows_of(5, cents=-1), overwrite=True)
    wrong = shop.read()
    shop.follow("While others go on")
    assert shop.read() == before
    assert java.read(shop) == was
    assert shop.read(snapshot_id="7") == wrong
    shop.load(rows_of(6))
    assert shop.read() == days(1, 2, 3, 4, 5, 6)


def test_a_bad_load_that_was_found_late(shop: Shop, java: Java) -> None:
    """The snapshot is gone; the tag of that evening is not."""
    was, before = java.read(shop), shop.read()
    shop.follow("Before a risky load")
    shop.load(rows_of(6, cents=-1))
    shop.load(rows_of(5, cents=-1), overwrite=True)
    shop.load(rows_of(7))
    shop.follow("A bad load that was found late")
    assert shop.read() == before
    assert java.read(shop) == was
    shop.load(rows_of(6))
    assert shop.read() == days(1, 2, 3, 4, 5, 6)


def test_the_wrong_rows_are_kept(shop: Shop, java: Java) -> None:
    """Main is as before, and the branch reads as what was wrong, also after a clean-up of what nobody refers to."""
    was, before = java.read(shop), shop.read()
    shop.load(rows_of(6, cents=-1))
    wrong, java_read = shop.read(), java.read(shop)
    shop.follow("Keep the wrong rows to look at them")
    assert shop.read() == before
    assert java.read(shop) == was
    assert shop.read("sales.orders$branch_wrong") == wrong
    shop.clean_up()
    assert shop.read("sales.orders$branch_wrong") == wrong
    assert java.read(shop, branch="wrong") == java_read


def test_a_partition_deleted_last(shop: Shop, java: Java) -> None:
    """Nothing came after it, so nothing is lost."""
    was, before = java.read(shop), shop.read()
    shop.catalog.drop_partitions("sales.orders", [{"day": "2026-01-02"}])
    assert shop.read() == days(1, 3, 4, 5)
    shop.follow("Deleted the wrong partition, and nothing came after")
    assert shop.read() == before
    assert java.read(shop) == was


def test_a_partition_deleted_and_loads_after_it(shop: Shop, java: Java) -> None:
    """The partition comes back, and the loads since stay."""
    was = java.read(shop)
    shop.catalog.drop_partitions("sales.orders", [{"day": "2026-01-02"}])
    shop.load(rows_of(6))
    shop.follow("Deleted the wrong partition, and loads came after")
    assert shop.read() == days(1, 2, 3, 4, 5, 6)
    assert was is None or java.read(shop)["rows"] == was["rows"] + ROWS_PER_DAY


def test_expired_too_much(shop: Shop, java: Java) -> None:
    """Everything comes back as it was: objects, snapshots and rows."""
    shop.load(rows_of(5, cents=2), overwrite=True)
    before, was = shop.objects(), java.read(shop)
    versions = {number: shop.read(snapshot_id=str(number)) for number in (1, 5, 6)}
    shop.follow("Expired too much")
    assert before.items() <= shop.objects().items()
    assert {number: shop.read(snapshot_id=str(number)) for number in versions} == versions
    assert java.read(shop) == was


def test_rolled_back_too_far(shop: Shop, java: Java) -> None:
    before, was = shop.objects(), java.read(shop)
    shop.follow("Rolled back too far")
    assert shop.objects() == before
    assert shop.read() == days(1, 2, 3, 4, 5)
    assert java.read(shop) == was


def test_rolled_back_and_cleaned_up(shop: Shop) -> None:
    """The clean-up is taken back first, then the rollback; the other way round is refused."""
    before = shop.objects()
    wrong = shop.call("rollback", "--snapshot", "2", "--execute", "--json").document["run_id"]
    cleaned = shop.clean_up()
    assert cleaned["outcome"]["deleted"] > 0
    refused = shop.call("undo", wrong, "--execute", "--json")
    assert (refused.exit_code, refused.document["status"]) == (3, "refused")
    for run_id in (cleaned["run_id"], wrong):
        answer = shop.call("undo", run_id, "--execute", "--json")
        assert answer.exit_code == 0, answer.messages
    assert shop.objects() == before
    assert shop.read() == days(1, 2, 3, 4, 5)


def test_a_data_file_is_missing(shop: Shop, java: Java) -> None:
    """With all its versions. The rest of the table reads again, and the day can be loaded again."""
    was = java.read(shop)
    (lost,) = (key for key in shop.objects() if key.startswith("day=2026-01-03/") and "/data-" in key)
    key, client = f"{FOLDER}/{lost}", moto_client()
    for each in client.list_object_versions(Bucket=shop.bucket, Prefix=key)["Versions"]:
        client.delete_object(Bucket=shop.bucket, Key=key, VersionId=each["VersionId"])
    with pytest.raises(OSError, match="Could not open"):
        shop.read()
    shop.follow("A data file is missing", leaves_damage=True)
    assert shop.read() == days(1, 2, 4, 5)
    shop.load(rows_of(3))
    assert shop.read() == days(1, 2, 3, 4, 5)
    assert was is None or java.read(shop)["rows"] == was["rows"]


def test_on_a_branch_first(shop: Shop, java: Java) -> None:
    """Readers of main see nothing of the load before it is good, and all of it then."""
    shop.follow("Next time: load on a branch first")
    assert shop.read() == days(1, 2, 3, 4, 5, 6)
    assert shop.read("sales.orders$branch_january") == days(1, 2, 3, 4, 5, 6)
    assert java.read(shop) == java.read(shop, branch="january")
    shop.load(rows_of(7))
    assert shop.read() == days(1, 2, 3, 4, 5, 6, 7)
    found = java.read(shop)
    assert found is None or found["rows"] == 7 * ROWS_PER_DAY
