"""Look up candidates from an old listing again, to find which of them are still exactly the same object.

One page of a listing answers for up to a thousand keys. So each request begins just before the first candidate without
an answer, and its page answers for all candidates up to its last key. For close candidates this takes one request for
each page; for distant ones, one for each candidate. It never takes more than the smaller of the two, plus one.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

from lakesweep.format.values.json_document import MAX_NAME_BYTES
from lakesweep.storage.store import Page, Store, StoredObject

SECOND_MS = 1000
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF
_key = attrgetter("key")


def revalidate(store: Store, candidates: Iterable[StoredObject], *, parallel: int = 1) -> frozenset[str]:
    """Return the keys of the candidates that still exist with the same time, size and ETag.

    A key that occurs twice is ambiguous, and is left out.

    Args:
        store: The store of the candidates.
        candidates: Objects from an earlier listing, in any order.
        parallel: Number of concurrent requests; each begins its own part, which may take one request more.

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
    """Return a text that sorts before `key`, with few or no keys in between.

    There is no greatest such text. This one replaces the last letter by its predecessor, and appends `~`, the greatest
    printable letter of ASCII. So siblings that continue the predecessor (`a-1`, `a-10`, before `a-2`) sort before the
    text and are not listed.

    Args:
        key: Not empty.
        max_bytes: The text is not longer than this, if the key is not.
    """
    letter = ord(key[-1])
    if letter == 0:
        return key[:-1]  # No key lies between.
    before = letter - 1 if not _FIRST_SURROGATE <= letter - 1 <= _LAST_SURROGATE else _FIRST_SURROGATE - 1
    text = key[:-1] + chr(before)
    return text if len(text.encode()) >= max_bytes else f"{text}~"


def _still_there(store: Store, candidates: Sequence[StoredObject]) -> frozenset[str]:
    """Look up candidates in ascending order."""
    found: list[str] = []
    # A key below the root is shorter than the limit by at least the length of the root's own path.
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
            break  # There are no keys from here on.
    return frozenset(found)


def _same(candidates: Sequence[StoredObject], page: Page) -> list[str]:
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
    """Tell whether two times are equal, as precisely as both are known: S3 lists whole seconds."""
    if one_ms % SECOND_MS and other_ms % SECOND_MS:
        return one_ms == other_ms
    return one_ms // SECOND_MS == other_ms // SECOND_MS
