"""The documents of a branch, as a branch rewrite reads and writes them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from lakesweep.errors import ObjectNotFoundError, StalePlanError, StorageError
from lakesweep.format.hint import parse_hint
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.document_actions import Former, write_document
from lakesweep.model.plan import Delete, Put
from lakesweep.model.roots import BranchListing, DocumentRef, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.branches.rules.fast_forward import History, SchemaDocument
from lakesweep.operations.branches.rules.fast_forward_actions import EARLIEST
from lakesweep.runs.view import TableView
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

Ref = TypeVar("Ref", RootRef, DocumentRef, Delete)


def read_history(view: TableView, branch: BranchListing) -> History:
    """Read the documents of a branch. A fast-forward compares two branches by them.

    Raises:
        RefusedError: A document is no valid root.
        StalePlanError: One vanished or changed since it was listed.
        StorageError: A request failed.
    """
    earliest = read_hint_of(view, branch, EARLIEST)
    return History(
        snapshots=view.own_documents(branch.snapshots),
        tags=view.own_documents(branch.tags),
        changelogs=view.own_documents(branch.changelogs),
        schemas=tuple(SchemaDocument(ref, body) for ref, body in read_bodies(view.table.store, branch.schemas)),
        earliest_id=None if earliest is None else parse_hint(earliest.body),
    )


def read_bodies(store: Store, refs: Sequence[Ref]) -> Iterator[tuple[Ref, bytes]]:
    """Yield documents, or their deletions, with the content, which is not parsed.

    Raises:
        StalePlanError: One vanished or changed since it was listed.
        StorageError: A request failed.
    """
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, ObjectNotFoundError):
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if isinstance(body, StorageError):
            raise body
        if body.etag != ref.etag:
            raise StalePlanError(f"table {store.location}: {ref.path} was written again while the plan was made")
        yield ref, body.data


def read_hint_of(view: TableView, branch: BranchListing, name: str) -> Former | None:
    """Return a hint of a branch as it is now, `None` if the branch has none.

    Raises:
        StalePlanError: The hint vanished since it was listed.
        StorageError: A request failed.
    """
    hint, store = branch.hints.get(name), view.table.store
    if hint is None:
        return None
    try:
        found = store.read(hint.path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError as error:
        raise StalePlanError(f"table {store.location}: {hint.path} vanished while the plan was made") from error
    return Former(found.etag, found.data)


def put_hint(view: TableView, phase: str, name: str, snapshot_id: int, reason: str) -> Put:
    """Return the action that writes a hint of the branch, or overwrites its present value.

    Raises:
        StalePlanError: The hint vanished since it was listed.
        StorageError: The hint cannot be read.
    """
    path = f"{branch_dir(view.own.name)}{name}"
    return write_document(phase, "hint", path, str(snapshot_id).encode(), reason, read_hint_of(view, view.own, name))


def lost_rows(before: Snapshot | None, after: Snapshot) -> int | None:
    """Return how many rows fewer `after` has, `None` if one of the counts is not known."""
    counts = (None if before is None else before.total_record_count, after.total_record_count)
    return None if counts[0] is None or counts[1] is None else counts[0] - counts[1]
