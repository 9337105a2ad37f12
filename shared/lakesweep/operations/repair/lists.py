"""The lists and the index manifest of a snapshot. No repair can do without them: nothing else tells what they named."""

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest_list_writer import RawList, read_raw_list
from lakesweep.format.snapshot import Snapshot
from lakesweep.table.contents.contents import Contents
from lakesweep.table.contents.index import index_of
from lakesweep.table.metadata import MAX_METADATA_BYTES

NOT_REPAIRABLE = "not_repairable"


def lists_of(snapshot: Snapshot, contents: Contents) -> tuple[RawList, RawList]:
    """Read the base and the delta list of a snapshot.

    Raises:
        RefusedError: One does not exist (`not_repairable`), or is damaged.
        StorageError: A request failed.
    """

    def read(name: str, size: int | None) -> RawList:
        path = f"manifest/{name}"
        try:
            return read_raw_list(contents.store.read(path, MAX_METADATA_BYTES).data, path, expected_size=size)
        except ObjectNotFoundError as error:
            raise _not_repairable(contents, path) from error
        except FormatError as error:
            raise contents.corrupt(str(error)) from error

    return (
        read(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        read(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    )


def index_manifest_of(snapshot: Snapshot, contents: Contents) -> RawIndex | None:
    """Read the index manifest of a snapshot; `None`: it names none.

    Raises:
        RefusedError: It does not exist (`not_repairable`), or is damaged.
        StorageError: A request failed.
    """
    try:
        return index_of(contents.store, snapshot, contents.corrupt)
    except RefusedError as error:
        if isinstance(error.__cause__, ObjectNotFoundError):
            raise _not_repairable(contents, f"manifest/{snapshot.index_manifest}") from error.__cause__
        raise


def _not_repairable(contents: Contents, path: str) -> RefusedError:
    return RefusedError(
        f"table {contents.table}: {path} does not exist, and nothing else tells what it named; restore it, or roll "
        "back to an older snapshot (lakesweep check TABLE names one)",
        code=NOT_REPAIRABLE,
    )
