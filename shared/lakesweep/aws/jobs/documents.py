"""The documents of scans on Spark: one document for each scan, and one list of the open scans.

Both are in the control location and are changed only by conditional writes. If two functions read the same state and
continue, one of them finds the other's write. The steps it took before that are harmless when done twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from lakesweep.aws.emr import JobKind
from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.format.values.json_document import (
    get_int,
    get_list,
    get_object,
    get_str,
    require_int,
    require_str,
    wrong_type,
)
from lakesweep.model.table_ref import MAIN
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
    job_run_id: str
    state: str
    details: str


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A scan: first a job plans, then another job executes the plan if this was requested."""

    scan_id: str
    table: str
    branch: str = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    execute: bool = False
    confirm: bool = False
    by_hand: bool = True
    """A person requested it. Otherwise the fleet policy decides whether the plan is executed."""
    kind: JobKind = "plan"
    attempt: int = 1
    job_run_id: str | None = None
    """`None`: the job is still to be started."""
    state_id: str | None = None
    """Id under which the planning job keeps its state; `None`: the scan's own id."""
    state: str = RUNNING
    plan_id: str | None = None
    action_count: int | None = None
    why: str | None = None
    """Reason for this end, in a sentence."""
    code: str | None = None
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
    name = job_name(scan_id)
    body = area.read(name)
    return _job(from_json_bytes(body.data, area.path(name)), area.path(name)), body.etag


def write_job(area: ControlArea, document: JobDocument, etag: str | None) -> str:
    """Replace the document with this ETag, or write the first one.

    Raises:
        PreconditionFailedError: Another function has written it meanwhile.
    """
    data = to_json_bytes({"format_version": JOB_FORMAT_VERSION, **asdict(document)})
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
    document = from_json_bytes(body.data, path)
    _check_version(document, path)
    jobs = get_object(document, "jobs", path)
    if not all(isinstance(table, str) for table in jobs.values()):
        raise FormatError(f"{path}: expected the table of each scan")
    return {scan_id: str(table) for scan_id, table in jobs.items()}, body.etag


def _job(document: dict[str, object], path: str) -> JobDocument:
    _check_version(document, path)
    return JobDocument(
        scan_id=require_str(document, "scan_id", path),
        table=require_str(document, "table", path),
        branch=require_str(document, "branch", path),
        arguments=get_object(document, "arguments", path),
        execute=document.get("execute") is True,
        confirm=document.get("confirm") is True,
        by_hand=document.get("by_hand") is not False,
        kind=_kind(document, path),
        attempt=require_int(document, "attempt", path),
        job_run_id=get_str(document, "job_run_id", path),
        state_id=get_str(document, "state_id", path),
        state=require_str(document, "state", path),
        plan_id=get_str(document, "plan_id", path),
        action_count=get_int(document, "action_count", path),
        why=get_str(document, "why", path),
        code=get_str(document, "code", path),
        ended=tuple(_ended(each, path) for each in get_list(document, "ended", path)),
        created_ms=require_int(document, "created_ms", path),
        updated_ms=require_int(document, "updated_ms", path),
    )


def _check_version(document: dict[str, object], path: str) -> None:
    version = require_int(document, "format_version", path)
    if version != JOB_FORMAT_VERSION:
        raise wrong_type(path, "format_version", str(JOB_FORMAT_VERSION), version)


def _ended(value: object, path: str) -> Ended:
    if not isinstance(value, dict):
        raise wrong_type(path, "ended", "an array of objects", value)
    return Ended(
        kind=_kind(value, path),
        attempt=require_int(value, "attempt", path),
        job_run_id=require_str(value, "job_run_id", path),
        state=require_str(value, "state", path),
        details=require_str(value, "details", path),
    )


def _kind(document: dict[str, object], path: str) -> JobKind:
    kind = require_str(document, "kind", path)
    if kind not in ("plan", "execute"):
        raise wrong_type(path, "kind", "plan or execute", kind)
    return "plan" if kind == "plan" else "execute"
