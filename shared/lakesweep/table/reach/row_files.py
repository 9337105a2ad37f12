"""The data files of one version, with what a reader of their rows needs."""

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import Identity
from lakesweep.format.row_entries import RowEntry
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_files import version_of


def row_files(store: Store, root: Root, *, with_stats: bool) -> tuple[RowEntry, ...]:
    """Return the data files of a snapshot or tag, in the order of its manifests.

    Args:
        store: The table's store.
        root: The version.
        with_stats: With statistics, which take most of the memory.

    Raises:
        RefusedError: A list or manifest of the root is missing or damaged, so some files would be unknown.
        StorageError: A read failed.
    """
    reader = MetadataReader(store)
    added: list[RowEntry] = []
    deleted: set[Identity] = set()
    metas = [each.meta for _, each in version_of(reader, root).manifests()]
    for _, content in reader.scan_row_entries(metas, tuple, with_stats=with_stats):
        if isinstance(content, Unreadable):
            raise RefusedError(
                f"table {store.location}: {root.ref} cannot be read completely: {content.problem}",
                code="unreadable_root",
            )
        for entry in content:
            if entry.entry.is_add:
                added.append(entry)
            else:
                deleted.add(entry.identity)
    return tuple(entry for entry in added if entry.identity not in deleted) if deleted else tuple(added)
