"""Roots and schemas in the documents of a plan, whether or not they lie in the table.

A writer commits under the newest schema that it finds, even one that is about to be deleted. Its commit is kept, so the
schema must be kept as well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.batches import ROOT_KINDS
from lakesweep.format.documents import parse_changelog
from lakesweep.format.names import schema_id_of
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Action, Put, to_bytes
from lakesweep.model.roots import BranchListing, Root, RootKind, RootRef, base_name, branch_dir
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_roots, read_schema

_ALL = 1 << 63


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of a branch."""

    ids: frozenset[int]
    latest: TableSchema | None
    """`None`: there is no schema."""


def roots_to_write(branch: str, actions: Iterable[Action]) -> Iterator[Root]:
    """Yield the roots that some actions write.

    Raises:
        FormatError: The body of an action is not such a document.
    """
    for action in actions:
        if isinstance(action, Put) and action.kind in ROOT_KINDS:
            yield root_of(branch, action.path, to_bytes(action.body))


def root_of(branch: str, path: str, body: bytes) -> Root:
    """Build the root that a document describes.

    Args:
        branch: The branch whose folder holds the document.
        path: Of the document.
        body: Its content.

    Raises:
        FormatError: The content is not such a document.
    """
    folder, _, file = path.removeprefix(branch_dir(branch)).partition("/")
    kinds: dict[str, RootKind] = {"snapshot": "snapshot", "changelog": "changelog"}
    kind = kinds.get(folder, "tag")
    parse = parse_changelog if kind == "changelog" else parse_snapshot
    snapshot = parse_tag(body, path).snapshot if kind == "tag" else parse(body, path)
    return Root(RootRef(branch, kind, file.removeprefix(f"{kind}-"), path, "", len(body)), snapshot, body)


def schemas_after(store: Store, own: BranchListing, actions: Iterable[Action]) -> Schemas:
    """Return the schemas that a branch has when all actions of a plan are done.

    Args:
        store: Of the table.
        own: The branch as it is now.
        actions: In the order of the plan; the last action on a schema counts.

    Raises:
        FormatError: A schema that an action writes does not parse.
        RefusedError: A schema of the branch does not parse.
    """
    last = {action.path: action for action in actions if action.kind == "schema"}
    coming = {schema_id(path): action for path, action in last.items() if isinstance(action, Put)}
    kept = tuple(document for document in own.schemas if document.path not in last)
    ids = frozenset(coming) | {schema_id(document.path) for document in kept}
    newest = coming.get(max(ids, default=-1))
    if newest is not None:
        return Schemas(ids, parse_schema(to_bytes(newest.body), newest.path))
    return Schemas(ids, read_schema(store, replace(own, schemas=kept)) if ids else None)


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
