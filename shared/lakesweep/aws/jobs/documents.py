"""The documents of scans on Spark: one document for each scan, and one list of the open scans.

Both are in the control location and are changed only by conditional writes. If two functions read the same state and
continue, one of them finds the other's write. The steps it took before that are harmless when done twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakesweep.aws.emr import ENTRY_POINTS, JobKind
from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.format.codec import Text, from_json, to_json
from lakesweep.format.values.json_document import wrong_type
from lakesweep.model.roots import MAIN
from lakesweep.storage.store import Store

JOB_FORMAT_VERSION = 1
RUNNING = "running"
PLANNED = "planned"
"""The plan is stored. It is not executed automatically."""
HANDED_OVER = "handed_over"
"""The plan is small, so the function that executes plans received it."""
EXECUTED = "executed"
REFUSED = "refused"
CANCELLED = "cancelled"
FAILED = "failed"
ENDS = frozenset({PLANNED, HANDED_OVER, EXECUTED, REFUSED, CANCELLED, FAILED})

_OPEN = "spark-jobs.json"
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Ended:
    """How one attempt ended."""

    kind: JobKind
    attempt: int
    job_run_id: Text
    state: Text
    details: Text


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A scan: first a job plans, then another job executes the plan if this was requested.

    Or an operation that one job carries out, or its dry run.
    """

    scan_id: Text
    table: Text
    branch: Text = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    execute: bool = False
    confirm: bool = False
    manual: bool = True
    """A person requested it. Otherwise the fleet policy decides whether the plan is executed."""
    kind: JobKind = "plan"
    operation: Text | None = None
    """For `run`."""
    attempt: int = 1
    job_run_id: Text | None = None
    """`None`: the job is still to be started."""
    state_id: Text | None = None
    """Id under which the planning job keeps its state; `None`: the scan's own id."""
    state: Text = RUNNING
    plan_id: Text | None = None
    action_count: int | None = None
    why: Text | None = None
    """Reason for this end, in a sentence."""
    code: Text | None = None
    ended: tuple[Ended, ...] = ()
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def is_over(self) -> bool:
        """Tell whether the scan has ended."""
        return self.state in ENDS


def job_name(scan_id: str) -> str:
    """Return the name of a scan's document in its table's area."""
    return f"jobs/{scan_id}.json"


def read_job(area: ControlArea, scan_id: str) -> tuple[JobDocument, str]:
    """Return a document and its ETag.

    Raises:
        ObjectNotFoundError: The document does not exist.
        FormatError: It is damaged, or of a later version.
    """
    body, path = area.read(job_name(scan_id)), area.path(job_name(scan_id))
    document = from_json(JobDocument, _content(from_json_bytes(body.data, path), path), path)
    names = sorted(ENTRY_POINTS.keys() - {"plan", "execute"})
    if document.operation not in (names if document.kind == "run" else [None]):
        raise wrong_type(path, "operation", f"one of {', '.join(names)} for the kind run alone", document.operation)
    return document, body.etag


def write_job(area: ControlArea, document: JobDocument, etag: str | None) -> str:
    """Replace the document with this ETag, or write the first one.

    Raises:
        PreconditionFailedError: Another function has written it meanwhile.
    """
    data = to_json_bytes({"format_version": JOB_FORMAT_VERSION, **to_json(document)})
    return area.put(job_name(document.scan_id), data, if_absent=etag is None, if_match=etag)


def read_open(control: Store) -> dict[str, str]:
    """Return the open scans: id -> table."""
    return _open(control)[0]


def note_open(control: Store, scan_id: str, table: str) -> None:
    """Add a scan to the list before its first job starts, so that it is looked after even if no event arrives."""
    _change(control, lambda jobs: {**jobs, scan_id: table})


def note_over(control: Store, scan_id: str) -> None:
    """Remove a scan from the list."""
    _change(control, lambda jobs: {each: table for each, table in jobs.items() if each != scan_id})


def _change(control: Store, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    for _ in range(_TRIES):
        jobs, etag = _open(control)
        wanted = change(jobs)
        if wanted == jobs:
            return
        try:
            data = to_json_bytes({"format_version": JOB_FORMAT_VERSION, "jobs": wanted})
            control.put(_OPEN, data, if_absent=etag is None, if_match=etag)
            return
        except PreconditionFailedError:
            continue
    raise StorageError(f"{control.location}/{_OPEN}: others changed it {_TRIES} times in a row", code="contended")


def _open(control: Store) -> tuple[dict[str, str], str | None]:
    try:
        body = control.read(_OPEN)
    except ObjectNotFoundError:
        return {}, None
    path = f"{control.location}/{_OPEN}"
    content = _content(from_json_bytes(body.data, path), path)
    return from_json(dict[str, str], content.get("jobs"), path, "jobs"), body.etag


def _content(document: dict[str, object], path: str) -> dict[str, object]:
    """Return a document without its version, after a check."""
    version = document.pop("format_version", None)
    if version != JOB_FORMAT_VERSION:
        raise wrong_type(path, "format_version", str(JOB_FORMAT_VERSION), version)
    return document
