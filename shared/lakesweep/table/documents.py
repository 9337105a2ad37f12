"""Read the small JSON documents: roots, tags with their time to live, consumers, schemas."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.documents import parse_changelog, parse_consumer, parse_hint
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.format.tag import Tag, parse_tag
from lakesweep.model.roots import BranchListing, DocumentRef, Root, RootRef, TableListing, branch_dir
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.remembering import read_anew

if TYPE_CHECKING:
    from lakesweep.model.plan import Delete

T = TypeVar("T")
Document = TypeVar("Document", RootRef, DocumentRef, "Delete")

MAX_DOCUMENT_BYTES = 16 << 20
"""A longer JSON document is refused, not loaded."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Roots that were read, and roots that vanished between listing and reading."""

    roots: tuple[Root, ...]
    vanished: tuple[RootRef, ...]


def read_roots(store: Store, refs: Iterable[RootRef]) -> Documents:
    """Read root documents, many at a time.

    Raises:
        RefusedError: A document exists but is no valid root, so its references are unknown.
        StorageError: A read failed, and the document was not merely absent.
    """
    roots: list[Root] = []
    vanished: list[RootRef] = []
    for ref, body in present_documents(store, tuple(refs)):
        if body is None:
            vanished.append(ref)
        else:
            snapshot, data = parsed(store, ref.path, body, partial(_parse_root, store.location, ref))
            roots.append(Root(ref, snapshot, data))
    return Documents(tuple(roots), tuple(vanished))


def read_each_root(store: Store, refs: Sequence[RootRef]) -> Mapping[str, Root | RefusedError | None]:
    """Return path -> root, why it is none, or `None` if it vanished since it was listed.

    Raises:
        StorageError: A read failed, and the document was not merely absent.
    """
    try:
        found = read_roots(store, refs)
    except RefusedError as error:
        if len(refs) == 1:
            return {refs[0].path: error}
        return {path: root for ref in refs for path, root in read_each_root(store, [ref]).items()}
    return {ref.path: None for ref in refs} | {root.ref.path: root for root in found.roots}


def _parse_root(location: str, ref: RootRef, data: bytes, path: str) -> Snapshot:
    try:
        if ref.kind == "tag":
            return parse_tag(data, path).snapshot
        snapshot = (parse_changelog if ref.kind == "changelog" else parse_snapshot)(data, path)
    except FormatError as error:
        raise RefusedError(f"table {location}: {error}", code="unreadable_root") from error
    if snapshot.id != ref.id:
        raise RefusedError(
            f"table {location}: {path} says id {snapshot.id}; expected {ref.id}, the id in its name",
            code="unreadable_root",
        )
    return snapshot


def read_consumers(store: Store, consumers: Iterable[DocumentRef]) -> dict[str, int]:
    """Return consumer id -> smallest snapshot id that it still needs.

    A consumer that vanished between listing and reading protects nothing any more.

    Raises:
        RefusedError: Lakesweep cannot parse a consumer document.
    """
    found: dict[str, int] = {}
    for ref, body in present_documents(store, tuple(consumers)):
        if body is None:
            continue
        try:
            found[ref.name], _ = parsed(store, ref.path, body, parse_consumer)
        except FormatError as error:
            raise RefusedError(f"table {store.location}: {error}", code="unreadable_consumer") from error
    return found


def present_documents(store: Store, refs: Sequence[Document]) -> Iterator[tuple[Document, Body | None]]:
    """Yield each document with its content, `None` if it vanished since it was listed."""
    with closing(read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)) as bodies:
        for ref, (_, body) in zip(refs, bodies, strict=True):
            if isinstance(body, StorageError) and not isinstance(body, ObjectNotFoundError):
                raise body
            yield ref, None if isinstance(body, StorageError) else body


def parsed(store: Store, path: str, body: Body, parse: Callable[[bytes, str], T]) -> tuple[T, bytes]:
    """Parse a document, and return it with its bytes. If a cached copy is damaged, read the document again."""
    try:
        return parse(body.data, path), body.data
    except (FormatError, RefusedError):
        anew = read_anew(store, path, MAX_DOCUMENT_BYTES)
        if anew is None:
            raise
        return parse(anew.data, path), anew.data


def latest_hint_of(store: Store, branch: BranchListing) -> int | None:
    """Return the id in LATEST of a branch with snapshots, `None` if the hint is absent or garbage.

    Usually the hint names the newest snapshot. On S3 its ETag shows this without a request: the ETag of such a short
    object is the MD5 of its bytes, unless the bucket encrypts with its own keys.
    """
    document = branch.hints.get("snapshot/LATEST")
    if document is None:
        return None
    newest = branch.snapshots[-1].id
    if document.etag == hashlib.md5(str(newest).encode(), usedforsecurity=False).hexdigest():
        return newest
    return read_hint(store, document.path)


def read_hint(store: Store, path: str) -> int | None:
    """Return a hint's id, `None` if the hint is absent or garbage."""
    try:
        return parse_hint(store.read(path, max_bytes=MAX_DOCUMENT_BYTES).data)
    except ObjectNotFoundError:
        return None


def read_schema(store: Store, branch: BranchListing) -> TableSchema:
    """Return a branch's latest schema.

    Raises:
        RefusedError: There is none (so this is not a table), Lakesweep cannot parse it, or the type of the table
            has no
            snapshots of its own.
    """
    if not branch.schemas:
        is_main = branch.name == "main"
        found = "no schema/schema-<n> there" if is_main else "no such branch (`lakesweep branches` lists them)"
        raise RefusedError(
            f"{store.location}: expected a Paimon table directory (branch {branch.name}), found {found}",
            code="not_a_table" if is_main else "no_such_branch",
        )
    path = branch.schemas[-1].path
    try:
        schema, _ = parsed(store, path, store.read(path, max_bytes=MAX_DOCUMENT_BYTES), parse_schema)
    except FormatError as error:
        raise RefusedError(f"table {store.location}: {error}", code="unreadable_schema") from error
    table_type = schema.options.get("type", "table").lower()
    if table_type not in SUPPORTED_TYPES:
        raise RefusedError(
            f"table {store.location}: type is {table_type!r}; expected one of {', '.join(sorted(SUPPORTED_TYPES))}, "
            "since other types keep no snapshots of their own",
            code="unsupported_table_type",
        )
    return schema


def read_schemas(store: Store, branch: BranchListing, ids: Iterable[int]) -> dict[int, TableSchema]:
    """Return some schemas of a branch by id.

    Raises:
        RefusedError: One of them is missing, or cannot be parsed.
        StorageError: A read failed.
    """
    paths = [f"{branch_dir(branch.name)}schema/schema-{schema_id}" for schema_id in ids]
    try:
        return {schema.id: schema for _, schema in _read_schemas(store, paths)}
    except ObjectNotFoundError as error:
        raise RefusedError(
            f"table {store.location}: a schema is missing with which rows were written: {error}",
            code="unreadable_schema",
        ) from error


def read_all_schemas(store: Store, listing: TableListing) -> Iterator[tuple[str, TableSchema]]:
    """Yield every schema of every branch with its path.

    Raises:
        RefusedError: Lakesweep cannot parse one of them.
    """
    return _read_schemas(store, [document.path for branch in listing.branches.values() for document in branch.schemas])


def _read_schemas(store: Store, paths: Sequence[str]) -> Iterator[tuple[str, TableSchema]]:
    with closing(read_many(store, paths, max_bytes=MAX_DOCUMENT_BYTES)) as bodies:
        for path, body in bodies:
            if isinstance(body, StorageError):
                raise body
            try:
                yield path, parsed(store, path, body, parse_schema)[0]
            except FormatError as error:
                raise RefusedError(f"table {store.location}: {error}", code="unreadable_schema") from error


SUPPORTED_TYPES = frozenset({"table", "materialized-table"})


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
    with closing(read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)) as bodies:
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


def prepared_ms(store: Store, snapshot: Snapshot) -> int:
    """Return when the store wrote a snapshot's delta manifest list, 0 if it is not there. Costs one listing."""
    key = f"manifest/{snapshot.delta_manifest_list}"
    listed = (each for page in store.list_range("manifest/", key[:-1], key) for each in page)
    return next((each.modified_ms for each in listed if each.key == key), 0)
