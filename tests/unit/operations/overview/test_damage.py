"""A table in the overview that is damaged: a finding or an error, never less than there is."""

from collections.abc import Callable

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.overview import TableOverview
from lakesweep.operations.overview.measure import measure
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

DAY_MS = 86_400_000
NOW_MS = 400 * DAY_MS


def whole() -> MemoryStore:
    """Return a table with something of every kind of metadata, and an orphan."""
    store = MemoryStore(clock=lambda: NOW_MS)
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "deletion-vectors.enabled": "true"}
    table = TableBuilder(store, options=options)
    table.commit("+A", "+B", extra={"A": ["index"]})
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    table.commit("-A", "+C", changelog=["+L"])
    table.commit("+D", statistics="S", index={"V": {"B": [1]}})
    branch.commit("+E")
    table.commit("+F")
    table.changelog_document(3)
    table.consumer("reader", 3)
    store.put("bucket-0/data-00000000-0000-4000-8000-000000000000-0.parquet", b"orphan")
    for entry in list(store.list("")):
        store.set_modified(entry.key, 0)
    return store


KEYS = tuple(entry.key for entry in whole().list(""))
ROOTS = ("snapshot/", "tag/", "branch/", "changelog/", "consumer/")


def measured(store: MemoryStore) -> TableOverview | None:
    """Return the overview, `None` if the table cannot be read."""
    try:
        return measure(Maintainer(store).table, "t").overview
    except MaintenanceError:
        return None


def test_the_whole_table() -> None:
    """Nothing is lost; only maintenance is behind."""
    found = measured(whole())
    assert found is not None
    assert {each.code for each in found.findings} == {"snapshots_overdue", "consumer_holds"}
    assert found.saving_bytes > 0


@pytest.mark.parametrize("key", [key for key in KEYS if "schema-" in key or not key.startswith(ROOTS)])
def test_anything_is_missing(key: str) -> None:
    """A lost file is told of, whichever it is, and nothing more is to be saved."""
    store, before = whole(), measured(whole())
    assert before is not None
    store.delete([DeleteRequest(key)])
    found = measured(store)
    if found is None or "00000000-0000-4000" in key:
        return
    assert any(each.severity == "act" for each in found.findings), (key, found.findings)
    assert found.saving_bytes <= before.saving_bytes
    assert found.bytes == sum(entry.size_bytes for entry in store.list(""))


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"\0garbage" + data])
@pytest.mark.parametrize(
    "key", [key for key in KEYS if "bucket-" not in key and not key.startswith(("index/", "stat"))]
)
def test_any_metadata_is_damaged(key: str, damage: Callable[[bytes], bytes]) -> None:
    """A document, list or manifest that is cut off or garbage: an error or a finding; only hints may be merely slow."""
    store, before = whole(), measured(whole())
    assert before is not None
    store.put(key, damage(store.read(key).data))
    store.set_modified(key, 0)
    found = measured(store)
    if found is None:
        return
    assert {each.code for each in found.findings} - {each.code for each in before.findings}, (key, found.findings)
    assert found.saving_bytes <= before.saving_bytes
    assert found.bytes == sum(entry.size_bytes for entry in store.list(""))


def test_unknown_figures_are_not_zero() -> None:
    """Where the newest snapshot has lost a manifest, nobody knows how many files it has."""
    store = whole()
    table = measured(store)
    assert table is not None
    newest = max((key for key in KEYS if key.startswith("snapshot/snapshot-")), key=lambda key: key)
    assert newest == "snapshot/snapshot-4"
    lists = [key for key in KEYS if key.startswith("manifest/manifest-") and "list" not in key]
    unknown = 0
    for key in lists:
        store = whole()
        store.delete([DeleteRequest(key)])
        found = measured(store)
        assert found is not None
        assert "damaged_root" in {each.code for each in found.findings}
        if found.live_files is None:
            unknown += 1
            assert (found.live_bytes, found.small_files, found.deleted_share) == (None, None, None)
            assert found.growth[-1].bytes is None
            assert all(pin.bytes is None for pin in found.pins)
            assert found.saving_bytes == 0  # a pass refuses
        assert not found.saving_bytes or "orphan" not in {each.reason for each in found.reasons}
    assert unknown >= 4
