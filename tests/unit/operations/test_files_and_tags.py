"""Which files survive an expiry: one test a history.

Unless a test says otherwise the expiry runs to the newest snapshot.
"""

import pytest

from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import TableReader
from tests.support.table_builder import TableBuilder


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("memory://bucket/db.db/t")


@pytest.fixture
def table(store: MemoryStore) -> TableBuilder:
    return TableBuilder(store)


@pytest.fixture
def maintainer(store: MemoryStore) -> Maintainer:
    return Maintainer(store)


def snapshots(store: MemoryStore) -> list[str]:
    return [entry.key for entry in store.list("snapshot/") if "snapshot-" in entry.key]


def manifest_names(store: MemoryStore) -> set[str]:
    return {entry.key for entry in store.list("manifest/")}


def test_a_file_that_moved_between_levels_stays(table: TableBuilder, maintainer: Maintainer) -> None:
    table.commit("+A")
    table.commit("-A@0", "+A@5")
    assert maintainer.expire().status == "done"
    assert table.present() == {"A"}
    assert_roots_readable(table)


def test_a_tag_protects_a_file_whatever_its_level(table: TableBuilder, maintainer: Maintainer) -> None:
    table.commit("+A")
    table.commit("-A@0", "+A@5")
    table.tag("t", snapshot=1)
    table.commit("-A@5")
    report = maintainer.expire()
    assert table.present() == {"A"}
    assert report.plan is not None and report.plan.header.kept["tagged"] >= 1
    assert_roots_readable(table)


def test_an_unreadable_manifest_of_the_delta_keeps_its_files(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    table.commit("+A")
    table.commit(manifests=[["-A@0"], ["+A@5"]])
    table.commit()
    delta = [entry for entry in table.document("snapshot/snapshot-2").items() if entry[0] == "deltaManifestList"]
    assert delta
    adding = _manifest_that_adds(table, 2)
    table.corrupt(adding)
    maintainer.expire()
    assert table.present() == {"A"}


def test_an_unreadable_manifest_that_the_newest_snapshot_has_no_more(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    """The delta alone is unreadable: nothing of it is freed, and the run goes on."""
    table.commit("+A", "+B")
    table.commit(manifests=[["-A@0"], ["+A@5"]])
    adding = _manifest_that_adds(table, 2)
    table.merge_manifests()
    table.commit("-B")
    table.corrupt(adding)
    assert maintainer.expire().status == "done"
    assert table.present() == {"A"}
    assert snapshots(store) == ["snapshot/snapshot-4"]


def test_each_tag_protects_what_it_holds(table: TableBuilder, maintainer: Maintainer) -> None:
    table.commit("+A", "+B")
    table.commit("-A")
    table.commit("+C")
    table.commit("-B")
    table.commit("+D")
    table.commit("-D")
    table.tag("t2", snapshot=2)
    table.tag("t4", snapshot=4)
    maintainer.expire()
    assert table.present() == {"B", "C"}
    assert_roots_readable(table)


def test_before_the_middle_tag_is_deleted(table: TableBuilder, maintainer: Maintainer) -> None:
    """Deleting tags comes later; with all three tags A and B and C stay."""
    table.commit("+A")
    table.commit("+B")
    table.commit("-A")
    table.commit("-B")
    table.commit("+C")
    for snapshot_id in (1, 2, 4):
        table.tag(f"t{snapshot_id}", snapshot=snapshot_id)
    maintainer.expire()
    assert table.present() == {"A", "B", "C"}
    assert_roots_readable(table)


def test_a_later_tag_protects_after_an_earlier_one_is_gone(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    _f6_history(table)
    maintainer.expire(retain_max=4, retain_min=4)
    assert snapshots(store)[0] == "snapshot/snapshot-2"
    table.remove("tag/tag-t1")
    maintainer.expire()
    assert table.present() == {"A", "B"}
    assert_roots_readable(table)


def test_a_tag_that_cannot_be_read_keeps_all_data_and_no_documents(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    _f6_history(table)
    table.remove("tag/tag-t1")
    table.merge_manifests()
    before = manifest_names(store)
    table.corrupt(_manifest_that_adds(table, 2))
    report = maintainer.expire()
    assert report.status == "done"
    assert table.present() == {"A", "B"}
    assert snapshots(store) == ["snapshot/snapshot-6"]
    assert report.plan is not None and report.plan.header.kept["unreadable_root"] == 2
    assert any("tag t2" in warning for warning in report.all_warnings())
    gone = before - manifest_names(store)
    assert gone, "manifests that neither the tag nor the newest snapshot names go"
    assert not gone & table.referenced("tag/tag-t2")


def test_extra_files_go_with_their_data_file(table: TableBuilder, maintainer: Maintainer, store: MemoryStore) -> None:
    table.commit("+A", extra={"A": ("x.index", "y.index")})
    table.commit("-A")
    assert len(list(store.list("bucket-0/"))) == 3
    report = maintainer.expire()
    assert list(store.list("bucket-0/")) == []
    assert report.to_json()["delete"]["by_kind"]["extra"] == 2  # type: ignore[index]


def test_external_files_go_from_where_they_are(store: MemoryStore) -> None:
    outside = MemoryStore("memory://other/p")
    table = TableBuilder(store, externals={outside.location: outside})
    name = "data-11111111-2222-3333-4444-555555555555-0.parquet"
    table.commit("+A", external={"A": f"{outside.location}/bucket-0/{name}"}, extra={"A": (f"{name}.index",)})
    table.commit("-A")
    assert {entry.key for entry in outside.list("")} == {f"bucket-0/{name}", f"bucket-0/{name}.index"}
    report = Maintainer(store, open_store=opener(outside), external_roots=(outside.location,)).expire()
    assert report.status == "done", report.refusal
    assert list(outside.list("")) == []


def test_files_outside_every_declared_root_stay(store: MemoryStore) -> None:
    """Metadata cannot point a deletion at somebody else's objects."""
    outside = MemoryStore("s3://other/p")
    table = TableBuilder(store, externals={"s3://other/p": outside})
    table.commit("+A", external={"A": "s3://other/p/q/data-a.parquet"})
    table.commit("-A")
    body = store.read("schema/schema-0").data.replace(b"s3://other/p", b"s3://declared/elsewhere")
    store.put("schema/schema-0", body)
    report = Maintainer(store, open_store={"s3://other/p": outside}.__getitem__).expire()
    assert report.plan is not None and report.plan.header.kept["undeclared_external_root"] == 1
    assert [entry.key for entry in outside.list("")] == ["q/data-a.parquet"]


def test_a_tag_on_a_present_snapshot_changes_nothing(table: TableBuilder, maintainer: Maintainer) -> None:
    table.commit("+A")
    table.commit("-A", "+B")
    table.commit("+C")
    table.tag("t", snapshot=3)
    maintainer.expire()
    assert table.present() == {"B", "C"}
    assert table.exists("tag/tag-t")
    assert_roots_readable(table)


def test_two_tags_on_one_expired_snapshot_protect_until_both_are_gone(
    table: TableBuilder, maintainer: Maintainer
) -> None:
    table.commit("+A")
    table.tag("t1", snapshot=1)
    table.tag("t2", snapshot=1)
    table.commit("-A", "+B")
    table.commit("+C")
    maintainer.expire(retain_max=2, retain_min=2)
    table.remove("tag/tag-t1")
    maintainer.expire()
    assert table.present() == {"A", "B", "C"}
    assert_roots_readable(table)


def test_changelog_files_of_a_tagged_snapshot_go(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    table.commit("+A", changelog=["+CL1"])
    table.tag("t", snapshot=1)
    table.commit("-A", "+B", changelog=["+CL2"])
    report = maintainer.expire()
    assert table.present() == {"A", "B", "CL2"}
    changelog_list = table.document("tag/tag-t")["changelogManifestList"]
    assert not table.exists(f"manifest/{changelog_list}")
    assert report.to_json()["delete"]["by_kind"]["changelog"] == 1  # type: ignore[index]


def test_a_first_survivor_that_vanishes_while_planning_loses_nothing(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine deletes data and keeps the documents; here the run starts over from what exists."""
    table.commit("+A")
    table.commit("-A", "+B")
    table.commit("-B", "+C")
    read = store.read
    vanished = []

    def racing_read(key: str, max_bytes: int | None = None) -> object:
        if key == "snapshot/snapshot-2" and not vanished:
            vanished.append(key)
            table.remove(key)
        return read(key, max_bytes)

    monkeypatch.setattr(store, "read", racing_read)
    report = maintainer.expire(retain_max=2, retain_min=2)
    assert vanished
    assert report.status in ("done", "nothing_to_do")
    assert_roots_readable(table)
    assert "C" in table.present()


def test_a_tag_whose_list_is_missing_leaks_manifests_and_nothing_else(
    table: TableBuilder, maintainer: Maintainer, store: MemoryStore
) -> None:
    table.commit("+A")
    table.commit("+B")
    table.tag("t", snapshot=2)
    table.commit("-A", "-B", "+C")
    table.merge_manifests()
    before = manifest_names(store)
    base = f"manifest/{table.document('tag/tag-t')['baseManifestList']}"
    table.remove(base)
    report = maintainer.expire()
    assert report.status == "done"
    assert snapshots(store) == ["snapshot/snapshot-4"]
    assert table.present() == {"A", "B", "C"}
    lists = {name for name in before if "manifest-list" in name}
    gone = before - manifest_names(store)
    assert gone <= lists | {base}, "no manifest goes while a list that may name it is missing"


def _f6_history(table: TableBuilder) -> None:
    table.commit("+A")
    table.commit("+B")
    table.commit("-B")
    table.commit("-A")
    table.commit()
    table.tag("t1", snapshot=1)
    table.tag("t2", snapshot=2)


def _manifest_that_adds(table: TableBuilder, snapshot_id: int) -> str:
    """Return the last manifest of a snapshot's delta."""
    document = table.document(f"snapshot/snapshot-{snapshot_id}")
    records = TableReader(table.store).records_of(
        f"snapshot/snapshot-{snapshot_id}", f"manifest/{document['deltaManifestList']}", None
    )
    return f"manifest/{records[-1]['_FILE_NAME']}"
