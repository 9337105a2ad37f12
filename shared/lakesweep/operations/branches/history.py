"""All documents of a branch. A fast-forward compares the two branches by them."""

from collections.abc import Iterator, Sequence

from lakesweep.errors import ObjectNotFoundError, StalePlanError, StorageError
from lakesweep.format.hint import parse_hint
from lakesweep.model.roots import BranchListing, DocumentRef
from lakesweep.operations.branches.rules.fast_forward import History, SchemaDocument
from lakesweep.runs.view import Draft
from lakesweep.storage.reads import read_many
from lakesweep.table.documents import MAX_DOCUMENT_BYTES


def read_history(draft: Draft, branch: BranchListing) -> History:
    """Read the documents of a branch.

    Raises:
        RefusedError: A document is no valid root.
        StalePlanError: One vanished since it was listed.
        StorageError: A request failed.
    """
    hints = [hint for hint in (branch.hints.get("snapshot/EARLIEST"),) if hint is not None]
    return History(
        snapshots=draft.own_documents(branch.snapshots),
        tags=draft.own_documents(branch.tags),
        changelogs=draft.own_documents(branch.changelogs),
        schemas=tuple(SchemaDocument(ref, body) for ref, body in read_documents(draft, branch.schemas)),
        earliest_id=next((parse_hint(body) for _, body in read_documents(draft, hints)), None),
    )


def read_documents(draft: Draft, refs: Sequence[DocumentRef]) -> Iterator[tuple[DocumentRef, bytes]]:
    """Yield small documents with their content.

    Raises:
        StalePlanError: One vanished since it was listed.
        StorageError: A request failed.
    """
    store = draft.table.store
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, ObjectNotFoundError):
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if isinstance(body, StorageError):
            raise body
        yield ref, body.data
