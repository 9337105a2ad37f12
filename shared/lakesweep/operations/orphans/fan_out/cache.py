"""The index of a table's segments: `index.json.gz` beside them.

The index is only a cache. Lakesweep does not use a segment that the index lacks. If the index names a segment that no
longer exists, Lakesweep decodes its manifests again. So a damaged index counts as empty. If two scans write it at the
same time, the second one gives up.

An index is valid for one version of this package. A later version may know of names in manifests that an earlier one
did not collect. With segments of the earlier version it would take these files for orphans.
"""

import json
import re
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from lakesweep import __version__
from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.format.codec import Check, Count, from_json
from lakesweep.model.safety import SEGMENT_REWRITE_MS, SEGMENT_UNSAFE_MS

INDEX = "index.json.gz"
INDEX_VERSION = 1
DAY_MS = 86_400_000
SMALL_ROWS = 50_000
MANY_SMALL = 16
"""So many small segments are left as they are: reading one costs a request or two, but copying costs requests, too."""
MAX_SEGMENTS = 400
MAX_MANIFESTS = 200_000
"""Most manifests that the index names. Beyond that the oldest segments are dropped."""
MAX_INDEX_BYTES = 64 << 20
_NAME = re.compile(rf"(?!{re.escape(INDEX)}\Z)[A-Za-z0-9_-][A-Za-z0-9._-]{{0,199}}")
_Row = tuple[Annotated[str, Check(_NAME.fullmatch, "the name of a segment")], Count, int, tuple[str, ...]]
"""Name, rows, time of creation and manifests of a segment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment."""

    name: str
    """Name in the area that holds the table's names."""
    manifests: tuple[str, ...]
    """Names of the manifests, in the order of their numbers."""
    rows: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What a scan does with existing segments. Segments that are in neither list are useless and are dropped."""

    kept: tuple[Segment, ...]
    rewritten: tuple[Segment, ...]
    """Segments whose rows are copied into a new segment, which this scan then reads."""


def read_index(area: ControlArea, identity: str | None = None) -> tuple[tuple[Segment, ...], str | None]:
    """Return the segments that earlier scans wrote, and the ETag of the index; the ETag is `None` without an index.

    Args:
        area: The area that holds the table's names.
        identity: Identity of the table as it is now. Segments of an earlier table at this location do not count.
            `None` accepts segments of any table at this location.

    Raises:
        StorageError: A request failed for another reason than absence.
    """
    try:
        body = area.read(INDEX)
    except ObjectNotFoundError:
        return (), None
    try:
        return _decoded(body.data, area.table, identity), body.etag
    except (FormatError, zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return (), body.etag


def write_index(area: ControlArea, segments: Iterable[Segment], etag: str | None, identity: str = "") -> bool:
    """Replace the index, unless it changed since it was read; tell whether it was replaced.

    Args:
        area: The area that holds the table's names.
        segments: All segments that the new index names.
        etag: From `read_index`.
        identity: Identity of the table.

    Raises:
        StorageError: The request failed.
    """
    data = _encoded(_within_bounds(segments), area.table, identity)
    try:
        area.put(INDEX, data, if_absent=etag is None, if_match=etag)
    except PreconditionFailedError:
        return False
    return True


def choose(segments: Iterable[Segment], alive: Collection[str], now_ms: int) -> Choice:
    """Choose which segments to use as they are, and which to rewrite.

    A segment is rewritten in three cases: it is old, less than half of its manifests are useful, or it is one of many
    small segments. A manifest is useful if it is alive and in no segment chosen before. A segment without useful
    manifests is dropped.

    Args:
        segments: From `read_index`.
        alive: Names of the manifests that some root names.
        now_ms: Now.
    """
    kept: list[Segment] = []
    rewritten: list[Segment] = []
    covered: set[str] = set()
    for segment in sorted(segments, key=lambda each: (-each.rows, each.name)):
        age_ms = now_ms - segment.created_ms
        useful = [name for name in segment.manifests if name in alive and name not in covered]
        if not useful or age_ms >= SEGMENT_UNSAFE_MS:
            continue
        covered.update(useful)
        is_stale = age_ms >= SEGMENT_REWRITE_MS or 2 * len(useful) < len(segment.manifests)
        (rewritten if is_stale else kept).append(segment)
    small = [segment for segment in kept if segment.rows < SMALL_ROWS]
    if len(small) > MANY_SMALL:
        kept = [segment for segment in kept if segment.rows >= SMALL_ROWS]
        rewritten += small
    return Choice(tuple(kept), tuple(rewritten))


def _within_bounds(segments: Iterable[Segment]) -> list[Segment]:
    chosen: list[Segment] = []
    manifests = 0
    for segment in sorted(segments, key=lambda each: (-each.created_ms, each.name)):
        manifests += len(segment.manifests)
        if len(chosen) < MAX_SEGMENTS and manifests <= MAX_MANIFESTS:
            chosen.append(segment)
    return chosen


def _encoded(segments: Sequence[Segment], table: str, identity: str) -> bytes:
    rows = [[each.name, each.rows, each.created_ms, each.manifests] for each in segments]
    versions = {"format_version": INDEX_VERSION, "code_version": __version__}
    document = {**versions, "table": table, "identity": identity, "segments": rows}
    packer = zlib.compressobj(level=6, wbits=31)
    return packer.compress(json.dumps(document, separators=(",", ":")).encode()) + packer.flush()


def _decoded(data: bytes, table: str, identity: str | None) -> tuple[Segment, ...]:
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(data, MAX_INDEX_BYTES)
    if not unzip.eof:
        raise ValueError("cut off or too large")
    document = json.loads(text)
    if document["format_version"] != INDEX_VERSION or document["table"] != table:
        return ()
    if identity is not None and document["identity"] != identity:
        return ()
    if document["code_version"] != __version__:
        return ()  # an earlier version may not have known all names that an entry can have
    rows = from_json(tuple[_Row, ...], document["segments"], INDEX)
    return tuple(Segment(name, manifests, count, created_ms) for name, count, created_ms, manifests in rows)
