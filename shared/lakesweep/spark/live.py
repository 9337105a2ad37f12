"""The names that roots refer to. Executors decode them from manifests and store them in parts.

A row is one name in one entry of one manifest. A manifest that is there twice has its rows twice. The match needs every
row: whether an unlisted file is missing depends on which roots hold which entry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import ManifestEntry, ManifestMeta
from lakesweep.spark.parts import Columns, Part, as_bytes, part_of, part_row
from lakesweep.spark.tasks import Access, Row, Task, count_requests, run_tasks
from lakesweep.storage.requests import RequestCounter
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import LiveSet
from lakesweep.table.reach.named_entries import BY_ROOT, named_entries, number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVE_SCHEMA = pa.schema([("name", pa.binary()), ("ident", pa.int64()), ("manifest", pa.int64()), ("flags", pa.int8())])
TASK_BYTES = 64 << 20
"""Size of the manifests of one task."""
_LIVE = "live"
_Names = tuple[list[bytes], list[int], list[int]]


@dataclass(slots=True)
class NamedLiveSet(LiveSet):
    """Names that roots and manifest lists refer to. The names in manifests are in parts."""

    raw: set[str] = field(default_factory=set)

    def note(self, names: Iterable[str]) -> None:
        """Add names that a root refers to."""
        self.raw.update(names)


@dataclass(frozen=True, slots=True)
class DecodeManifests:
    """A task's work: decode some manifests."""

    folder: str

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Write the names of a piece's manifests.

        Yield parts, the manifests that could not be read, and the number of those that were read.
        """
        metas = [
            ManifestMeta(name, size, added, deleted, 0, None, None, ())
            for name, size, added, deleted in piece["manifests"]
        ]
        columns = Columns(task.scans, self.folder, _LIVE, LIVE_SCHEMA)
        reader = MetadataReader(task.store(task.access.table))
        decoded = 0
        for name, content in reader.scan_manifests(metas, _names):
            if isinstance(content, Unreadable):
                yield {"manifest": name, "path": content.path, "problem": content.problem, "missing": content.missing}
                continue
            decoded += 1
            names, idents, flags = content
            columns.extend((names, idents, [number_of(name)] * len(names), flags))
            yield from map(part_row, columns.full())
        yield from map(part_row, columns.rest())
        yield {"decoded": decoded}


def _names(entries: Iterator[ManifestEntry]) -> _Names:
    names: list[bytes] = []
    idents: list[int] = []
    flags: list[int] = []
    for name, ident, flag in named_entries(entries):
        names.append(as_bytes(name))
        idents.append(ident)
        flags.append(flag)
    return names, idents, flags


@dataclass(slots=True)
class SparkDecode:
    """Decodes manifests on executors; see `lakesweep.table.reach.live_set.Decode`."""

    session: "SparkSession"
    access: Access
    folder: str
    counter: RequestCounter
    on_parts: Callable[[Sequence[str], Sequence[Part]], None]
    """Called with the manifests that were read and the parts with their names, before the caller learns of them."""

    def __call__(
        self,
        reader: MetadataReader,
        metas: Iterable[ManifestMeta],
        note: Callable[[Iterator[ManifestEntry]], None],
    ) -> Iterator[tuple[str, Unreadable | None]]:
        """Decode manifests. `note` is not called, since the names are in parts.

        Raises:
            MaintenanceError: Tasks read fewer manifests than there are. The files of the others would look like
                orphans.
        """
        metas = list({meta.file_name: meta for meta in metas}.values())
        parts: list[Part] = []
        problems: dict[str, Unreadable] = {}
        decoded = 0
        at_once = 2 * self.session.sparkContext.defaultParallelism
        pieces = list(_pieces(metas, min(TASK_BYTES, sum(meta.file_size for meta in metas) // at_once)))
        answers = run_tasks(self.session, self.access, DecodeManifests(self.folder), pieces)
        for row in count_requests(self.counter, answers):
            if "part" in row:
                parts.append(part_of(row))
            elif "decoded" in row:
                decoded += row["decoded"]
            else:
                problems[row["manifest"]] = Unreadable(row["path"], row["problem"], row["missing"])
        if decoded + len(problems) != len(metas):
            raise MaintenanceError(
                f"Spark: expected names of {len(metas)} manifests, found {decoded} and {len(problems)} unreadable; "
                "nothing was changed, and another attempt with the same scan id continues the scan",
                code="spark_failed",
            )
        self.on_parts([meta.file_name for meta in metas if meta.file_name not in problems], parts)
        for meta in metas:
            yield meta.file_name, problems.get(meta.file_name)


def write_own_names(area: ControlArea, folder: str, live: NamedLiveSet) -> Iterator[Part]:
    """Write the names that roots and manifest lists refer to."""
    columns = Columns(area, folder, _LIVE, LIVE_SCHEMA)
    for name in sorted(live.raw):
        columns.add(as_bytes(name), 0, 0, BY_ROOT)
        yield from columns.full()
    yield from columns.rest()


def _pieces(metas: Iterable[ManifestMeta], piece_bytes: int) -> Iterator[Row]:
    """Yield manifests in pieces of about this many bytes."""
    piece: list[list[object]] = []
    size = 0
    for meta in metas:
        if piece and size + meta.file_size > piece_bytes:
            yield {"manifests": piece}
            piece, size = [], 0
        piece.append([meta.file_name, meta.file_size, meta.added_count, meta.deleted_count])
        size += meta.file_size
    if piece:
        yield {"manifests": piece}
