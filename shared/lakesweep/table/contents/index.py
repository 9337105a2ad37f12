"""The index manifest of a snapshot with its raw records."""

from collections.abc import Callable

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex, read_raw_index_manifest
from lakesweep.format.snapshot import Snapshot
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MAX_METADATA_BYTES


def index_of(store: Store, snapshot: Snapshot, corrupt: Callable[[str], RefusedError]) -> RawIndex | None:
    """Return the index manifest of a snapshot, `None` if it names none.

    Raises:
        RefusedError: It is missing or damaged.
        StorageError: The request failed.
    """
    name = snapshot.index_manifest
    if name is None:
        return None
    path = f"manifest/{name}"
    try:
        return read_raw_index_manifest(store.read(path, MAX_METADATA_BYTES).data, path)
    except ObjectNotFoundError as error:
        raise corrupt(f"{path} does not exist") from error
    except FormatError as error:
        raise corrupt(str(error)) from error
