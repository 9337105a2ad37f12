"""The store: where objects lie.

A *store* is rooted at one location (a table, a control location, an external data root) and knows objects by *key*:
a relative path with `/` between its parts, never empty, never absolute, never with a `.` or `..` part. Reading,
listing and deleting cannot leave the root.

Guarantees that every implementation gives, and that `tests/conformance` holds it to:

- `read` and `list` see every `put` and `delete` that has returned.
- A failed request raises `StorageError`; it never looks like an empty answer or a missing object.
- `put` is atomic: a reader sees the old body or the new one.
- A conditional `put` has at most one winner.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

PAGE_KEYS = 1000
"""Names in one page of a listing."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One entry of a listing."""

    key: str
    size_bytes: int
    etag: str
    """Changes when the body is replaced. Opaque: compare, never parse."""
    modified_ms: int
    """Epoch milliseconds by the store's clock."""
    is_link: bool = False
    """A symbolic link of a local folder: listed so that it can be reported, never followed, never deleted."""


Page = tuple[StoredObject, ...]
"""What one request for a listing brings: up to 1 000 objects, sometimes none."""


@dataclass(frozen=True, slots=True)
class Body:
    """What `read` returns."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """One key to delete; with `etag`, only while the object still has it (where the store can check)."""

    key: str
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What became of one `DeleteRequest`."""

    key: str
    code: str
    """`deleted`, `already_gone`, or why it failed: `precondition_failed`, `access_denied`, `bad_key`, `is_link`,
    `is_directory`, `moved`, or another word of the store."""
    version_id: str | None = None
    """The delete marker that a versioned bucket made; deleting that marker brings the object back."""

    @property
    def ok(self) -> bool:
        """The object is not there any more."""
        return self.code in ("deleted", "already_gone")


@dataclass(frozen=True, slots=True)
class UndeleteRequest:
    """One deletion to take back: the key, and the delete marker that `DeleteResult.version_id` named."""

    key: str
    version_id: str | None
    """`None` asks about whichever marker is the newest version; only with `only_check`."""


@dataclass(frozen=True, slots=True)
class UndeleteResult:
    """What became of one `UndeleteRequest`, or what would."""

    key: str
    code: str
    """`restored`; `restorable` (only asked, and it would be); `already_there` (the marker is gone and an object is
    there); or why not: `marker_gone` (neither is there), `marker_not_current` (something came after the marker),
    `nothing_below` (it hides no object: there was none, or another deletion lies between), `access_denied`, `bad_key`,
    or another word of the store."""
    etag: str | None = None
    """Of the object that is there now, or would be."""
    version_id: str | None = None
    """Of the delete marker that was asked about."""

    @property
    def ok(self) -> bool:
        """The object is there, or would be."""
        return self.code in ("restored", "restorable", "already_there")


@dataclass(frozen=True, slots=True)
class HiddenState:
    """What a store with versions says about a key that somebody may have deleted."""

    code: str
    """`there`: an object is there. `hidden`: one delete marker lies right above an object. `other`: it is gone in some
    other way, such as by two deletions. `unknown`: the store has kept nothing that would tell."""
    version_id: str | None = None
    """The delete marker, where it is `hidden`."""
    etag: str | None = None
    """Of the object below."""
    deleted_ms: int = 0
    """When the marker was made, by the store's clock. S3 tells whole seconds."""


class Store(Protocol):
    """Objects below one root."""

    @property
    def location(self) -> str:
        """The normalised root: `s3://bucket/prefix` or an absolute path, without a closing slash."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield every object whose key starts with `prefix`, in ascending key order, in pages.

        Args:
            prefix: `""` for everything, or a folder with its closing slash (`snapshot/`). Directory markers
                (keys that end in `/`) are not yielded. A folder that does not exist yields nothing. One that is reached
                through a symbolic link yields that link alone, so that it never looks empty.

        Raises:
            StorageError: Any page failed; what was yielded before is not the whole.
        """

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield those objects of `list` whose keys lie in a range, in ascending key order, one page a request.

        Ranges that meet at a key, whichever it is, hold every object between them once: `until` of one is `after` of
        the next.

        Args:
            prefix: As in `list`.
            after: Only keys greater than this. Neither it nor `until` has to exist.
            until: Only keys up to this one and itself; `None` for all. Nothing is asked for that lies beyond.

        Raises:
            StorageError: Any page failed; what was yielded before is not the whole.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly below a folder, in ascending order of `name/`, in pages.

        Args:
            prefix: As in `list`. Symbolic links are no folders.

        Raises:
            StorageError: Any page failed; what was yielded before is not the whole.
        """

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return those of `names` that may be folders with something in them, directly below the root, in one request.

        May name too many, where one request does not tell; never too few.

        Raises:
            StorageError: The request failed.
        """

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object.

        Args:
            key: Which object.
            max_bytes: Refuse a longer body with `StorageError` (code `too_large`) instead of loading it.

        Raises:
            ObjectNotFoundError: It does not exist.
            StorageError: Anything else, a symbolic link anywhere on the way included.
        """

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return `length` bytes of one object, from byte `start` on, with the ETag of the whole object.

        Args:
            key: Which object.
            start: The first byte; 0 is the beginning.
            length: How many, at least one.

        Raises:
            ObjectNotFoundError: It does not exist.
            StorageError: `too_short`: the object ends before. `bad_range`: no such range can be asked for. Else as
                `read`.
        """

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object and return its ETag.

        Raises:
            PreconditionFailedError: `if_absent` and something is there, or `if_match` and it is not that.
            StorageError: Anything else; the object may or may not have been written.
        """

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys and say for each what became of it, in the order of `requests`.

        Requests without an ETag travel together (one request of the store). Those with one go singly, in the order of
        `requests`, some at a time, or together with an ETag for each key. One that fails stops no other: where it must,
        ask in separate calls. A missing object is `already_gone` where the store can tell, else `deleted`. A key that
        is no key fails alone (`bad_key`).

        Raises:
            StorageError: The request as a whole failed; any of the keys may be gone.
        """

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Take up to 1 000 deletions back and say for each what became of it, in the order of `requests`.

        Removes the named delete markers, and nothing that is not the current version of its key and a delete marker
        with an object right below: an object that was written since is never touched.

        Args:
            requests: Keys with their markers.
            only_check: Change nothing; say what would be.

        Raises:
            StorageError: `not_versioned`: this store keeps nothing of what is deleted. Else the request as a whole
                failed; any of the objects may be back.
        """

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Say of up to 1 000 keys whether a deletion hides an object there, in the order of `keys`.

        A store that keeps no versions says `unknown` of each key.

        Raises:
            StorageError: A request failed.
        """

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Return the object that `undelete` would bring back.

        Raises:
            ObjectNotFoundError: It would bring nothing back.
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
