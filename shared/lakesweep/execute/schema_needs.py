"""Which schemas the commits of others need while a branch moves.

A writer commits under the newest schema that it finds, be it one that is about to go. Its commit stays, so the schema
has to stay with it.
"""

from collections.abc import Iterable

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.names import schema_id_of
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.facts import base_name
from lakesweep.model.roots import RootRef
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_roots

_ALL = 1 << 63


def newest_schema(store: Store, refs: Iterable[RootRef]) -> int:
    """Return the newest schema that some roots were committed under, -1 of no root.

    A root may have files of every schema up to its own. One that cannot be read may need any.

    Raises:
        StorageError: A request failed.
    """
    newest = -1
    for ref in refs:
        try:
            newest = max([newest, *(root.snapshot.schema_id for root in read_roots(store, [ref]).roots)])
        except RefusedError:
            return _ALL
    return newest


def schema_id(path: str) -> int:
    """Return the id of a schema by its path."""
    found = schema_id_of(base_name(path))
    return _ALL if found is None else found


def schema_of(path: str, body: bytes) -> int:
    """Return the schema that a snapshot was committed under. One that cannot be read may need any."""
    try:
        return parse_snapshot(body, path).schema_id
    except FormatError:
        return _ALL
