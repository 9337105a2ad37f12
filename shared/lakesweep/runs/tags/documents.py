"""Tags as documents: names, paths, contents, and the tags of a branch.

A tag is one document. With `tag.create-success-file` it has a second one, its success file.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.control.state import always_due, read_states, write_state
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError, UsageError
from lakesweep.format.documents import created_ms_of, success_body
from lakesweep.format.tag import parse_tag, tag_body
from lakesweep.format.values.json_document import shorten
from lakesweep.model.plan import Put, to_bytes, to_text
from lakesweep.model.roots import BranchListing, Root, RootRef, branch_dir
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, TagDocument, read_tags

PHASE = "tags"
TAG = "tag"
SUCCESS = "tag_success"
NO_SNAPSHOT = "no_such_snapshot"
NO_TAG = "no_such_tag"
MAX_NAME_BYTES = 200
"""The name of a tag is part of file names. Local file systems allow 255 bytes for these."""
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


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a branch, read."""

    whole: tuple[Root, ...]
    """Ascending by snapshot id, then by name."""
    unreadable: tuple[tuple[RootRef, str], ...] = ()
    """Tags that do not parse, each with its problem."""


def list_own(table: Table, *folders: str) -> BranchListing:
    """List the given folders of the branch; the listing of other folders stays empty.

    Raises:
        StorageError: A listing failed.
        RefusedError: A symbolic link takes the place of a folder of roots.
    """
    store, branch = table.store, table.ref.branch
    entries = [entry for folder in folders for entry in store.list(f"{branch_dir(branch)}{folder}/")]
    return sort_listing(store.location, entries).branches.get(branch) or BranchListing(branch)


def tags_by_snapshot(store: Store, refs: Sequence[RootRef]) -> Tags:
    """Read tags. Vanished tags are dropped; tags that do not parse are returned apart.

    Raises:
        StorageError: A read failed.
    """
    whole: list[Root] = []
    unreadable: list[tuple[RootRef, str]] = []
    for ref, found in read_tags(store, refs):
        if isinstance(found, TagDocument):
            whole.append(found.root)
        elif not isinstance(found, ObjectNotFoundError):
            unreadable.append((ref, str(found)))
    return Tags(tuple(sorted(whole, key=lambda root: (root.snapshot.id, root.ref.name))), tuple(unreadable))


def note_ends(table: Table, made: Iterable[Put]) -> None:
    """Record when the first of these tags is over, unless a pass is due before. Tags without a time to live never are.

    The state of the last pass says when the clock next makes or ends a tag, and does not know later tags. If nobody
    commits, the table sweep asks for passes by that time alone. If this fails, the first pass that lists tags deletes
    the tag, as it does with tags from other programs.

    Args:
        table: The branch of the tags, with its control location.
        made: The actions that have just written them.
    """
    spans = [
        tag.time_retained_ns // _MS_NS
        for put in made
        if put.kind == TAG and (tag := parse_tag(to_bytes(put.body), put.path)).time_retained_ns is not None
    ]
    if not spans or table.area is None:
        return
    ends_ms = table.store.now_ms() + min(spans)
    with suppress(MaintenanceError):
        states = read_states(table.area)
        known = states.get(table.ref.branch) or always_due(0, 0)
        if ends_ms < known.tags_due_ms:
            write_state(table.area, {**states, table.ref.branch: replace(known, tags_due_ms=ends_ms)})


def check_tag_name(name: str, argument: str = "tag") -> tuple[str, ...]:
    """Refuse a name that could be read as something else, and return a warning about an unwise name.

    Args:
        name: The name of the new tag.
        argument: The argument that gives it, for the message.

    Raises:
        UsageError: With code `bad_tag_name`.
    """
    if problem := name_problem(name):
        raise UsageError(
            f"tag {shorten(ascii(name))}: expected a name without {problem}"
            if name.strip()
            else f"{argument}: expected a name, found none",
            code="bad_tag_name",
        )
    if name.isascii() and name.isdigit():
        return (
            f"tag {name!r} is a number: where a version is given as text, such as VERSION AS OF '{name}', it hides "
            f"the snapshot {name}",
        )
    return ()


def name_problem(name: str) -> str | None:
    """Return what a name must not have, `None` for a valid name."""
    if not name.strip():
        return "nothing in it"
    if "/" in name:
        return "a slash: it would lie in another folder"
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in name):
        return "control characters and others that cannot be seen"
    if name in (".", ".."):
        return "a meaning for file systems"
    if name.startswith("success-file"):
        return "success-file at its beginning: success files lie there"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"more than {MAX_NAME_BYTES} bytes"
    return None
