"""The store: it holds objects.

A *store* is rooted at one location (a table, a control location, an external data root). It identifies objects by
*key*: a relative path with `/` between its parts, never empty, never absolute, never with a `.` or `..` part. Reads,
listings and deletions cannot leave the root.

Every implementation gives these guarantees, and `tests/conformance` checks them:

- `read` and `list` see every `put` and `delete` that has returned.
- A failed request raises `StorageError`; it never looks like an empty answer or a missing object.
- `put` is atomic: a reader sees the old body or the new one.
- A conditional `put` has at most one winner.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, Protocol

PAGE_KEYS = 1000
"""Names on one page of a listing."""


class StoredObject(NamedTuple):
    """One entry of a listing. A tuple, since listings make millions of them."""

    key: str
    size_bytes: int
    etag: str
    """Changes when the body is replaced. Opaque: compare it, never parse it."""
    modified_ms: int
    """Epoch milliseconds by the store's clock."""
    is_link: bool = False
    """A symbolic link of a local folder: listed so that it can be reported, never followed, never deleted."""


Page = tuple[StoredObject, ...]
"""The result of one request for a listing: up to 1 000 objects, sometimes none."""


@dataclass(frozen=True, slots=True)
class Body:
    """The result of `read`."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """One key to delete; with `etag`, only while the object has this ETag (if the store can check it)."""

    key: str
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The result of one `DeleteRequest`."""

    key: str
    code: str
    """`deleted`, `already_gone`, or why it failed: `precondition_failed`, `access_denied`, `bad_key`, `is_link`,
    `is_directory`, `moved`, or another code word of the store."""
    version_id: str | None = None
    """The delete marker that a versioned bucket made; removing this marker restores the object."""

    @property
    def ok(self) -> bool:
        """The object does not exist any more."""
        return self.code in ("deleted", "already_gone")


@dataclass(frozen=True, slots=True)
class UndeleteRequest:
    """One deletion to revert: the key, and the delete marker from `DeleteResult.version_id`."""

    key: str
    version_id: str | None
    """`None` asks about the newest marker, if it is the newest version; only with `only_check`."""


@dataclass(frozen=True, slots=True)
class UndeleteResult:
    """The result of one `UndeleteRequest`, or the result that it would have."""

    key: str
    code: str
    """`restored`; `restorable` (only asked, and it would be restored); `already_there` (the marker is gone, and an
    object exists); or why not: `marker_gone` (neither exists), `marker_not_current` (something was written after the
    marker), `nothing_below` (it hides no object: there was none, or another deletion lies between), `access_denied`,
    `bad_key`, or another code word of the store."""
    etag: str | None = None
    """ETag of the object that exists now, or that would exist."""
    version_id: str | None = None
    """Version id of the delete marker that was asked about."""

    @property
    def ok(self) -> bool:
        """The object exists, or would exist."""
        return self.code in ("restored", "restorable", "already_there")


@dataclass(frozen=True, slots=True)
class HiddenState:
    """The facts of a versioned store about a key that somebody may have deleted."""

    code: str
    """`there`: an object exists. `hidden`: one delete marker lies right above an object. `other`: the object was
    deleted in some other way, such as by two deletions. `unknown`: the store has kept nothing that would tell."""
    version_id: str | None = None
    """The delete marker, if the code is `hidden`."""
    etag: str | None = None
    """ETag of the object below."""
    deleted_ms: int = 0
    """When the marker was made, by the store's clock. S3 states whole seconds."""
    below: Literal["object", "marker", ""] = ""
    """What lies below an object that exists: an older object that it replaced, or a deletion. Empty: nothing tells."""


class Store(Protocol):
    """Objects below one root."""

    @property
    def location(self) -> str:
        """The normalised root: `s3://bucket/prefix` or an absolute path, without a trailing slash."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield every object whose key starts with `prefix`, in ascending key order, in pages.

        Args:
            prefix: `""` for everything, or a folder with its trailing slash (`snapshot/`). Directory markers
                (keys that end in `/`) are not yielded. A folder that does not exist yields nothing. A folder that is
                reached through a symbolic link yields this link alone, so that it never looks empty.

        Raises:
            StorageError: A page failed; the objects so far are not all.
        """

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield the objects of `list` whose keys lie in a range, in ascending key order, one page for each request.

        If `until` of one range is `after` of the next, the two ranges together hold every object between them exactly
        once, whichever key this is.

        Args:
            prefix: As in `list`.
            after: Only keys greater than this. Neither it nor `until` has to exist.
            until: Only keys up to and including this one; `None` for all. No request asks for keys beyond it.

        Raises:
            StorageError: A page failed; the objects so far are not all.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly below a folder, in ascending order of `name/`, in pages.

        Args:
            prefix: As in `list`. Symbolic links do not count as folders.

        Raises:
            StorageError: A page failed; the names so far are not all.
        """

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders with objects, directly below the root, in one request.

        The result may name too many if one request is not enough to tell; never too few.

        Raises:
            StorageError: The request failed.
        """

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object.

        Args:
            key: The key of the object.
            max_bytes: Refuse a longer body with `StorageError` (code `too_large`) instead of loading it.

        Raises:
            ObjectNotFoundError: It does not exist.
            StorageError: Any other failure, for example a symbolic link on the way.
        """

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return `length` bytes of one object, from byte `start` on, with the ETag of the whole object.

        Args:
            key: The key of the object.
            start: The first byte; 0 is the beginning.
            length: Number of bytes, at least one.

        Raises:
            ObjectNotFoundError: It does not exist.
            StorageError: `too_short`: the object ends before the range. `bad_range`: the range is invalid. Otherwise as
                `read`.
        """

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object and return its ETag.

        Raises:
            PreconditionFailedError: With `if_absent`, an object exists; or with `if_match`, there is no object of this
                ETag.
            StorageError: Any other failure; the object may or may not have been written.
        """

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys, and return the result of each, in the order of `requests`.

        Requests without an ETag are sent together (one request to the store). Requests with an ETag are sent singly, in
        the order of `requests`, some at a time, or together with an ETag for each key. A failed one stops no other; if
        it must, use separate calls. A missing object is `already_gone` if the store can tell, otherwise `deleted`. An
        invalid key fails alone (`bad_key`).

        Raises:
            StorageError: The request as a whole failed; any of the objects may be deleted.
        """

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Remove delete markers of up to 1 000 keys, and return the result of each, in the order of `requests`.

        This removes only the named delete markers, and only a marker that is the current version of its key and has an
        object right below it. An object that was written since is never touched.

        Args:
            requests: Keys with their markers.
            only_check: Change nothing; return the results that a removal would have.

        Raises:
            StorageError: `not_versioned`: this store does not keep deleted objects. Otherwise the request as a whole
                failed; any of the objects may be restored.
        """

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Tell for up to 1 000 keys whether a deletion hides an object there, in the order of `keys`.

        A store without versions returns `unknown` for each key.

        Raises:
            StorageError: A request failed.
        """

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Return the object that `undelete` would restore.

        Raises:
            ObjectNotFoundError: `undelete` would restore nothing.
            StorageError: As `read`; `not_versioned` as `undelete`.
        """

    def now_ms(self) -> int:
        """Return the store's own clock, in epoch milliseconds (for S3 the Date header of its latest answer)."""


def delete_all(keys: Iterable[str]) -> list[DeleteRequest]:
    """Return unconditional delete requests for `keys`."""
    return [DeleteRequest(key) for key in keys]


def pages_of(objects: Iterable[StoredObject]) -> Iterator[Page]:
    """Yield objects in pages, for stores that find them one by one."""
    upcoming = iter(objects)
    while page := tuple(islice(upcoming, PAGE_KEYS)):
        yield page
