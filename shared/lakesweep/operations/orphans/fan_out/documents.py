"""The documents that a scan stores, so that any worker can continue it.

scans/<table_key>/<scan_id>/scan.json.gz    parameters of the scan, and its first tasks; never changed
/metadata-*.bin     roots and manifest lists, stored so that the scan reads them only once
/more-*.json.gz     manifests to decode that appeared after the beginning
/tasks/<task id>    findings of a task (`heads`); the first worker to write them wins
/match-*.json.gz    input of a match
/state.json.gz      progress of the scan; conditional writes
/result.json        how the scan ended
names/<table_key>/<scan_id>.<task id>       names that a task decoded, for this scan and for later ones
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lakesweep import __version__
from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.control.ndjson import unzipped
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.format.codec import from_json, to_json
from lakesweep.format.values.json_document import MAX_SEPARATORS, SEPARATORS
from lakesweep.model.paths.layout import Layout
from lakesweep.model.roots import TableListing
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.fan_out.heads import Head, Hex
from lakesweep.operations.orphans.fan_out.limits import DECODE_ENTRIES, DECODE_MANIFESTS
from lakesweep.operations.orphans.fan_out.spill import Spill
from lakesweep.operations.orphans.fan_out.tasks import MatchTask, Task
from lakesweep.operations.orphans.listing import ManifestRow, Place

SCANS = "scans"
FORMAT_VERSION = 2
VALUES_A_BYTE = 10
"""A packed document may hold this many JSON values a byte, plus `MAX_SEPARATORS`: each takes 60 bytes in memory."""
SCAN, STATE, RESULT = "scan.json.gz", "state.json.gz", "result.json"
Json = dict[str, Any]


@dataclass(slots=True)
class DecodeWork:
    """What one task decodes."""

    manifests: list[ManifestRow] = field(default_factory=list)
    segments: list[tuple[str, list[ManifestRow]]] = field(default_factory=list)
    """Segments whose rows are copied, each with the manifests to copy."""
    entries: int = 0

    def has_room(self, entries: int) -> bool:
        """Tell whether the task can take this many more entries."""
        return not self.entries or (self.entries + entries <= DECODE_ENTRIES and len(self.manifests) < DECODE_MANIFESTS)


@dataclass(frozen=True, slots=True)
class Scan:
    """The parameters of a scan, and its first tasks."""

    table: str
    branch: str
    scan_id: str
    identity: str
    """Tells the table from an earlier one at the same location."""
    now_ms: int
    """Read before the first root."""
    cutoff_ms: int
    arguments: OrphanArguments
    layout: Layout
    places: tuple[Place, ...]
    tasks: tuple[Task, ...]
    decode: Mapping[str, DecodeWork]
    segments: tuple[str, ...]
    """Segments of earlier scans that are used as they are."""
    doubted: frozenset[str]
    """Manifests in segments that count only once a task has decoded them again."""
    basis: Mapping[str, object]
    """Additional facts for the result."""
    entries: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class More:
    """Manifests to decode that appeared after the beginning."""

    decode: Mapping[str, DecodeWork]
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Captured:
    """What later steps need to know of a capture; see `lakesweep.table.reach.live_set.LiveSet`."""

    listing: TableListing
    captured: dict[str, str]
    damaged: dict[str, str]
    incomplete: dict[str, str]
    manifests: set[str]
    tagged: set[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Source:
    """Names, or objects, that take part in a match."""

    name: str
    spill: Spill
    held: tuple[int, ...] | None = None
    """For names in manifests: the number of each manifest's holding, or `DEAD`. `None` for other sources."""
    manifests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The input of a match."""

    capture: Captured
    metadata: str
    """Name of the document with roots and manifest lists."""
    plan_id: str
    quarantine_before_ms: int | None
    gathered_ms: int
    nested: tuple[str, ...]
    names: tuple[Source, ...]
    """Segments."""
    own_names: tuple[Source, ...]
    """Names that only this scan uses."""
    objects: tuple[Source, ...]
    holdings: tuple[tuple[Hex, Hex, Hex], ...]
    """See `lakesweep.operations.orphans.judging.Holding`; the numbers may have more than 64 bits."""
    entries_here: int
    tasks: tuple[MatchTask, ...]


@dataclass(slots=True)
class State:
    """How far a scan has come."""

    step: int = 0
    """Number of the last step that ran."""
    looked_ms: int = 0
    """When that step ran."""
    heard_ms: int = 0
    """When a task last reported, or when tasks were last sent."""
    idle: int = 0
    """Number of steps in a row in which no task reported."""
    heads: dict[str, tuple[Head, Spill]] = field(default_factory=dict)
    """What each task has written, without the rows."""
    more: list[str] = field(default_factory=list)
    """Documents with manifests that appeared later."""
    match: str | None = None
    """Name of the document with the input of the match."""
    owners: list[MatchTask] = field(default_factory=list)
    """Tasks of the second match."""
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    """Step -> kind -> requests of `begin` and of the scan steps."""

    def count(self, step: str, requests: Mapping[str, int]) -> None:
        """Add requests of a step."""
        counts = self.requests.setdefault(step, {})
        for kind, count in requests.items():
            counts[kind] = counts.get(kind, 0) + count


@contextmanager
def understood(path: str) -> Iterator[None]:
    """Use documents of a scan that name each other: tasks, places, sources.

    Raises:
        FormatError: A document names something that no other document has.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path}: expected what a scan has written there, found {error!r}; begin another scan"
        ) from error


@dataclass(frozen=True, slots=True)
class ScanDocuments:
    """The documents of one scan."""

    area: ControlArea
    """The area that holds the table's scans."""
    scan_id: str

    @classmethod
    def of(cls, area: ControlArea, scan_id: str) -> "ScanDocuments":
        """Return the documents of a scan of the table that the area belongs to."""
        return cls(replace(area, root=SCANS), scan_id)

    def name(self, document: str) -> str:
        """Return a document's name in the area."""
        return f"{self.scan_id}/{document}"

    def key(self, document: str) -> str:
        """Return a document's key in the area's store."""
        return self.area.prefix + self.name(document)

    def path(self, document: str) -> str:
        """Return a document's path, for messages."""
        return self.area.path(self.name(document))

    def read(self, kind: Any, document: str) -> tuple[Any, str]:
        """Return the value in a document, and the document's ETag.

        Raises:
            ObjectNotFoundError: The document does not exist.
            FormatError: It is damaged, of another kind, or another version of Lakesweep wrote it.
        """
        body, path = self.area.read(self.name(document)), self.path(document)
        found = from_json_bytes(_unpacked(body.data, path), path, is_bounded=False)
        format_version, code_version = found.pop("format_version", None), found.pop("code_version", None)
        if format_version != FORMAT_VERSION or code_version != __version__:
            raise FormatError(
                f"{path}: expected a document of lakesweep {__version__}, found {code_version!r} "
                f"(format {format_version!r}); begin another scan",
                code="other_version",
            )
        try:
            return from_json(kind, found, path), body.etag
        except FormatError as error:
            raise FormatError(f"{error}; begin another scan") from error

    def put(self, document: str, content: object, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write a document and return its ETag."""
        full = {"format_version": FORMAT_VERSION, "code_version": __version__, **to_json(content)}
        packer = zlib.compressobj(level=6, wbits=31)
        data = packer.compress(json.dumps(full, separators=(",", ":")).encode()) + packer.flush()
        return self.area.put(self.name(document), data, if_absent=if_absent, if_match=if_match)

    def tasks(self) -> set[str]:
        """Return the ids of the tasks that have written their findings."""
        folder = self.name("tasks/")
        return {name.removeprefix(folder) for name in self.area.names(folder)}

    def find_scan(self) -> Scan | None:
        """Return the parameters of the scan; `None` before it has begun."""
        try:
            found: Scan = self.read(Scan, SCAN)[0]
        except ObjectNotFoundError:
            return None
        return found

    def find_result(self) -> Json | None:
        """Return how the scan ended; `None` while it goes on.

        Raises:
            FormatError: The document is damaged.
        """
        try:
            return from_json_bytes(self.area.read(self.name(RESULT)).data, self.path(RESULT))
        except ObjectNotFoundError:
            return None

    def put_result(self, result: Mapping[str, Any]) -> Json:
        """Store how the scan ended, unless another worker already did; return the stored result."""
        try:
            self.area.put(self.name(RESULT), to_json_bytes(result), if_absent=True)
        except PreconditionFailedError:
            return self.find_result() or dict(result)
        return dict(result)

    def find_state(self) -> tuple[State, str | None]:
        """Return the state of the scan, and the ETag that a replacement of it has to match."""
        try:
            return self.read(State, STATE)
        except ObjectNotFoundError:
            return State(), None

    def put_state(self, state: State, etag: str | None) -> str | None:
        """Store the state of the scan and return the new ETag; `None` if another worker was faster."""
        try:
            return self.put(STATE, state, if_absent=etag is None, if_match=etag)
        except PreconditionFailedError:
            return None


def _unpacked(data: bytes, path: str) -> bytes:
    try:
        found = b"".join(unzipped(data, path))
    except FormatError as error:
        raise FormatError(f"{error}; begin another scan") from error
    values, most = sum(map(found.count, SEPARATORS)), MAX_SEPARATORS + VALUES_A_BYTE * len(data)
    if values > most:
        raise FormatError(f"{path}: expected at most {most} JSON values in {len(data)} bytes, found {values}")
    return found
