"""Tags with all values of their documents: the snapshot, and the time to live."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.tag import Tag, parse_tag
from lakesweep.model.roots import Root, RootRef
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, parsed


@dataclass(frozen=True, slots=True)
class TagDocument:
    """A tag that was read."""

    ref: RootRef
    tag: Tag
    body: bytes

    @property
    def root(self) -> Root:
        """Return the tag as a root, without its time to live."""
        return Root(self.ref, self.tag.snapshot, self.body)


def read_tags(store: Store, refs: Sequence[RootRef]) -> Iterator[tuple[RootRef, TagDocument | MaintenanceError]]:
    """Yield each tag with its document, or with the reason why it has none, in the order of `refs`.

    The reason is an `ObjectNotFoundError` if the tag vanished since it was listed. It is another error if the document
    cannot be parsed, is too long or has a later version. Its meaning depends on the caller.

    Raises:
        StorageError: A read failed, so nothing is known.
    """
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, StorageError):
            if not isinstance(body, ObjectNotFoundError) and body.code != "too_large":
                raise body
            yield ref, body
            continue
        try:
            tag, data = parsed(store, ref.path, body, parse_tag)
        except (FormatError, RefusedError) as error:
            yield ref, error
        else:
            yield ref, TagDocument(ref, tag, data)
