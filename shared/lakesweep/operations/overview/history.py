"""The history of a table as the overview draws it: its growth over its snapshots, and its roots in time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def growth_of(snapshots: Sequence[Root], files: DataFiles, incomplete: Iterable[str]) -> tuple[GrowthPoint, ...]:
    """Return how the table grew.

    Args:
        snapshots: Of main, ascending by id.
        files: The data files of all roots.
        incomplete: Paths of roots of which not all files are known.
    """
    chosen = thinned(snapshots, MOST)
    unknown = frozenset(incomplete)
    sizes = files.bytes_of(root.ref.path for root in chosen)
    return tuple(
        GrowthPoint(
            root.snapshot.id,
            root.snapshot.time_ms,
            root.snapshot.total_record_count,
            None if root.ref.path in unknown else sizes.get(root.ref.path),
        )
        for root in chosen
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
        *(_span(roots[ref.path], untils, ref.kind) for ref in main.tags if ref.path in roots),
        *_branches(listing, roots),
        *_consumers(consumers, [roots[ref.path] for ref in main.snapshots if ref.path in roots]),
    ]
    shown = thinned(sorted(others, key=_age), MOST // 2)
    ids = [roots[ref.path] for ref in (*main.changelogs, *main.snapshots) if ref.path in roots]
    ids.sort(key=lambda root: (root.snapshot.time_ms, root.snapshot.id, root.ref.kind))
    spans = (_span(root, untils, root.ref.kind) for root in thinned(ids, MOST - len(shown)))
    return tuple(sorted((*shown, *spans), key=_age))


def _age(span: Span) -> tuple[int, int, str, str]:
    return span.time_ms, span.snapshot_id, span.kind, span.name


def _span(root: Root, untils: Mapping[str, Until], kind: str) -> Span:
    until = untils.get(root.ref.path)
    return Span(
        kind if kind in ("tag", "changelog") else "snapshot",  # type: ignore[arg-type]
        root.ref.name,
        root.snapshot.time_ms,
        root.snapshot.id,
        None if until is None else until.at_ms,
    )


def _branches(listing: TableListing, roots: Mapping[str, Root]) -> Iterator[Span]:
    for branch in listing.branches.values():
        found = [roots[ref.path] for ref in branch.roots() if ref.path in roots]
        if branch.name != MAIN and found:
            oldest = min(found, key=lambda root: (root.snapshot.time_ms, root.snapshot.id))
            yield Span("branch", branch.name, oldest.snapshot.time_ms, oldest.snapshot.id)


def _consumers(consumers: Mapping[str, int], snapshots: Sequence[Root]) -> Iterator[Span]:
    """Yield the consumers whose next snapshot exists, or would be the next one."""
    times = {root.snapshot.id: root.snapshot.time_ms for root in snapshots}
    for name, next_id in sorted(consumers.items()):
        known = [time_ms for snapshot_id, time_ms in times.items() if snapshot_id >= next_id]
        at_ms = min(known, default=max(times.values(), default=None))
        if at_ms is not None:
            yield Span("consumer", name, at_ms, next_id)
