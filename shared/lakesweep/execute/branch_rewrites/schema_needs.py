"""Which schemas the commits of others need during a branch rewrite.

A writer commits under the newest schema that it finds, even one that is about to be deleted. Its commit is kept, so the
schema must be kept as well.
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
    """Return the newest schema that some roots were committed under, -1 when there is no root.

    A root may have files of every schema up to its own. An unreadable root may need any schema.

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
    """Return the id in the path of a schema."""
    found = schema_id_of(base_name(path))
    return _ALL if found is None else found


def schema_of(path: str, body: bytes) -> int:
    """Return the schema that a snapshot was committed under. An unreadable snapshot may need any."""
    try:
        return parse_snapshot(body, path).schema_id
    except FormatError:
        return _ALL
