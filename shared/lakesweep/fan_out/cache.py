"""Which segments a table has: `index.json.gz` beside them.

The index is a memory, and not a record: a segment that it does not name is not used, and one that it names in vain is
found to be gone, and its manifests are decoded again. So a damaged index is an empty one, and of two scans that write
it at once the second one may give up.

It is of one version of this package. A later one may know of names in manifests that an earlier one did not, and would
take the files for orphans.
"""

import json
import re
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakesweep import __version__
from lakesweep.control.area import ControlArea
from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError

INDEX = "index.json.gz"
INDEX_VERSION = 1
DAY_MS = 86_400_000
REWRITE_AFTER_MS = 20 * DAY_MS
"""Half of the time after which a rule of the bucket removes a segment: one scan a week has two chances to copy it."""
UNSAFE_AFTER_MS = 38 * DAY_MS
"""A segment so old may vanish while it is copied."""
SMALL_ROWS = 50_000
MANY_SMALL = 16
"""So many small segments are left alone: each costs a request or two, and copying them costs that, too."""
MAX_SEGMENTS = 400
MAX_MANIFESTS = 200_000
"""What the index names at most. Of more, the oldest are forgotten."""
MAX_INDEX_BYTES = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment."""

    name: str
    """In the area with the names of its table."""
    manifests: tuple[str, ...]
    """In the order of their numbers."""
    rows: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What a scan does with the segments there are. Those in neither are of no use, and are forgotten."""

    kept: tuple[Segment, ...]
    rewritten: tuple[Segment, ...]
    """Their rows are copied into another segment; this scan reads that one."""


def read_index(area: ControlArea, identity: str | None = None) -> tuple[tuple[Segment, ...], str | None]:
    """Return the segments that earlier scans wrote, and the ETag of the index; `None`: there is no index.

    Args:
        area: With the names of one table.
        identity: Of the table as it is now. Segments of another one that was here before do not count. `None`:
            whichever they are of.

    Raises:
        StorageError: A request failed for another reason than absence.
    """
    try:
        body = area.read(INDEX)
    except ObjectNotFoundError:
        return (), None
    try:
        return _decoded(body.data, area.table, identity), body.etag
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return (), body.etag


def write_index(area: ControlArea, segments: Iterable[Segment], etag: str | None, identity: str = "") -> bool:
    """Replace the index, and tell whether that was done: not when it is another one than was read.

    Args:
        area: With the names of one table.
        segments: All that it shall name.
        etag: From `read_index`.
        identity: Of the table.

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

    A segment is rewritten when it is old, when less than half of its manifests are of use (alive, and in no segment
    that was chosen before), and when it is one of many small ones. One without any is forgotten.

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
        if not useful or age_ms >= UNSAFE_AFTER_MS:
            continue
        covered.update(useful)
        is_stale = age_ms >= REWRITE_AFTER_MS or 2 * len(useful) < len(segment.manifests)
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
        return ()  # it may not have known of all names that an entry can have
    return tuple(_segment(*row) for row in document["segments"])


def _segment(name: object, rows: object, created_ms: object, manifests: object) -> Segment:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == INDEX:
        raise ValueError("no name of a segment")
    if type(rows) is not int or rows < 0 or type(created_ms) is not int or not isinstance(manifests, list):
        raise ValueError("no segment")
    if not all(isinstance(manifest, str) for manifest in manifests):
        raise ValueError("no names of manifests")
    return Segment(name, tuple(manifests), rows, created_ms)
