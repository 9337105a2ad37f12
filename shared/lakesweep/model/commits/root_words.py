"""Roots in words: `snapshots 1 to 3`, `tag jan of branch b`."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from lakesweep.model.roots import MAIN, RootRef


def roots_in_words(refs: Iterable[RootRef]) -> Iterator[str]:
    """Yield roots in words, in their order; snapshots and changelogs with following ids together."""
    for (branch, kind), group in groupby(refs, key=lambda ref: (ref.branch, ref.kind)):
        of = "" if branch == MAIN else f" of branch {branch}"
        same = list(group)
        if kind == "tag":
            yield from (f"tag {ref.name}{of}" for ref in same)
            continue
        for first, last in _ranges([ref.id for ref in same]):
            yield f"{kind} {first}{of}" if first == last else f"{kind}s {first} to {last}{of}"


def _ranges(ids: list[int]) -> Iterator[tuple[int, int]]:
    first = last = ids[0]
    for number in ids[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
