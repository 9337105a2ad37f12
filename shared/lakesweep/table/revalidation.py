"""Candidates that come from an old listing, looked up again: those that are still exactly that object.

One page of a listing answers for up to a thousand keys. So each request begins just before the first candidate that
has no answer yet, and its page answers for all candidates up to its last key. Where candidates lie close together, that
is a request a page; where they are far apart, one a candidate; never more than the smaller of the two, but for one.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Protocol

from lakesweep.format.json_document import MAX_NAME_BYTES
from lakesweep.storage.store import Page, Store

SECOND_MS = 1000
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF
_key = attrgetter("key")


class Candidate(Protocol):
    """An object as it was listed once."""

    @property
    def key(self) -> str:
        """Below the store's root."""

    @property
    def size_bytes(self) -> int:
        """Of the object."""

    @property
    def etag(self) -> str:
        """Without quotes."""

    @property
    def modified_ms(self) -> int:
        """By the store's clock."""


def revalidate(store: Store, candidates: Iterable[Candidate], *, parallel: int = 1) -> frozenset[str]:
    """Return the keys of those candidates that are still there, with the same time, size and ETag.

    A key that is given twice is in doubt, and not among them.

    Args:
        store: Where they lie.
        candidates: In any order.
        parallel: How many requests at once; each begins a part of its own, which may take one request more.

    Raises:
        StorageError: A request failed; nothing is known.
    """
    counted = Counter(map(_key, candidates := list(candidates)))
    asked = sorted((each for each in candidates if counted[each.key] == 1), key=_key)
    length = max(1, -(-len(asked) // parallel))
    parts = [asked[start : start + length] for start in range(0, len(asked), length)]
    if parallel < 2 or len(parts) < 2 or not getattr(store, "reads_wait", True):
        return _still_there(store, asked)
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="revalidate") as pool:
        return frozenset().union(*pool.map(lambda part: _still_there(store, part), parts))


def just_before(key: str, max_bytes: int = MAX_NAME_BYTES) -> str:
    """Return a text that is less than `key`, with few or no keys between the two.

    There is no greatest one. This has the letter before in the place of the last one and then the greatest letter of
    ASCII, so that siblings that merely go on from there (`a-1`, `a-10`, before `a-2`) come before it, and are not
    listed.

    Args:
        key: Not empty.
        max_bytes: The text is not longer, if the key is not.
    """
    letter = ord(key[-1])
    if letter == 0:
        return key[:-1]  # nothing is between
    before = letter - 1 if not _FIRST_SURROGATE <= letter - 1 <= _LAST_SURROGATE else _FIRST_SURROGATE - 1
    text = key[:-1] + chr(before)
    return text if len(text.encode()) >= max_bytes else f"{text}~"


def _still_there(store: Store, candidates: Sequence[Candidate]) -> frozenset[str]:
    """Look up candidates, which ascend."""
    found: list[str] = []
    # A key below the root is as much shorter as the root's own path is long, at least.
    max_bytes = MAX_NAME_BYTES - len(store.location.encode())
    answered, last = 0, ""
    while answered < len(candidates):
        first, until = candidates[answered].key, candidates[-1].key
        for page in store.list_range("", max(last, just_before(first, max_bytes)), until):
            if page:
                last = page[-1].key
            if last >= first:
                end = bisect_right(candidates, last, lo=answered, key=_key)
                found += _same(candidates[answered:end], page)
                answered = end
                break
        else:
            break  # Nothing is there from here on.
    return frozenset(found)


def _same(candidates: Sequence[Candidate], page: Page) -> list[str]:
    listed = {each.key: each for each in page}
    return [
        each.key
        for each in candidates
        if (now := listed.get(each.key)) is not None
        and not now.is_link
        and (now.size_bytes, now.etag) == (each.size_bytes, each.etag)
        and _is_same_time(now.modified_ms, each.modified_ms)
    ]


def _is_same_time(one_ms: int, other_ms: int) -> bool:
    """Tell whether two times are equal as far as both are told: S3 lists whole seconds."""
    if one_ms % SECOND_MS and other_ms % SECOND_MS:
        return one_ms == other_ms
    return one_ms // SECOND_MS == other_ms // SECOND_MS
