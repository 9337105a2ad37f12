"""The history of a table as the overview draws it: its growth over its snapshots, and its roots in time."""

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TypeVar

from lakesweep.model.overview import GrowthPoint, Span
from lakesweep.model.roots import MAIN, Root, TableListing
from lakesweep.operations.lifetimes.until import Until
from lakesweep.operations.overview.data_files import DataFiles

T = TypeVar("T")

MOST = 60
"""Points of the growth, and spans of the timeline."""


def thinned(found: Sequence[T], most: int) -> tuple[T, ...]:
    """Return at most so many values, evenly spread; the first and the last are among them."""
    if len(found) <= most:
        return tuple(found)
    if most < 2:
        return tuple(found[-1:]) if most else ()
    return tuple(found[number * (len(found) - 1) // (most - 1)] for number in range(most))


def growth_of(snapshots: Sequence[Root], files: DataFiles, incomplete: Container[str]) -> tuple[GrowthPoint, ...]:
    """Return how the table grew.

    Args:
        snapshots: Of main, ascending by id.
        files: The data files of all roots.
        incomplete: Paths of roots of which not all files are known.
    """
    return tuple(
        GrowthPoint(
            root.snapshot.id,
            root.snapshot.time_ms,
            root.snapshot.total_record_count,
            None if root.ref.path in incomplete else files.bytes_of(root.ref.path),
        )
        for root in thinned(snapshots, MOST)
    )


def timeline_of(
    listing: TableListing,
    roots: Mapping[str, Root],
    untils: Mapping[str, Until],
    consumers: Mapping[str, int],
) -> tuple[Span, ...]:
    """Return the roots of a table in time.

    Args:
        listing: All roots.
        roots: By path.
        untils: How long each root is kept, by path.
        consumers: Of main: name -> the next snapshot that it reads.
    """
    main = listing.branches[MAIN]
    others = [
        *(_span(roots[ref.path], untils) for ref in main.tags),
        *_branches(listing, roots),
        *_consumers(consumers, [roots[ref.path] for ref in main.snapshots]),
    ]
    shown = thinned(sorted(others, key=_age), MOST // 2)
    ids = [roots[ref.path] for ref in (*main.changelogs, *main.snapshots)]
    ids.sort(key=lambda root: (root.snapshot.time_ms, root.snapshot.id, root.ref.kind))
    spans = (_span(root, untils) for root in thinned(ids, MOST - len(shown)))
    return tuple(sorted((*shown, *spans), key=_age))


def _age(span: Span) -> tuple[int, int, str, str]:
    return span.time_ms, span.snapshot_id, span.kind, span.name


def _span(root: Root, untils: Mapping[str, Until]) -> Span:
    return Span(root.ref.kind, root.ref.name, root.snapshot.time_ms, root.snapshot.id, untils[root.ref.path].at_ms)


def _branches(listing: TableListing, roots: Mapping[str, Root]) -> Iterator[Span]:
    for branch in listing.branches.values():
        found = [roots[ref.path] for ref in branch.roots()]
        if branch.name != MAIN and found:
            oldest = min(found, key=lambda root: (root.snapshot.time_ms, root.snapshot.id))
            yield Span("branch", branch.name, oldest.snapshot.time_ms, oldest.snapshot.id)


def _consumers(consumers: Mapping[str, int], snapshots: Sequence[Root]) -> Iterator[Span]:
    """Yield consumers, each where its next snapshot is, or the newest if that is yet to come."""
    ids = [root.snapshot.id for root in snapshots]
    for name, next_id in consumers.items():
        if snapshots:
            at = min(bisect_left(ids, next_id), len(snapshots) - 1)
            yield Span("consumer", name, snapshots[at].snapshot.time_ms, next_id)
