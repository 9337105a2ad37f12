"""The table builder: what it writes is what it says, and independent readers agree."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.store import DeleteRequest, Store
from tests.support.memory_store import MemoryStore
from tests.support.mocked_aws import mocked_aws
from tests.support.reader import UnreadableRootError, all_roots, assert_all_readable, assert_root_readable, read_root
from tests.support.table_builder import BATCH, TICK_MS, TableBuilder


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("memory://tables/t")


@pytest.fixture
def table(store: MemoryStore) -> TableBuilder:
    return TableBuilder(store)


def document(store: MemoryStore, key: str) -> dict[str, Any]:
    return dict(json.loads(store.read(key).data))


def live_symbols(table: TableBuilder, root: str) -> set[str]:
    return table.symbols(read_root(table.store, root, table.externals).live)


# Histories.


def test_commits_add_and_delete_files(table: TableBuilder) -> None:
    assert table.commit("+A", "+B") == 1
    assert table.commit("-A", "+C") == 2
    assert live_symbols(table, "snapshot/snapshot-1") == {"A", "B"}
    assert live_symbols(table, "snapshot/snapshot-2") == {"B", "C"}
    assert table.symbols(table.live("main", 2)) == {"B", "C"}
    assert table.present() == {"A", "B", "C"}
    assert_all_readable(table)


def test_a_file_that_moves_between_levels_stays_live_with_its_bytes(table: TableBuilder) -> None:
    table.commit("+A")
    body = table.store.read(table.path("A")).data
    table.commit("-A@0", "+A@5")
    table.commit("-A@0")
    table.commit("-A@5")
    assert [live_symbols(table, table.root(i)) for i in (1, 2, 3, 4)] == [{"A"}, {"A"}, {"A"}, set()]
    assert table.store.read(table.path("A")).data == body
    assert_all_readable(table)


def test_entries_keep_their_order_and_their_manifests(table: TableBuilder) -> None:
    table.commit("+A")
    table.commit(manifests=[["-A@0", "+B"], ["+A@5"]])
    delta = table.model(table.root(2)).delta
    assert [[(e.sign, e.file.symbol, e.file.level) for e in manifest.entries] for manifest in delta] == [
        [("-", "A", 0), ("+", "B", 0)],
        [("+", "A", 5)],
    ]
    assert_all_readable(table)


def test_the_base_list_is_the_previous_base_and_delta_until_it_is_merged(table: TableBuilder) -> None:
    for symbol in "ABC":
        table.commit(f"+{symbol}")
    table.commit("-B")
    names = [[manifest.name for manifest in table.model(table.root(i)).base] for i in (1, 2, 3, 4)]
    assert [len(base) for base in names] == [0, 1, 2, 3]
    assert names[3][:2] == names[2]
    table.merge_manifests()
    merged = table.model(table.root(5))
    assert [{entry.file.symbol for entry in manifest.entries} for manifest in merged.base] == [{"A", "C"}]
    assert merged.delta == ()
    assert_all_readable(table)


def test_a_commit_of_nothing_has_an_empty_delta(table: TableBuilder) -> None:
    table.commit()
    assert table.document(table.root(1))["commitKind"] == "APPEND"
    assert_all_readable(table)


def test_extra_files_lie_beside_their_data_file(table: TableBuilder) -> None:
    table.commit("+A", extra={"A": ("index", "other.index")})
    assert table.path("A", "index") == f"{table.path('A')}.index"
    assert table.path("A", "other.index") == f"{table.path('A').rpartition('/')[0]}/other.index"
    assert {table.path("A", "index"), table.path("A", "other.index")} < table.referenced(table.root(1))
    assert table.present() == {"A", "A.index", "A.other.index"}
    table.remove(table.path("A", "index"))
    assert table.present() == {"A", "A.other.index"}
    with pytest.raises(UnreadableRootError, match=r"\.index is missing"):
        assert_root_readable(table, table.root(1))


def test_external_files_lie_in_their_own_store(store: MemoryStore) -> None:
    outside = MemoryStore("s3://other/p")
    table = TableBuilder(store, externals={"s3://other/p": outside})
    table.commit("+A", "+B", external={"A": "s3://other/p/q/A.parquet"}, extra={"A": ("x.index",)})
    assert {found.key for found in outside.list("")} == {"q/A.parquet", "q/x.index"}
    assert table.path("A") == "s3://other/p/q/A.parquet"
    assert document(store, "schema/schema-0")["options"]["data-file.external-paths"] == "s3://other/p"
    assert_all_readable(table)
    table.remove("A")
    assert table.present() == {"A.x.index", "B"}
    with pytest.raises(UnreadableRootError):
        assert_root_readable(table, table.root(1))


def test_an_external_file_outside_every_root_is_a_mistake(table: TableBuilder) -> None:
    with pytest.raises(KeyError, match="external roots"):
        table.commit("+A", external={"A": "/elsewhere/A"})


def test_partitions_and_buckets_have_folders(store: MemoryStore) -> None:
    table = TableBuilder(
        store,
        partition_keys=("dt", "n"),
        types={"n": "INT"},
        options={"bucket": "4", "data-file.path-directory": "data"},
    )
    table.commit("+A", "+B", partition={"A": ("a/b", 3), "B": (None, None)}, bucket={"A": 3})
    assert table.path("A").startswith("data/dt=a%2Fb/n=3/bucket-3/data-")
    assert table.path("B").startswith("data/dt=__DEFAULT_PARTITION__/n=__DEFAULT_PARTITION__/bucket-0/data-")
    assert_all_readable(table)


def test_changelog_files_have_their_own_list(table: TableBuilder) -> None:
    table.commit("+A", changelog=["+CL1", "+CL2"])
    table.commit("+B", changelog=[["+CL3"], ["+CL4"]])
    written = table.document(table.root(1))
    assert written["changelogRecordCount"] == 20
    assert table.path("CL1").startswith("bucket-0/changelog-")
    assert {table.path("CL1"), f"manifest/{written['changelogManifestList']}"} < table.referenced(table.root(1))
    assert len(table.model(table.root(2)).changelog) == 2
    assert live_symbols(table, table.root(2)) == {"A", "B"}
    assert_all_readable(table)


def test_only_a_tagged_snapshot_may_lack_its_changelog(table: TableBuilder) -> None:
    table.commit("+A", changelog=["+CL1"])
    table.remove("CL1")
    with pytest.raises(UnreadableRootError, match="is missing"):
        assert_root_readable(table, table.root(1))
    table.tag("t", snapshot=1)
    assert table.path("CL1") not in assert_root_readable(table, table.root(1)).paths
    assert_all_readable(table)


@pytest.mark.parametrize("wide", [False, True])
def test_an_index_is_a_full_state_with_deletion_vectors(store: MemoryStore, wide: bool) -> None:
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(wide).lower()}
    table = TableBuilder(store, options=options)
    table.commit("+A", "+B")
    table.commit(index={"i1": {"A": [1, 3]}})
    table.commit(index={"i1": None, "i2": {"B": [0], "A": []}})
    table.commit("+C")
    table.commit(index={})
    assert [table.symbols(file.path for file in table.model(table.root(i)).index) for i in (1, 2, 3, 4, 5)] == [
        set(), {"i1"}, {"i1", "i2"}, {"i1", "i2"}, set(),
    ]  # fmt: skip
    manifests = [table.document(table.root(i)).get("indexManifest") for i in (1, 2, 3, 4, 5)]
    assert manifests[0] is None
    assert manifests[2] == manifests[3] != manifests[4]
    assert manifests[4] is not None
    assert table.path("i1").startswith("index/index-")
    assert_all_readable(table)


def test_index_files_may_lie_with_the_data(store: MemoryStore) -> None:
    table = TableBuilder(store, primary_keys=("k",), options={"index-file-in-data-file-dir": "true", "bucket": "2"})
    table.commit("+A", bucket=1)
    table.commit(index={"i1": {"A": [0]}, "h": b"\0\0\0\1\0\0\0\2"})
    assert table.path("i1").startswith("bucket-1/index-")
    assert table.path("h").startswith("bucket-0/index-")
    assert_all_readable(table)


def test_a_deletion_vector_that_is_damaged_is_seen(table: TableBuilder) -> None:
    table.commit("+A")
    table.commit(index={"i1": {"A": [1]}})
    body = bytearray(table.store.read(table.path("i1")).data)
    body[-1] ^= 1
    table.corrupt("i1", bytes(body))
    with pytest.raises(UnreadableRootError, match="checksum"):
        assert_root_readable(table, table.root(2))


def test_statistics_are_inherited_until_the_schema_changes(table: TableBuilder) -> None:
    table.commit("+A", statistics="s1")
    table.commit("+B")
    table.alter(options={"snapshot.num-retained.max": "3"})
    table.commit("+C")
    table.commit(statistics="stat-mine")
    assert [table.document(table.root(i)).get("statistics") for i in (1, 2, 3, 4)] == [
        table.document(table.root(1))["statistics"],
        table.document(table.root(1))["statistics"],
        None,
        "stat-mine",
    ]
    assert table.document(table.root(4))["commitKind"] == "ANALYZE"
    assert table.present() == {"A", "B", "C", "s1", "stat-mine"}
    assert_all_readable(table)


@pytest.mark.parametrize(
    ("commit", "kind"),
    [
        ({"manifests": [["+B"]]}, "APPEND"),
        ({"manifests": [["-A"]]}, "OVERWRITE"),
        ({"manifests": [["-A"], ["+B"]]}, "COMPACT"),
        ({"index": {"i": {"A": [0]}}}, "OVERWRITE"),
        ({"statistics": "s"}, "ANALYZE"),
        ({"manifests": [["-A"]], "kind": "COMPACT"}, "COMPACT"),
    ],
)
def test_the_kind_of_a_commit_is_guessed(table: TableBuilder, commit: dict[str, Any], kind: str) -> None:
    table.commit("+A")
    table.commit(**commit)
    assert table.document(table.root(2))["commitKind"] == kind


def test_files_have_the_source_of_their_commit_unless_told(table: TableBuilder) -> None:
    table.commit("+A", "+B", file_source={"B": None})
    table.commit("-A", "+C")
    sources = {file.symbol: file.file_source for file in table.model(table.root(2)).live}
    assert sources == {"B": None, "C": 1}
    assert table.model(table.root(1)).live[0].file_source == 0


# Documents.


def test_a_snapshot_document_is_what_engines_write(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A", rows={"A": 7}, user="job", identifier=5, document={"watermark": 17, "nextRowId": None})
    table.commit("-A", "+B")
    first, second = document(store, "snapshot/snapshot-1"), document(store, "snapshot/snapshot-2")
    assert (first["version"], first["id"], first["schemaId"]) == (3, 1, 0)
    assert (first["commitUser"], first["commitIdentifier"], second["commitIdentifier"]) == ("job", 5, BATCH)
    assert (first["timeMillis"], second["timeMillis"]) == (0, TICK_MS)
    assert (first["totalRecordCount"], first["deltaRecordCount"]) == (7, 7)
    assert (second["totalRecordCount"], second["deltaRecordCount"]) == (10, 3)
    assert (first["watermark"], second["watermark"]) == (17, 17)
    assert "nextRowId" not in first
    assert first["uuid"] != second["uuid"]
    assert first["baseManifestListSize"] == len(store.read(f"manifest/{first['baseManifestList']}").data)
    assert "changelogManifestList" not in first
    assert store.read("snapshot/LATEST").data == b"2"
    assert store.read("snapshot/EARLIEST").data == b"1"


def test_a_schema_document_is_what_engines_write(store: MemoryStore) -> None:
    table = TableBuilder(store, partition_keys=("dt",), primary_keys=("dt", "k"), types={"x": "BIGINT"})
    assert table.alter(types={"y": "DATE", "x": "BIGINT"}) == 1
    schema = document(store, "schema/schema-1")
    assert [(field["id"], field["name"], field["type"]) for field in schema["fields"]] == [
        (0, "v", "STRING"),
        (1, "dt", "STRING NOT NULL"),
        (2, "k", "INT NOT NULL"),
        (3, "x", "BIGINT"),
        (4, "y", "DATE"),
    ]
    assert (schema["highestFieldId"], schema["partitionKeys"], schema["primaryKeys"]) == (4, ["dt"], ["dt", "k"])
    assert schema["options"] == {"bucket": "1"}


def test_a_tag_is_a_snapshot_with_a_time_to_live_when_it_has_one(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A")
    table.commit("+B")
    assert table.tag("plain", snapshot=1) == "tag/tag-plain"
    table.tag("brief", ttl=timedelta(seconds=5), create_time=datetime(2024, 3, 1, 0, 0, 5))
    table.tag("hourly", ttl=timedelta(hours=1), create_time=datetime(2024, 3, 1))
    assert store.read("tag/tag-plain").data == store.read("snapshot/snapshot-1").data
    brief = document(store, "tag/tag-brief")
    assert (brief["id"], brief["tagCreateTime"], brief["tagTimeRetained"]) == (2, [2024, 3, 1, 0, 0, 5], 5.0)
    assert document(store, "tag/tag-hourly")["tagCreateTime"] == [2024, 3, 1, 0, 0]
    assert_all_readable(table)


def test_a_tag_can_be_made_from_a_tag_whose_snapshot_is_gone(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A")
    table.tag("t", ttl=timedelta(days=1))
    table.commit("+B")
    table.remove(table.root(1))
    table.tag("again", snapshot=1)
    assert "tagTimeRetained" not in document(store, "tag/tag-again")
    assert table.live("main", "again") == table.live("main", "t")


def test_hints_consumers_and_removal(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A")
    table.commit("+B")
    table.consumer("c", 7)
    table.hint("LATEST", 9)
    table.remove("snapshot/EARLIEST")
    table.remove("snapshot/snapshot-1")
    assert store.read("consumer/consumer-c").data == b'{\n  "nextSnapshot" : 7\n}'
    assert store.read("snapshot/LATEST").data == b"9"
    assert not table.exists("snapshot/EARLIEST")
    assert table.roots() == all_roots(store) == ["snapshot/snapshot-2"]
    with pytest.raises(ObjectNotFoundError):
        store.read("snapshot/snapshot-1")


def test_ids_and_times_may_be_chosen(table: TableBuilder) -> None:
    assert table.commit("+A", snapshot_id=9, time_ms=5) == 9
    assert table.commit("+B") == 10
    assert table.document(table.root(10))["timeMillis"] == 9 * TICK_MS
    assert table.document(table.root(9))["timeMillis"] == 5
    assert_all_readable(table)


def test_changelog_documents_need_the_changelog_or_what_was_added(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A", changelog=["+CL1"])
    table.commit("-A", "+B", "+C", file_source={"C": 0})
    for snapshot_id in (1, 2):
        table.changelog_document(snapshot_id)
        table.remove(table.root(snapshot_id))
    table.commit(kind="OVERWRITE")
    assert table.symbols(table.referenced("changelog/changelog-1")) & table.present() == {"CL1"}
    assert table.symbols(table.referenced("changelog/changelog-2")) & table.present() == {"C"}
    assert store.read("changelog/LATEST").data == b"2"
    assert_all_readable(table)


# Branches and rollbacks.


def test_a_branch_from_a_tag_shares_files_and_goes_its_own_way(table: TableBuilder, store: MemoryStore) -> None:
    table.commit("+A")
    table.commit("+B")
    table.tag("t", snapshot=1)
    table.alter(options={"x": "y"})
    branch = table.branch("b", from_tag="t")
    branch.commit("-A", "+C")
    table.commit("+D")
    assert branch.root(2) == "branch/branch-b/snapshot/snapshot-2"
    assert table.symbols(table.live("b", 2)) == {"C"}
    assert table.symbols(table.live("main", 3)) == {"A", "B", "D"}
    assert {key.key for key in store.list("branch/branch-b/schema/")} == {"branch/branch-b/schema/schema-0"}
    assert table.roots() == all_roots(store)
    assert len(table.roots()) == 3 + 1 + 3
    assert table.on_branch("b").commit("+E") == 3
    assert_all_readable(table)


def test_a_branch_may_differ_in_keys_and_share_a_bucket_folder(table: TableBuilder) -> None:
    table.commit("+A")
    branch = table.branch("rt")
    branch.alter(primary_keys=("v",), options={"bucket": "2"})
    branch.commit("+B")
    assert branch.path("B").startswith("bucket-0/")
    assert_all_readable(table)


def test_rolling_back_takes_later_documents_and_no_files(table: TableBuilder, store: MemoryStore) -> None:
    for symbol in "ABCD":
        table.commit(f"+{symbol}")
    table.tag("t2", snapshot=2)
    table.tag("t4", snapshot=4)
    table.rollback(3)
    assert table.roots() == all_roots(store) == [*(f"snapshot/snapshot-{i}" for i in (1, 2, 3)), "tag/tag-t2"]
    assert store.read("snapshot/LATEST").data == b"3"
    assert table.present() == {"A", "B", "C", "D"}
    first = table.document(table.root(3))
    assert table.commit("+E") == 4
    assert table.symbols(table.live("main", 4)) == {"A", "B", "C", "E"}
    assert first == table.document(table.root(3))
    assert_all_readable(table)


def test_rolling_back_to_a_tag_brings_its_snapshot_back(table: TableBuilder, store: MemoryStore) -> None:
    for symbol in "ABC":
        table.commit(f"+{symbol}", changelog=[f"+C{symbol}"])
    table.tag("t", snapshot=1, ttl=timedelta(days=1))
    for snapshot_id in (1, 2):
        table.changelog_document(snapshot_id)
        table.remove(table.root(snapshot_id))
    table.rollback("t")
    assert table.roots() == all_roots(store) == ["changelog/changelog-1", "snapshot/snapshot-1", "tag/tag-t"]
    assert store.read("snapshot/EARLIEST").data == store.read("snapshot/LATEST").data == b"1"
    assert store.read("changelog/LATEST").data == b"1"
    assert "tagTimeRetained" not in document(store, "snapshot/snapshot-1")
    assert_all_readable(table)


def test_rolling_back_as_the_latest_revives_paths(table: TableBuilder) -> None:
    table.commit("+A")
    table.commit("+B", index={"i1": {"A": [0]}})
    table.commit("-A", "+C", index={})
    assert table.rollback_as_latest(2) == 4
    assert table.live("main", 4) == table.live("main", 2)
    assert table.document(table.root(4))["indexManifest"] == table.document(table.root(2))["indexManifest"]
    assert table.document(table.root(4))["totalRecordCount"] == 20
    tags = [root for root in table.roots() if root.startswith("tag/")]
    assert len(tags) == 1
    assert tags[0].startswith("tag/tag-rollback-to-as-latest-2-")
    table.tag("mine", snapshot=3)
    table.rollback_as_latest("mine")
    assert table.symbols(table.live("main", 5)) == {"B", "C"}
    assert len(table.roots()) == 5 + 2
    assert_all_readable(table)


def test_a_deleted_file_that_is_added_again_the_plain_way_stays_deleted(table: TableBuilder) -> None:
    """Live files are a set difference by identity: this is why rolling back rewrites the base."""
    table.commit("+A")
    table.commit("-A")
    table.commit("+A")
    assert live_symbols(table, table.root(3)) == set()
    table.commit("+B", merge_base=True)
    assert live_symbols(table, table.root(4)) == {"B"}


# Damage.


@pytest.mark.parametrize(
    "which", ["document", "base", "delta", "manifest", "data", "index manifest", "index", "statistics"]
)
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_no_damage_goes_unseen(table: TableBuilder, which: str, how: str) -> None:
    table.commit("+A")
    table.commit("+B", index={"i": {"A": [1]}}, statistics="s")
    root = table.root(2)
    written = table.document(root)
    path = {
        "document": root,
        "base": f"manifest/{written['baseManifestList']}",
        "delta": f"manifest/{written['deltaManifestList']}",
        "manifest": f"manifest/{table.model(root).base[0].name}",
        "data": table.path("A"),
        "index manifest": f"manifest/{written['indexManifest']}",
        "index": table.path("i"),
        "statistics": f"statistics/{written['statistics']}",
    }[which]
    if how == "missing":
        table.store.delete([DeleteRequest(path)])
    else:
        table.corrupt(path)
    with pytest.raises(UnreadableRootError):
        read_root(table.store, root)


# The same for every history.


@given(st.data())
def test_builder_and_reader_agree_on_every_history(data: st.DataObject) -> None:
    table = TableBuilder(MemoryStore("memory://tables/any"), partition_keys=("dt",))
    live: set[str] = set()
    for number in range(data.draw(st.integers(1, 8))):
        gone = data.draw(st.sets(st.sampled_from(sorted(live)))) if live else set()
        entries = [f"-{symbol}" for symbol in sorted(gone)] + [f"+f{number}", f"+g{number}"]
        live = (live - gone) | {f"f{number}", f"g{number}"}
        partition = {f"f{number}": (data.draw(st.sampled_from(["a", "b c", "d=e/f", None])),)}
        half = data.draw(st.integers(0, len(entries)))
        manifests = [group for group in (entries[:half], entries[half:]) if group]
        table.commit(manifests=manifests, partition=partition, merge_base=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            table.tag(f"t{number}")
        assert table.symbols(table.live("main", number + 1)) == live
    assert table.roots() == all_roots(table.store)
    assert_all_readable(table)


def test_the_same_history_has_the_same_bytes_in_every_store(tmp_path: Path) -> None:
    def build(store: Store) -> dict[str, bytes]:
        table = TableBuilder(store)
        table.commit("+A", changelog=["+CL"])
        table.commit("-A", "+B", index={"i": {"B": [1]}}, statistics="s")
        table.tag("t", ttl=timedelta(days=1))
        assert_all_readable(table)
        return {found.key: store.read(found.key).data for found in store.list("")}

    in_memory = build(MemoryStore("memory://tables/same"))
    assert build(LocalStore(str(tmp_path))) == in_memory
    with mocked_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="lake")
        assert build(S3Store("lake", "db.db/t", client)) == in_memory


# pypaimon.


@pytest.mark.parametrize("partitioned", [False, True])
def test_pypaimon_reads_an_append_table(tmp_path: Path, partitioned: bool) -> None:
    table = TableBuilder(
        LocalStore(str(_folder(tmp_path))),
        partition_keys=("dt", "n") if partitioned else (),
        types={"n": "INT", "d": "DECIMAL(20, 2)", "big": "BIGINT", "day": "DATE", "at": "TIMESTAMP(6)"},
        real_rows=True,
    )
    place: dict[str, Any] = (
        {"partition": {"A": ("2024-01-01", 1), "B": ("x/y", 2), "C": ("2024-01-01", 2)}} if partitioned else {}
    )
    table.commit("+A", "+B", rows={"A": 3}, **place)
    table.commit("+C", changelog=["+CL"], statistics="s", **place)
    table.tag("t", snapshot=1)
    table.tag("brief", snapshot=2, ttl=timedelta(days=1))
    table.commit("-A", "+D", merge_base=True, partition=("z", None) if partitioned else None)

    expected: list[tuple[dict[str, str], int | str, int]] = [
        ({}, 3, 30),
        ({"scan.snapshot-id": "1"}, 1, 13),
        ({"scan.snapshot-id": "2"}, 2, 23),
        ({"scan.tag-name": "t"}, "t", 13),
    ]
    for options, root, rows in expected:
        names, read = _read_with_pypaimon(tmp_path, options)
        assert names == {path.rpartition("/")[2] for path in table.live("main", root)}
        assert read.num_rows == rows
    assert_all_readable(table)


def test_pypaimon_applies_deletion_vectors(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = TableBuilder(LocalStore(str(_folder(tmp_path))), types={"n": "INT"}, options=options, real_rows=True)
    table.commit("+A", "+B", rows={"A": 4, "B": 2})
    table.commit(index={"i": {"A": [1, 3]}})
    _, read = _read_with_pypaimon(tmp_path, {})
    assert sorted(read["n"].to_pylist()) == [0, 0, 1, 2]


def test_pypaimon_reads_a_primary_key_table(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(_folder(tmp_path))), primary_keys=("k",), real_rows=True)
    table.commit("+A")
    table.commit("-A@0", "+A@5")
    table.commit("+B")
    names, read = _read_with_pypaimon(tmp_path, {})
    assert names == {path.rpartition("/")[2] for path in table.live("main", 3)}
    assert sorted(read["k"].to_pylist()) == list(range(10))


def _folder(warehouse: Path) -> Path:
    folder = warehouse / "default.db" / "t"
    folder.mkdir(parents=True)
    return folder


def _read_with_pypaimon(warehouse: Path, options: dict[str, str]) -> tuple[set[str], Any]:
    pypaimon = pytest.importorskip("pypaimon")
    table = pypaimon.CatalogFactory.create({"warehouse": str(warehouse)}).get_table("default.t")
    builder = (table.copy(options) if options else table).new_read_builder()
    splits = builder.new_scan().plan().splits()
    return {file.file_name for split in splits for file in split.files}, builder.new_read().to_arrow(splits)
