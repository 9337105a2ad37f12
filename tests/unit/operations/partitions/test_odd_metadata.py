"""Partition operations on metadata of other writers: other bytes for a value, and faults that counts do not show."""

import gc
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pytest

from lakesweep.format.manifest import ManifestEntry
from lakesweep.model.report import RunReport
from tests.support.faulty_store import Switch
from tests.support.raw_manifests import Made, RawManifests, entry
from tests.unit.operations.partitions.partition_world import PartitionWorld

OLD, NEW = "20200101", "20990101"
EXPIRY = {"expiration_time": "1 d", "timestamp_formatter": "yyyyMMdd"}
CALLS: Mapping[str, Callable[[PartitionWorld], RunReport]] = {
    "drop-partition": lambda world: world.drop(f"dt={OLD}"),
    "truncate": lambda world: world.truncate(),
    "expire-partitions": lambda world: world.expire_partitions(**EXPIRY),
    "expire-partitions by batches": lambda world: world.expire_partitions(**EXPIRY, expiration_batch_size="1"),
}


class OddWorld(PartitionWorld):
    """A table whose metadata a test rewrites."""

    def document(self, snapshot_id: int | None = None) -> dict[str, Any]:
        path = f"snapshot/snapshot-{snapshot_id or self.ids()[-1]}"
        found: dict[str, Any] = json.loads(self.store.read(path).data)
        return found

    def records(self, name: str) -> list[dict[str, Any]]:
        return list(fastavro.reader(io.BytesIO(self.store.read(f"manifest/{name}").data)))  # type: ignore[arg-type]

    def index(self, snapshot_id: int | None = None) -> list[bytes]:
        """Return the partitions that the index manifest of a snapshot names."""
        return [record["_PARTITION"] for record in self.records(self.document(snapshot_id)["indexManifest"])]

    def rewrite(self, name: str, records: list[dict[str, Any]]) -> int:
        """Write a file again, and return its size."""
        path = f"manifest/{name}"
        schema = fastavro.reader(io.BytesIO(self.store.read(path).data)).writer_schema
        body = io.BytesIO()
        fastavro.writer(body, schema, records, codec="zstandard", sync_marker=b"lakesweep-tests!")  # type: ignore[arg-type]
        self.store.put(path, body.getvalue())
        return len(body.getvalue())

    def rewrite_delta(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Change the records of the newest delta list."""
        document = self.document()
        name = document["deltaManifestList"]
        document["deltaManifestListSize"] = self.rewrite(name, change(self.records(name)))
        self.store.put(f"snapshot/snapshot-{document['id']}", json.dumps(document).encode())

    def recode(self, change: Callable[[bytes], bytes]) -> None:
        """Change the partitions of the newest commit's files."""

        def changed(metas: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for meta in metas:
                entries = self.records(meta["_FILE_NAME"])
                entries = [{**entry, "_PARTITION": change(entry["_PARTITION"])} for entry in entries]
                meta["_FILE_SIZE"] = self.rewrite(meta["_FILE_NAME"], entries)
            return metas

        self.rewrite_delta(changed)


def longer(row: bytes) -> bytes:
    """Return other bytes of the same values."""
    return row + bytes(8)


@pytest.mark.parametrize("call", CALLS)
def test_an_index_in_other_bytes_goes_with_its_partition(call: str) -> None:
    """A deletion vector that stayed would make every later drop of the partition fail in Paimon."""
    world = OddWorld()
    world.fill(OLD, NEW)
    world.table.commit(index={"i": {f"F{OLD}": [1, 2]}})
    name = world.document()["indexManifest"]
    world.rewrite(name, [{**each, "_PARTITION": longer(each["_PARTITION"])} for each in world.records(name)])
    assert CALLS[call](world).status == "done"
    assert world.index() == []


def test_an_index_stays_while_files_with_its_bytes_do() -> None:
    """Without its deletion vectors, a file shows deleted rows."""
    world = OddWorld()
    world.fill(OLD)
    world.table.commit("+Other", partition=(OLD,), index={"i": {f"F{OLD}": [1, 2]}, "j": {"Other": [3]}})
    world.recode(longer)
    name = world.document()["indexManifest"]
    records = world.records(name)
    plain = records[0]["_PARTITION"]
    world.rewrite(name, [records[0], {**records[1], "_PARTITION": longer(plain)}])
    report = world.expire_partitions(**EXPIRY, expiration_batch_size="1")
    assert report.commits is not None
    first, second = (made.snapshot_id for made in report.commits.made)
    assert [world.index(each) for each in (first, second)] == [[longer(plain)], []]


@pytest.mark.parametrize("strategy", ["values-time", "update-time"])
def test_a_partition_of_other_keys_is_refused(strategy: str) -> None:
    world = OddWorld()
    world.fill(OLD, NEW)
    world.recode(lambda row: (2).to_bytes(4, "big") + row[4:])
    report = world.expire_partitions(**EXPIRY, expiration_strategy=strategy, zone="UTC")
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests"
    assert report.refusal.message.count("memory://bucket/t") == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("entry", ["-Gone", "+More"])
def test_a_manifest_that_is_named_twice_is_refused(call: str, entry: str) -> None:
    """Two DELETE entries of one file would hide that another file is still there."""
    world = OddWorld()
    world.fill(OLD)
    world.table.commit("+Gone", partition=(OLD,))
    world.table.commit(entry, partition=(OLD,))
    world.rewrite_delta(lambda metas: metas * 2)
    report = CALLS[call](world)
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests", report.status
    assert "twice" in report.refusal.message


@pytest.mark.parametrize("call", ["drop-partition", "truncate"])
def test_a_file_that_is_deleted_twice_hides_no_other(call: str) -> None:
    world = OddWorld()
    world.fill(OLD)
    world.table.commit("+Gone", partition=(OLD,))
    world.table.commit(manifests=[["-Gone"], ["-Gone"]])
    report = CALLS[call](world)
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests", report.status
    assert "is deleted twice" in report.refusal.message


LARGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    "made",
    [
        Made([entry("a", OLD), entry("b", NEW, _FIRST_ROW_ID=LARGEST - 9)]),
        Made([entry("a", OLD, _FIRST_ROW_ID=LARGEST - 3)]),
        Made([entry("a", OLD)], line={"_MIN_ROW_ID": 0, "_MAX_ROW_ID": LARGEST}),
        Made([entry(name, OLD, _ROW_COUNT=LARGEST) for name in "ab"]),
    ],
    ids=["row-ids", "row-ids-of-what-goes", "row-ids-of-a-list", "rows"],
)
@pytest.mark.parametrize("call", CALLS)
def test_numbers_that_no_snapshot_can_have_are_refused(call: str, made: Made) -> None:
    """Nobody could read a snapshot with them, nor commit on top of it."""
    world = PartitionWorld()
    RawManifests(world.store).snapshot(made, totalRecordCount=20)
    report = CALLS[call](world)
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests", report.refusal
    assert world.ids() == [1]


@pytest.mark.parametrize("call", CALLS)
def test_the_entries_of_a_large_table_are_not_kept(call: str) -> None:
    """A table may have a million of them."""
    world = PartitionWorld()
    parts = [Made([entry(f"{part}-{number}", OLD) for number in range(400)]) for part in range(9)]
    RawManifests(world.store).snapshot(*parts, Made([entry("new", NEW)]))
    kept: list[int] = []

    class Counting(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if " put manifest/" in name:
                kept.append(sum(type(each) is ManifestEntry for each in gc.get_objects()))
            return super()._run(name, call)

    world.switch = Counting()
    assert CALLS[call](world).status == "done"
    assert kept and max(kept) < 1000, "those of one block, and no more"


def test_a_list_that_lakesweep_would_refuse_to_read_is_not_committed() -> None:
    """Two lists of equal records together unpack to more than a reader takes for sane."""
    world = PartitionWorld()
    wide = OLD + "x" * (1 << 20)
    raw = RawManifests(world.store)
    base, delta = ([Made([entry(f"{part}{number}", wide)]) for number in range(7)] for part in "ab")
    raw.snapshot(*base, Made([entry("c", OLD)]), delta=delta)
    report = world.drop(f"dt={OLD}")
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests"
    assert "lists that readers can read" in report.refusal.message
    assert world.ids() == [1]
