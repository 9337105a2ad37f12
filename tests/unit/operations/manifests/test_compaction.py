"""Which manifests a compaction rewrites, which it keeps, and what it refuses."""

import copy
import random
from hashlib import sha256
from typing import Any

import pytest

from lakesweep.format.manifest import read_manifest
from lakesweep.operations.manifests import compaction
from tests.support.live_records import entries, live_records
from tests.support.metadata_schemas import MANIFEST, MANIFEST_LIST
from tests.support.raw_manifests import Made, RawManifests, day, deleted, entry, stats
from tests.unit.format.samples import FUTURE_MANIFEST, NEW_MANIFEST, OLD_MANIFEST
from tests.unit.operations.manifests.manifest_world import ManifestWorld

SMALL_TARGET = {"manifest.target-file-size": "8 kb"}
"""A manifest of one entry is smaller, one of a thousand is larger."""


class Compacted:
    """A snapshot of some manifests, and what a compaction makes of it."""

    def __init__(self, *made: Made, delta: Any = (), options: Any = None, **table: Any) -> None:
        self.world = ManifestWorld(options=options or {}, **table)
        self.raw = RawManifests(self.world.store)
        self.names = self.raw.snapshot(*made, delta=delta)
        self.report = self.world.compact()

    @property
    def status(self) -> str:
        return self.report.status

    @property
    def code(self) -> str:
        assert self.report.refusal is not None
        assert self.world.ids() == [1]
        return self.report.refusal.code

    def after(self) -> list[str]:
        """Return the names of the manifests that are named now, and make sure that the live files are the same."""
        assert self.report.refusal is None, self.report.refusal
        assert self.world.live() == live_records(self.world.store, 1)
        names = [each["_FILE_NAME"] for each in self.world.listed()]
        for each in self.world.listed():
            found = [record["_KIND"] for _, record in entries(self.world.store, each["_FILE_NAME"])]
            assert (found.count(0), found.count(1)) == (each["_NUM_ADDED_FILES"], each["_NUM_DELETED_FILES"])
            assert len(self.world.store.read(f"manifest/{each['_FILE_NAME']}").data) == each["_FILE_SIZE"]
        return names

    def read(self) -> set[str]:
        """Return the manifests of the first snapshot that were read."""
        calls = {call.rpartition("/")[2] for call in self.world.switch.calls if call.startswith("table read manifest/")}
        return calls & set(self.names)


def large(prefix: str, dt: str = "1", count: int = 1000, **line: Any) -> Made:
    return Made([noisy(f"{prefix}{number}", dt) for number in range(count)], line=line)


def with_longs(schema: Any) -> Any:
    """Return the schema of a writer whose buckets are longs."""
    changed = copy.deepcopy(schema)
    for field in changed["fields"]:
        if field["name"] in ("_BUCKET", "_TOTAL_BUCKETS"):
            field["type"] = "long"
    return changed


def noisy(name: str, dt: str = "1") -> Any:
    """Return an entry that does not compress."""
    key = sha256(name.encode()).digest()
    return entry(name, dt, _MIN_KEY=key, _MAX_KEY=key)


def test_small_manifests_are_merged_in_their_order() -> None:
    found = Compacted(Made([entry("b")]), Made([entry("a", "2")]), delta=[Made([entry("c")])])
    (name,) = found.after()
    merged = [record["_FILE"]["_FILE_NAME"] for _, record in entries(found.world.store, name)]
    assert merged == ["data-b.parquet", "data-a.parquet", "data-c.parquet"]


def test_one_small_manifest_stays() -> None:
    assert Compacted(Made([entry("a")])).status == "nothing_to_do"


def test_one_manifest_with_a_deleted_file_is_rewritten() -> None:
    """Unlike in Paimon."""
    found = Compacted(Made([entry("a"), entry("b"), deleted(entry("a"))]))
    assert found.status == "done"
    assert len(found.after()) == 1


def test_a_large_manifest_is_not_even_read() -> None:
    """Without any DELETE, nothing in it can change."""
    found = Compacted(large("l"), Made([entry("a")]), Made([entry("b")]), options=SMALL_TARGET)
    names = found.after()
    assert names[0] == found.names[0] and len(names) == 2
    assert found.read() == set(found.names[1:])


def test_a_large_manifest_of_other_partitions_is_not_read() -> None:
    found = Compacted(
        large("l", "1"),
        Made([entry("a", "2"), entry("b", "2")]),
        Made([deleted(entry("a", "2"))]),
        options=SMALL_TARGET,
    )
    names = found.after()
    assert names[0] == found.names[0] and len(names) == 2
    assert found.read() == set(found.names[1:])


def test_a_large_manifest_without_a_deleted_file_stays() -> None:
    """Its statistics do not say so, so it is read."""
    found = Compacted(large("l"), Made([entry("a")]), Made([deleted(entry("a"))]), options=SMALL_TARGET)
    assert found.after() == found.names[:1]
    assert found.read() == set(found.names)


def test_a_large_manifest_with_a_deleted_file_is_rewritten() -> None:
    found = Compacted(large("l"), large("m"), Made([deleted(noisy("m999"))]), options=SMALL_TARGET)
    names = found.after()
    assert names[0] == found.names[0] and len(names) == 2
    assert [each["_NUM_ADDED_FILES"] for each in found.world.listed()] == [1000, 999]


def test_a_delete_may_come_before_its_add() -> None:
    found = Compacted(Made([deleted(entry("a"))]), Made([entry("a"), entry("b")]))
    (name,) = found.after()
    assert [record["_FILE"]["_FILE_NAME"] for _, record in entries(found.world.store, name)] == ["data-b.parquet"]


def test_nothing_is_left() -> None:
    found = Compacted(Made([entry("a")]), delta=[Made([deleted(entry("a"))])])
    assert found.status == "done"
    assert found.after() == []
    assert found.world.document()["totalRecordCount"] == 0


def test_an_empty_manifest_vanishes() -> None:
    found = Compacted(Made([entry("a")]), Made([]))
    assert found.status == "done"
    assert found.after() == found.names[:1]


def test_manifests_end_after_a_thousand_entries_where_the_size_is_reached() -> None:
    parts = [Made([noisy(f"{part}-{number}") for number in range(300)]) for part in range(8)]
    found = Compacted(*parts, options={"manifest.target-file-size": "1 b"})
    assert found.status == "nothing_to_do", "each is large enough by this target"
    found = Compacted(*parts, options={"manifest.target-file-size": "30 kb"})
    found.after()
    counts = [each["_NUM_ADDED_FILES"] for each in found.world.listed()]
    assert sum(counts) == 2400 and all(count % 1000 == 0 for count in counts[:-1]) and len(counts) > 1
    assert found.world.compact().status == "nothing_to_do"


def test_what_comes_out_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are nearly alike, as of a wide table without values, unpack to more than a reader takes for sane."""
    monkeypatch.setattr("lakesweep.format.avro.container.MAX_BLOCK_BYTES", 66_000)
    monkeypatch.setattr("lakesweep.format.avro.container.MAX_RATIO", 2)
    parts = [Made([entry(f"{part}-{number}", _MIN_KEY=bytes(1000)) for number in range(20)]) for part in range(9)]
    found = Compacted(*parts)
    assert len(found.after()) > 1
    assert found.world.compact().status == "nothing_to_do"
    for line in found.world.listed():
        name = line["_FILE_NAME"]
        read = list(read_manifest(found.world.store.read(f"manifest/{name}").data, name))
        assert len(read) == line["_NUM_ADDED_FILES"]


def test_manifests_of_several_writers_are_merged_each_with_its_like() -> None:
    """Records of two schemas cannot lie in one file."""
    schemas = (MANIFEST, NEW_MANIFEST) * 4
    found = Compacted(*(Made([entry(f"{number}")], schema) for number, schema in enumerate(schemas)))
    assert len(found.after()) == 2
    assert found.world.compact().status == "nothing_to_do"


def test_the_only_manifest_of_a_writer_stays() -> None:
    found = Compacted(Made([entry("a")]), Made([entry("b")], NEW_MANIFEST), Made([entry("c")]))
    names = found.after()
    assert found.names[1] in names and len(names) == 2


def test_more_writers_than_manifests_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost when some have to be closed early."""

    def schema(number: int) -> Any:
        changed = copy.deepcopy(MANIFEST)
        changed["doc"] = f"writer {number}"
        return changed

    parts = [Made([entry(f"{number}-{again}")], schema(number)) for again in range(2) for number in range(10)]
    assert len(Compacted(*parts).after()) == 10
    monkeypatch.setattr(compaction, "_OPEN_BYTES", 20_000)
    assert len(Compacted(*parts).after()) > 10


def test_unknown_fields_are_kept() -> None:
    future = {"_FROM_THE_FUTURE": {"a": {"k": None, "l": 2.5}, "b": b"abc"}}
    found = Compacted(
        Made([entry("a", **future), entry("b")], FUTURE_MANIFEST),
        Made([entry("c"), deleted(entry("b"))], FUTURE_MANIFEST),
    )
    (name,) = found.after()
    futures = {
        record["_FILE"]["_FILE_NAME"]: record["_FILE"]["_FROM_THE_FUTURE"]
        for _, record in entries(found.world.store, name)
    }
    assert futures["data-a.parquet"] == future["_FROM_THE_FUTURE"]


IDENTITIES: list[dict[str, Any]] = [
    {"_PARTITION": day("2")},
    {"_BUCKET": 1},
    {"_LEVEL": 5},
    {"_FILE_NAME": "data-b.parquet"},
    {"_EXTRA_FILES": ["data-a.parquet.index"]},
    {"_EMBEDDED_FILE_INDEX": b""},
    {"_EMBEDDED_FILE_INDEX": b"i"},
    {"_EXTERNAL_PATH": "s3://elsewhere/data-a.parquet"},
]


@pytest.mark.parametrize("other", IDENTITIES, ids=lambda other: str(*other))
def test_a_file_that_differs_in_one_part_of_its_identity_lives(other: dict[str, Any]) -> None:
    found = Compacted(Made([entry("a"), entry("a", **other)]), Made([deleted(entry("a", **other))]))
    (name,) = found.after()
    assert [record["_KIND"] for _, record in entries(found.world.store, name)] == [0]


@pytest.mark.parametrize("other", IDENTITIES, ids=lambda other: str(*other))
def test_a_delete_without_its_add_is_refused(other: dict[str, Any]) -> None:
    """Paimon drops it. But it may be all that keeps a file deleted."""
    assert Compacted(Made([entry("a")]), Made([deleted(entry("a", **other))])).code == "corrupt_manifests"


def test_a_delete_whose_add_wrong_statistics_hide_is_refused() -> None:
    """The file would come back to life if the DELETE were dropped, as Paimon does."""
    wrong = large("l", "1", _PARTITION_STATS=stats([day("7"), day("8")]))
    found = Compacted(wrong, Made([entry("a"), deleted(noisy("l5"))]), options=SMALL_TARGET)
    assert found.code == "corrupt_manifests"
    assert found.report.refusal is not None and "data-l5.parquet" in found.report.refusal.message


def test_the_refusal_says_how_many_are_deleted_without_an_add() -> None:
    """And which command looks for what else is wrong."""
    found = Compacted(Made([entry("a")]), Made([deleted(entry(name)) for name in "bcd"]))
    assert found.code == "corrupt_manifests" and found.report.refusal is not None
    assert "data-b.parquet is deleted, and no manifest adds it, nor 2 more; " in found.report.refusal.message
    assert "lakesweep check TABLE names missing and damaged files" in found.report.refusal.message


@pytest.mark.parametrize(
    "made",
    [
        (Made([entry("a"), entry("a")]), Made([deleted(entry("a"))])),
        (Made([entry("a"), deleted(entry("a"))]), Made([deleted(entry("a"))])),
        (Made([entry("a")]), Made([entry("b")], line={"_NUM_ADDED_FILES": 2})),
        (Made([entry("a")]), Made([entry("b"), deleted(entry("a"))], line={"_NUM_DELETED_FILES": 0})),
        (Made([entry("a")]), Made([entry("b")], line={"_FILE_SIZE": 100})),
        (Made([entry("a")]), Made([entry("b")], line={"_FILE_SIZE": 100_000})),
        (Made([entry("a")]), Made([entry("b")], body=b"Obj\x01 but no manifest")),
        (Made([entry("a")]), Made([entry("b", _PARTITION=b"no row")])),
        (Made([entry("a")]), Made([entry("b", _PARTITION=b"no row"), deleted(entry("b", _PARTITION=b"no row"))])),
        (Made([entry("a")]), Made([entry("b", _BUCKET=-3)])),
        (Made([entry("a")]), Made([entry("b", _BUCKET=1 << 31)], with_longs(MANIFEST))),
        (Made([entry("a")]), Made([entry("b", _LEVEL=-1)])),
        (Made([entry("a")]), Made([entry("b", _ROW_COUNT=-1)])),
        (Made([entry("a")]), Made([entry("b", _FIRST_ROW_ID=(1 << 63) - 5)])),
    ],
    ids=[
        "added-twice", "deleted-twice", "count", "hidden-delete", "too-long", "too-short", "damaged", "no-row",
        "no-row-deleted", "bucket", "large-bucket", "level", "rows", "row-ids",
    ],
)  # fmt: skip
def test_manifests_that_contradict_themselves_are_refused(made: tuple[Made, ...]) -> None:
    assert Compacted(*made).code == "corrupt_manifests"


def test_a_list_of_a_later_version_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each pass would leave new manifests that nobody names."""
    later = copy.deepcopy(MANIFEST_LIST)
    later["fields"].append({"name": "_LATER", "type": ["null", "long"], "default": None})
    monkeypatch.setattr("tests.support.raw_manifests.MANIFEST_LIST", later)
    found = Compacted(large("l"), Made([entry("a")]), Made([entry("b")]), options=SMALL_TARGET)
    assert found.code == "unknown_manifest_field"
    assert not [call for call in found.world.switch.calls if " put manifest/" in call]
    planned = found.world.compact(execute=False).refusal
    assert planned is not None and planned.code == found.code


def test_a_name_is_copied_as_it_is() -> None:
    """Nobody makes a path of it here. What deletes files refuses it, before the compaction and after it."""
    names = ["../up", "a/b", "line\nfeed", "", "\u202e"]
    records = [entry("", _FILE_NAME=name, _EXTRA_FILES=[name], _EXTERNAL_PATH=name) for name in names]
    found = Compacted(Made(records), Made([entry("a"), entry("b")]), Made([deleted(entry("b")), deleted(records[1])]))
    (name,) = found.after()
    left = [record["_FILE"]["_FILE_NAME"] for _, record in entries(found.world.store, name)]
    assert left == [*(each for each in names if each != "a/b"), "data-a.parquet"]


def test_a_file_that_is_named_twice_and_lives_stays_twice() -> None:
    """It is not for a compaction to decide which one is meant."""
    found = Compacted(Made([entry("a")]), Made([entry("a")]))
    (name,) = found.after()
    assert len(list(entries(found.world.store, name))) == 2


def test_a_list_that_names_a_manifest_twice_is_refused() -> None:
    world = ManifestWorld()
    raw = RawManifests(world.store)
    (name,) = raw.snapshot(Made([entry("a")]))
    raw.append(Made([entry("b")], line={"_FILE_NAME": name}))
    report = world.compact()
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests"
    assert name in report.refusal.message


def test_a_missing_manifest_is_refused() -> None:
    world = ManifestWorld()
    first, _ = RawManifests(world.store).snapshot(Made([entry("a")]), Made([entry("b")]))
    world.table.remove(f"manifest/{first}")
    report = world.compact()
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (Made([entry("a")], body=b"ORC and more"), "manifest_format"),
        (Made([entry("a")], body=b"PAR1 and more"), "manifest_format"),
        (Made([entry("a")], OLD_MANIFEST), "manifest_schema"),
    ],
    ids=["orc", "parquet", "old"],
)
def test_manifests_whose_records_cannot_be_copied_are_refused(made: Made, code: str) -> None:
    assert Compacted(Made([entry("b")]), made).code == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"manifest.format": "orc"}, "manifest_format"),
        ({"manifest-sort.enabled": "true"}, "manifest_sort"),
        ({"commit.strict-mode.last-safe-snapshot": "1"}, "strict_mode"),
        ({"commit.unheard-of": "1"}, "unknown_commit_option"),
        ({"type": "format-table"}, "unsupported_table_type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_that_do_not_allow_it(options: dict[str, str], code: str) -> None:
    assert Compacted(Made([entry("a")]), Made([entry("b")]), options=options).code == code


@pytest.mark.parametrize(
    "options",
    [
        {"metadata.iceberg.storage": "table-location"},
        {"commit.callbacks": "a.b.C"},
        {"metastore.partitioned-table": "true"},
        {"row-tracking.enabled": "true"},
        {"scan.fallback-branch": "b"},
    ],
    ids=str,
)
def test_tables_whose_rows_others_must_hear_of_allow_it(options: dict[str, str]) -> None:
    """No row changes."""
    assert Compacted(Made([entry("a")]), Made([entry("b")]), options=options).status == "done"


def test_levels_buckets_row_ids_and_schemas_are_counted() -> None:
    found = Compacted(
        Made([entry("a", "3", _LEVEL=5, _BUCKET=2, _SCHEMA_ID=4, _FIRST_ROW_ID=50, _ROW_COUNT=5)]),
        Made(
            [
                entry("b", None, _LEVEL=1, _BUCKET=7, _FIRST_ROW_ID=10, _ROW_COUNT=3),
                entry("c", "1", _FIRST_ROW_ID=20),
            ]
        ),
    )
    found.after()
    (line,) = found.world.listed()
    assert line["_PARTITION_STATS"] == {"_MIN_VALUES": day("1"), "_MAX_VALUES": day("3"), "_NULL_COUNTS": [1]}
    keys = ("_SCHEMA_ID", "_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL", "_MIN_ROW_ID", "_MAX_ROW_ID")
    assert [line[key] for key in keys] == [4, 0, 7, 0, 5, 10, 54]


def test_a_table_without_partition_keys() -> None:
    plain = {"_PARTITION": bytes(12)}
    parts = [Made([entry(name, **plain)], partition_types=()) for name in "abc"]
    found = Compacted(*parts, Made([deleted(entry("b", **plain))], partition_types=()), partition_keys=[])
    assert len(found.after()) == 1


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_are_refused_or_read_as_by_others(seed: int) -> None:
    """No checksum covers every byte; but Lakesweep never reads a manifest otherwise than fastavro does."""
    draw = random.Random(seed)
    world = ManifestWorld()
    names = RawManifests(world.store).snapshot(
        Made([entry(f"a{number}", _EXTRA_FILES=["x"] * (number % 3)) for number in range(300)]),
        Made([entry("b"), deleted(entry("a7", _EXTRA_FILES=["x"]))]),
    )
    path = f"manifest/{draw.choice(names)}"
    body = bytearray(world.store.read(path).data)
    for _ in range(draw.choice((1, 1, 2, 20))):
        body[draw.randrange(len(body))] = draw.randrange(256)
    world.store.put(path, bytes(body))
    report = world.compact()
    if report.refusal is not None:
        assert report.refusal.code in ("corrupt_manifests", "manifest_schema", "unsupported_codec"), report.refusal
        assert world.ids() == [1]
    else:
        assert live_records(world.store, 2) == live_records(world.store, 1)
