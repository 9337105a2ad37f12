"""The actions that write and delete one document, with the conditions and the content that undo it."""

from typing import NamedTuple

from lakesweep.model.plan import Delete, Put, to_text
from lakesweep.model.roots import DocumentRef, Root, RootRef

_KINDS = {"changelog": "changelog_document"}


class Former(NamedTuple):
    """A document that a write replaces."""

    etag: str
    body: bytes


def delete_root(phase: str, root: Root, reason: str) -> Delete:
    """Return the action that deletes a root, provided that it has not changed."""
    return delete_document(phase, _KINDS.get(root.ref.kind, root.ref.kind), root.ref, root.body, reason)


def delete_document(phase: str, kind: str, ref: RootRef | DocumentRef, body: bytes, reason: str) -> Delete:
    """Return the action that deletes a document, provided that it has not changed."""
    return Delete(phase, kind, ref.path, ref.size_bytes, reason, etag=ref.etag, body=to_text(body))


def write_document(phase: str, kind: str, path: str, body: bytes, reason: str, former: Former | None = None) -> Put:
    """Return the action that writes a document where none exists, or in place of `former`."""
    text = to_text(body)
    if former is None:
        return Put(phase, kind, path, text, reason, if_absent=True)
    return Put(phase, kind, path, text, reason, etag=former.etag, former=to_text(former.body))
