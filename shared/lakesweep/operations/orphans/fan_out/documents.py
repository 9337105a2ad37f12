"""The documents that a scan stores, so that any worker can continue it.

scans/<table_key>/<scan_id>/scan.json.gz    parameters of the scan, and its first tasks; never changed
/metadata-*.bin     roots and manifest lists, stored so that the scan reads them only once
/more-*.json.gz     manifests to decode that appeared after the beginning
/tasks/<task id>    findings of a task; the first worker to write them wins
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
from lakesweep.format.values.json_document import MAX_SEPARATORS, SEPARATORS
from lakesweep.model.scan_arguments import OrphanArguments

SCANS = "scans"
FORMAT_VERSION = 1
VALUES_A_BYTE = 10
"""A packed document may hold this many JSON values a byte, plus `MAX_SEPARATORS`: each takes 60 bytes in memory."""
SCAN, STATE, RESULT = "scan.json.gz", "state.json.gz", "result.json"
Json = dict[str, Any]


@dataclass(slots=True)
class State:
    """How far a scan has come."""

    turn: int = 0
    """Number of the last step that ran."""
    looked_ms: int = 0
    """When that step ran."""
    heard_ms: int = 0
    """When a task last reported, or when tasks were last sent."""
    idle: int = 0
    """Number of steps in a row in which no task reported."""
    stage: str = "gather"
    """`gather`, `match`, `owners`."""
    heads: dict[str, Json] = field(default_factory=dict)
    """Task -> facts from its head: `info`, and `spill` if it has rows."""
    more: list[str] = field(default_factory=list)
    """Documents with manifests that appeared later."""
    match: str | None = None
    """Name of the document with the input of the match."""
    owners: list[Json] = field(default_factory=list)
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
    """Read from a document what only a scan has written there.

    Raises:
        FormatError: The document does not have it, or has something else in its place.
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

    def read(self, document: str) -> tuple[Json, str]:
        """Return a document and its ETag.

        Raises:
            ObjectNotFoundError: The document does not exist.
            FormatError: It is damaged, or another version of Lakesweep wrote it.
        """
        body = self.area.read(self.name(document))
        found = from_json_bytes(_unpacked(body.data, self.path(document)), self.path(document), is_bounded=False)
        if found.get("format_version") != FORMAT_VERSION or found.get("code_version") != __version__:
            raise FormatError(
                f"{self.path(document)}: expected a document of lakesweep {__version__}, found "
                f"{found.get('code_version')!r} (format {found.get('format_version')!r}); begin another scan",
                code="other_version",
            )
        return found, body.etag

    def put(
        self, document: str, content: Mapping[str, Any], *, if_absent: bool = False, if_match: str | None = None
    ) -> str:
        """Write a document and return its ETag."""
        full = {"format_version": FORMAT_VERSION, "code_version": __version__, **content}
        packer = zlib.compressobj(level=6, wbits=31)
        data = packer.compress(json.dumps(full, separators=(",", ":")).encode()) + packer.flush()
        return self.area.put(self.name(document), data, if_absent=if_absent, if_match=if_match)

    def tasks(self) -> set[str]:
        """Return the ids of the tasks that have written their findings."""
        folder = self.name("tasks/")
        return {name.removeprefix(folder) for name in self.area.names(folder)}

    def find_scan(self) -> Json | None:
        """Return the parameters of the scan; `None` before it has begun."""
        try:
            return self.read(SCAN)[0]
        except ObjectNotFoundError:
            return None

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
            found, etag = self.read(STATE)
        except ObjectNotFoundError:
            return State(), None
        try:
            return State(**found["state"]), etag
        except (KeyError, TypeError) as error:
            raise FormatError(f"{self.path(STATE)}: expected the state of a scan: {error!r}") from error

    def put_state(self, state: State, etag: str | None) -> str | None:
        """Store the state of the scan and return the new ETag; `None` if another worker was faster."""
        content = {name: getattr(state, name) for name in State.__slots__}
        try:
            return self.put(STATE, {"state": content}, if_absent=etag is None, if_match=etag)
        except PreconditionFailedError:
            return None


def arguments_of(document: Mapping[str, Any], parallelism: int) -> OrphanArguments:
    """Return the arguments that `OrphanArguments.to_json` wrote."""
    return OrphanArguments(
        older_than_ms=document["older_than_ms"],
        no_writers=document["no_writers"],
        no_history=document.get("no_history"),
        quarantine_ms=document["quarantine_ms"],
        parallelism=parallelism,
        owned_external=tuple(document["owned_external"]),
    )


def _unpacked(data: bytes, path: str) -> bytes:
    try:
        found = b"".join(unzipped(data, path))
    except FormatError as error:
        raise FormatError(f"{error}; begin another scan") from error
    values, most = sum(map(found.count, SEPARATORS)), MAX_SEPARATORS + VALUES_A_BYTE * len(data)
    if values > most:
        raise FormatError(f"{path}: expected at most {most} JSON values in {len(data)} bytes, found {values}")
    return found
