"""What has to be true of a table once its maintenance has come to rest."""

from collections.abc import Iterable
from typing import Any

from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder

_KEPT_FOLDERS = ("schema/",)
_HINTS = ("snapshot/LATEST", "snapshot/EARLIEST")


def assert_exact(table: TableBuilder, snapshots: Iterable[int], store: Any = None) -> int:
    """Fail unless these snapshots are left, each reads as it was built, and nothing lies there that none needs.

    Args:
        table: As it was written.
        snapshots: What its retention keeps, beside its tags.
        store: Where to read it, if not where it was written.

    Returns:
        How many objects the table consists of.
    """
    store = store or table.store
    tags = {root for root in table.roots() if root.startswith("tag/")}
    kept = {table.root(snapshot_id) for snapshot_id in snapshots} | tags
    found = set(all_roots(store))
    assert found == kept, f"{store.location}: left {sorted(found - kept)[:5]}, gone {sorted(kept - found)[:5]}"
    assert_all_readable(table, store)
    needed = set().union(*(table.referenced(root) for root in kept)) | set(_HINTS)
    there = {entry.key for entry in store.list("")}
    extra = {key for key in there - needed if not key.startswith(_KEPT_FOLDERS)}
    assert not extra, f"{store.location}: nobody needs {sorted(extra)[:5]}, {len(extra)} in all"
    return len(there)
