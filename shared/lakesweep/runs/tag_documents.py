"""The documents of a tag: the tag itself, and its success file (`tag.create-success-file`)."""

from datetime import datetime

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.tag import tag_body
from lakesweep.format.tag_success import created_ms_of, success_body
from lakesweep.model.plan import Put, to_text
from lakesweep.model.table_ref import branch_dir
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

PHASE = "tags"
TAG = "tag"
SUCCESS = "tag_success"
_MS_NS = 1_000_000


def tag_path(branch: str, name: str) -> str:
    """Return the path of a branch's tag."""
    return f"{branch_dir(branch)}tag/tag-{name}"


def success_path(branch: str, name: str) -> str:
    """Return the path of the success file of a branch's tag. Source: Paimon `SuccessFileTagCallback`."""
    return f"{branch_dir(branch)}tag/tag-success-file/{name}_SUCCESS"


def put_tag(
    branch: str,
    name: str,
    source_body: bytes,
    source_path: str,
    *,
    created: datetime | None,
    time_retained_ms: int | None,
    reason: str,
    etag: str | None = None,
) -> Put:
    """Return the action that writes a tag.

    Args:
        branch: The branch of the tag.
        name: The name of the tag, checked.
        source_body: The snapshot or tag document that it copies.
        source_path: The path of that document.
        created: The time of creation, without a zone. It is only written together with a time to live.
        time_retained_ms: The time to live.
        reason: Why the tag is made, as a clause without a full stop.
        etag: The ETag of the tag that it replaces. Without one, no tag of this name may exist.

    Raises:
        RefusedError: The source is incomplete or does not parse.
    """
    try:
        if time_retained_ms is None:
            body = tag_body(source_body, source_path, None, None)
        else:
            body = tag_body(source_body, source_path, created, time_retained_ms * _MS_NS)
    except FormatError as error:
        raise RefusedError(str(error), code="unreadable_root") from error
    text = to_text(body)
    return Put(PHASE, TAG, tag_path(branch, name), text, reason, if_absent=etag is None, etag=etag)


def put_success(store: Store, branch: str, name: str, now_ms: int) -> Put:
    """Return the action that writes the success file of a new tag.

    If a success file exists, because a tag of that name was renamed, it keeps its time of creation.

    Raises:
        StorageError: The existing file cannot be read.
    """
    path = success_path(branch, name)
    created_ms, etag = now_ms, None
    try:
        found = store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        pass
    else:
        etag = found.etag
        try:
            created_ms = created_ms_of(found.data, path)
        except FormatError:
            created_ms = now_ms  # nothing depends on the damaged content
    body = success_body(created_ms, now_ms).decode()
    return Put(PHASE, SUCCESS, path, body, f"tag {name} is made", if_absent=etag is None, etag=etag)
