"""Files that readers need and that are not there."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.model.roots import TableListing
from lakesweep.storage.store import Body
from lakesweep.table.reach.capture import Capture, capture
from lakesweep.table.reach.missing import Missing, find_missing
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

DAY_MS = 86_400_000


def scan(store: MemoryStore) -> Capture:
    """Capture all roots and see everything that is there."""
    found = capture(store, lambda seconds: None, lambda listing: None)
    for entry in store.list(""):
        found.live.saw(entry.key.rpartition("/")[2])
    return found


def missing_of(store: MemoryStore) -> Missing:
    return find_missing(store, scan(store))


def paths(missing: Missing) -> dict[str, tuple[str, ...]]:
    return {file.path: file.needed_by for file in missing.files}


@pytest.fixture
def table() -> TableBuilder:
    table = TableBuilder(MemoryStore(), partition_keys=("dt",), primary_keys=("id",))
    table.commit("+A", "+B", partition=("x",), extra={"A": ["index"]}, changelog=["+CA"], statistics="S")
    table.tag("t", snapshot=1)
    table.commit("-A", "+C", partition=("x",), changelog=["+CC"], index={"V": {"B": [1]}}, merge_base=True)
    table.commit("+D", partition=("y",))
    return table


def test_nothing_is_missing(table: TableBuilder) -> None:
    """All is there: no request is made but for manifests that delete something."""
    assert missing_of(table.store) == Missing()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lost", "needed_by"),
    [
        (lambda t: t.path("A"), ("tag t", "snapshot 1")),
        (lambda t: t.path("A", "index"), ("tag t", "snapshot 1")),
        (lambda t: t.path("D"), ("snapshot 3",)),
        (lambda t: t.path("CC"), ("snapshot 2",)),
        (lambda t: t.path("V"), ("snapshot 2", "snapshot 3")),
        (lambda t: f"statistics/{t.document('snapshot/snapshot-3')['statistics']}", None),
        (lambda t: f"manifest/{t.document('snapshot/snapshot-3')['deltaManifestList']}", ("snapshot 3",)),
        (lambda t: f"manifest/{t.document('snapshot/snapshot-2')['changelogManifestList']}", ("snapshot 2",)),
        (lambda t: f"manifest/{t.model('snapshot/snapshot-3').delta[0].name}", ("snapshot 3",)),
        (lambda t: f"manifest/{t.document('snapshot/snapshot-3')['indexManifest']}", ("snapshot 2", "snapshot 3")),
    ],
)
def test_a_lost_file(
    table: TableBuilder, lost: Callable[[TableBuilder], str], needed_by: tuple[str, ...] | None
) -> None:
    """Whatever kind it is of, it is found, with the roots that need it."""
    path = lost(table)
    table.remove(path)
    found = paths(missing_of(table.store))  # type: ignore[arg-type]
    assert set(found) == {path}
    assert needed_by is None or set(found[path]) == set(needed_by)


def test_what_only_deletions_name_is_not_missing(table: TableBuilder) -> None:
    """A file that every root deleted may go, and so may its extra files."""
    table.remove("tag/tag-t")
    table.remove("snapshot/snapshot-1")
    table.remove(table.path("A"))
    table.remove(table.path("A", "index"))
    assert missing_of(table.store) == Missing()  # type: ignore[arg-type]


def test_the_changelog_of_a_tag_is_not_missing(table: TableBuilder) -> None:
    """Expiry takes it with the snapshot, and the tag goes on naming it."""
    store: Any = table.store
    table.remove("snapshot/snapshot-1")
    table.remove(table.path("CA"))
    table.remove(f"manifest/{table.document('tag/tag-t')['changelogManifestList']}")
    table.remove(f"manifest/{table.model('tag/tag-t').changelog[0].name}")
    assert missing_of(store) == Missing()


def test_changelog_documents_need_their_files() -> None:
    """Long-lived changelogs need their lists and files, and none of the data that went with the snapshot."""
    store = MemoryStore()
    table = TableBuilder(store, primary_keys=("id",), options={"changelog-producer": "input"})
    table.commit("+A", changelog=["+CA"])
    table.commit("-A", "+B", changelog=["+CB"])
    table.changelog_document(1)
    first = table.model("snapshot/snapshot-1")
    table.remove("snapshot/snapshot-1")
    for name in (first.document["baseManifestList"], first.document["deltaManifestList"]):
        table.remove(f"manifest/{name}")
    table.remove(table.path("A"))
    assert missing_of(store) == Missing()
    table.remove(table.path("CA"))
    assert paths(missing_of(store)) == {table.path("CA"): ("changelog 1",)}


def test_changelog_documents_by_delta() -> None:
    """Without a producer, what a commit wrote is the change; with one, a bare document needs nothing."""
    for producer, expected in (("none", 1), ("input", 0)):
        store = MemoryStore()
        table = TableBuilder(store, primary_keys=("id",), options={"changelog-producer": producer})
        table.commit("+A")
        table.commit("-A", "+B")
        table.changelog_document(1)
        table.remove("snapshot/snapshot-1")
        table.remove(table.path("A"))
        assert len(missing_of(store).files) == expected


def test_a_snapshot_that_was_left_behind_needs_nothing(table: TableBuilder) -> None:
    """Below a gap an expiry was interrupted, which takes files before the document."""
    table.remove("tag/tag-t")
    table.remove("snapshot/snapshot-2")
    table.remove(table.path("A"))
    assert missing_of(table.store) == Missing()  # type: ignore[arg-type]


def test_a_file_that_appears_meanwhile_is_not_missing(table: TableBuilder) -> None:
    """A listing shows no single moment, so each file is asked for at last."""
    store: Any = table.store
    path = table.path("D")
    body = store.read(path)
    table.remove(path)
    found = scan(store)
    store.put(path, body.data)
    assert find_missing(store, found) == Missing()


def test_a_root_that_goes_meanwhile_needs_nothing(table: TableBuilder) -> None:
    """Expiry of other engines takes the files of a snapshot before the snapshot itself."""
    store: Any = table.store
    table.remove("tag/tag-t")
    table.remove(table.path("A"))
    found = scan(store)
    table.remove("snapshot/snapshot-1")
    assert find_missing(store, found) == Missing()


def test_a_file_that_may_not_be_asked_for_is_unknown(table: TableBuilder) -> None:
    """A refused request says nothing about what is there."""
    from lakesweep.errors import AccessDeniedError

    class Denying(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            if key == path:
                raise AccessDeniedError(f"read {key}: no")
            return table.store.read(key, max_bytes)

        def list(self, prefix: str) -> Any:
            return table.store.list(prefix)

    path = table.path("D")
    table.remove(path)
    missing = find_missing(Denying(), scan(table.store))  # type: ignore[arg-type]
    assert (missing.files, missing.unknown) == ((), 1)
    assert "not known" in " ".join(missing.warnings())


def test_requests_are_bounded() -> None:
    """Beyond a number of files they are counted, not asked for."""
    store = MemoryStore()
    table = TableBuilder(store)
    table.commit(*(f"+F{number}" for number in range(20)))
    for number in range(20):
        table.remove(table.path(f"F{number}"))
    missing = find_missing(store, scan(store), max_asked=5)
    assert (len(missing.files), missing.unknown) == (5, 15)


def test_files_outside_the_table() -> None:
    """Those of declared roots are asked for there."""
    store, outside = MemoryStore("memory://t"), MemoryStore("memory://out/x")
    table = TableBuilder(store, externals={"memory://out/x": outside})
    table.commit("+A", "+B", external={"A": "memory://out/x/bucket-0/data-a-0.parquet"})
    maintainer = Maintainer(store, open_store=lambda location: outside)
    report = maintainer.run("remove-orphan-files", execute=False, older_than=store.now_ms() - DAY_MS)
    assert report.plan is not None
    assert report.plan.header.findings["missing"] == {"count": 0, "first": [], "unknown": 0}
    table.remove("A")
    report = maintainer.run("remove-orphan-files", execute=False, older_than=store.now_ms() - DAY_MS)
    assert report.plan is not None
    assert report.plan.header.findings["missing"] == {
        "count": 1,
        "first": [{"path": "memory://out/x/bucket-0/data-a-0.parquet", "needed_by": ["snapshot 1"]}],
        "unknown": 0,
    }
    assert any("missing that readers need" in warning for warning in report.plan.header.warnings)


def test_partition_folders_of_branches() -> None:
    """A branch's own schema says where its files lie."""
    store = MemoryStore()
    table = TableBuilder(store, partition_keys=("dt",), options={"bucket": "-1"})
    table.commit("+A", partition=("x",))
    table.tag("t")
    other = table.branch("b", from_tag="t")
    other.commit("+B", partition=("y",), bucket=3)
    table.remove(other.path("B"))
    assert paths(missing_of(store)) == {other.path("B"): ("snapshot 2 of branch b",)}


def test_no_root_no_question() -> None:
    """A capture whose roots are all gone has nothing to miss."""
    store = MemoryStore()
    table = TableBuilder(store)
    table.commit("+A")
    found = scan(store)
    table.remove("A")
    assert find_missing(store, dataclasses.replace(found, listing=TableListing({}))) == Missing()
