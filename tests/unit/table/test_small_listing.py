"""A table of one page is listed whole. No root may escape that moves while a page is made, one folder after another."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import pytest

from lakesweep.model.roots import TableListing
from lakesweep.storage.store import DeleteRequest, Page, StoredObject
from lakesweep.table.reach import capture as module
from lakesweep.table.reach.capture import capture, list_in_order, list_small
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


class SlowPage(MemoryStore):
    """Makes a page folder by folder, as a server may. Others change the table before one of its looks into a folder."""

    reads_wait = True

    def __init__(self) -> None:
        super().__init__("memory://bucket/small")
        self.looks = 0
        self.changes: dict[int, Callable[[], None]] = {}

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        if prefix:
            yield from super().list_range(prefix, after, until)
            return
        page: list[StoredObject] = []
        for folder in ("branch/", "changelog/", "snapshot/", "tag/", "schema/"):
            self.looks += 1
            self.changes.pop(self.looks, lambda: None)()
            page += [entry for found in super().list_range(folder) for entry in found]
        yield tuple(sorted(page))


def made() -> tuple[SlowPage, TableBuilder]:
    store = SlowPage()
    table = TableBuilder(store)
    for number in range(1, 5):
        table.commit(f"+A{number}")
    return store, table


def to_changelog(table: TableBuilder) -> None:
    table.changelog_document(1)
    table.remove(table.root(1))


def to_tag(table: TableBuilder) -> None:
    table.tag("kept", 1)
    table.remove(table.root(1))


@pytest.mark.parametrize("move", [to_changelog, to_tag])
def test_a_root_that_moves_is_captured(move: Callable[[TableBuilder], None]) -> None:
    """Whenever the move happens: in either page of each of the three rounds."""
    for place in range(1, 31):
        store, table = made()
        store.changes[place] = partial(move, table)
        found = capture(store, lambda seconds: None, lambda listing: None, may_be_small=True)
        assert found.may_be_small
        places = {"snapshot/snapshot-1", "changelog/changelog-1", "tag/tag-kept"}
        assert places & found.live.captured.keys(), place


def test_a_root_that_moves_twice_is_captured() -> None:
    """Somebody rolls back to a tag and deletes it, and the snapshot becomes a changelog: each move is to where a page
    has looked already."""
    for first, second in combinations(range(1, 31, 3), 2):
        store, table = made()
        to_tag(table)
        store.changes[first] = partial(_rename, store, "tag/tag-kept", "snapshot/snapshot-1")
        store.changes[second] = partial(_rename, store, "snapshot/snapshot-1", "changelog/changelog-1")
        found = capture(store, lambda seconds: None, lambda listing: None, may_be_small=True)
        places = {"snapshot/snapshot-1", "changelog/changelog-1", "tag/tag-kept"}
        assert places & found.live.captured.keys(), (first, second)


def _rename(store: SlowPage, old: str, new: str) -> None:
    store.put(new, store.read(old).data)
    store.delete([DeleteRequest(old)])


def test_a_page_shows_what_the_folders_show() -> None:
    store, table = made()
    table.tag("t", 2)
    table.branch("b", "t").commit("+B")
    table.changelog_document(1)
    assert list_small(store) == list_in_order(store)


def test_a_table_of_more_than_one_page_is_listed_by_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = made()
    monkeypatch.setattr(module, "SMALL_OBJECTS", 3)
    assert list_small(store) is None
    found = capture(store, lambda seconds: None, lambda listing: None, may_be_small=True)
    assert store.looks == 10, "one page was asked for each time"
    assert isinstance(found.listing, TableListing)
    assert sorted(found.live.captured) == [f"snapshot/snapshot-{number}" for number in range(1, 5)]
