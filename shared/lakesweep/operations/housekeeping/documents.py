"""The documents of one table in a control location, by listings alone, and what else decides about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakesweep.control.area import ControlArea, from_json_bytes
from lakesweep.control.erasures import FOLDER
from lakesweep.control.lease import LeaseDocument
from lakesweep.control.ledger_rows import time_of
from lakesweep.control.plans import load_header
from lakesweep.control.reports import load_report, plan_end
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.model.housekeeping import PLACES, Document, Going, Kind
from lakesweep.operations.housekeeping.rules.kinds import HEADER, kind_of
from lakesweep.storage.store import Store

_PARALLEL = 16
_OPEN_JOBS = "spark-jobs.json"
DAMAGED = "damaged"
"""Reason to keep a document that cannot be read."""


def documents_of(control: Store, key: str) -> tuple[Document, ...]:
    """Return all documents of a table.

    Args:
        control: The control location.
        key: The name of the table's folders there.

    Raises:
        StorageError: A page failed.
    """
    return tuple(_documents(control, key))


def _documents(control: Store, key: str) -> Iterator[Document]:
    for place in PLACES:
        prefix = f"{place}/{key}/"
        for entry in control.list(prefix):
            name = entry.key.removeprefix(prefix)
            kind, group = kind_of(place, name)
            kind = "foreign" if entry.is_link else kind
            yield Document(place, name, entry.size_bytes, entry.etag, entry.modified_ms, kind, group)


def times_of(documents: Iterable[Document]) -> Mapping[str, int]:
    """Return group -> the time that its name begins with, where it does."""
    found = {each.group: time_of(each.group) for each in documents}
    return {group: time_ms for group, time_ms in found.items() if time_ms is not None}


def named_by(lease: LeaseDocument) -> frozenset[str]:
    """Return the runs and plans that a lease names."""
    of_intent = () if lease.intent is None else (lease.intent.plan_id, *lease.intent.runs)
    holder = (lease.run_id,) if lease.expires_ms else ()
    return frozenset((*holder, *of_intent, *(record.run_id for record in lease.commits.values())))


def open_jobs(control: Store) -> frozenset[str]:
    """Return the ids of scans and jobs on Spark that have not ended.

    Raises:
        FormatError: The list of them is damaged.
    """
    try:
        body = control.read(_OPEN_JOBS)
    except ObjectNotFoundError:
        return frozenset()
    path = f"{control.location}/{_OPEN_JOBS}"
    jobs = from_json_bytes(body.data, path).get("jobs")
    if not isinstance(jobs, dict):
        raise FormatError(f"{path}: expected the open scans in jobs")
    return frozenset(map(str, jobs))


def to_read(going: Iterable[Going]) -> list[tuple[Kind, str]]:
    """Return kind and id of the plans and reports that are read before they go."""
    going = tuple(going)
    with_header = {each.document.group for each in going if each.document.name.endswith(f"/{HEADER}")}
    found = dict.fromkeys((each.document.kind, each.document.group) for each in going)
    return [each for each in found if each[0] == "report" or (each[0] == "plan" and each[1] in with_header)]


def why_they_stay(area: ControlArea, asked: Sequence[tuple[Kind, str]], now_ms: int) -> Mapping[tuple[Kind, str], str]:
    """Return why plans and reports stay, for damage or for what they themselves say; empty for one that may go.

    Two or three reads for each plan, one for each report; nothing is read of what stays. Whoever damaged a document
    would otherwise have its traces removed.

    Raises:
        StorageError: A request failed.
    """
    if not asked:
        return {}
    area = replace(area, sealer=None)  # plans from before there was a key may go, too

    def answer(each: tuple[Kind, str]) -> str:
        return _why_plan_stays(area, each[1], now_ms) if each[0] == "plan" else _why_report_stays(area, each[1])

    with ThreadPoolExecutor(min(_PARALLEL, len(asked)), thread_name_prefix="housekeeping") as pool:
        return dict(zip(asked, pool.map(answer, asked), strict=True))


def runs_of(area: ControlArea, asked: Iterable[tuple[Kind, str]]) -> Mapping[tuple[Kind, str], frozenset[str] | None]:
    """Return plan or erasure -> the runs that it names, `None` where it is damaged.

    One read for each plan, one for each document of an erasure.

    Raises:
        StorageError: A request failed.
    """
    asked = sorted(asked)
    if not asked:
        return {}

    def answer(each: tuple[Kind, str]) -> frozenset[str] | None:
        try:
            return _runs_of_plan(area, each[1]) if each[0] == "plan" else _runs_of_erasure(area, each[1])
        except FormatError:
            return None

    with ThreadPoolExecutor(min(_PARALLEL, len(asked)), thread_name_prefix="housekeeping") as pool:
        return dict(zip(asked, pool.map(answer, asked), strict=True))


def _runs_of_plan(area: ControlArea, plan_id: str) -> frozenset[str]:
    end = plan_end(area, plan_id)
    return frozenset() if end is None else frozenset(end.runs)


def _runs_of_erasure(area: ControlArea, run_id: str) -> frozenset[str]:
    """Return the runs that any document of an erasure names, whether or not the record is whole."""
    found: set[str] = set()
    for name in area.names(f"{FOLDER}{run_id}/"):
        path = area.path(name)
        fact = from_json_bytes(area.read(name).data, path).get("fact")
        if not isinstance(fact, dict):
            raise FormatError(f"{path}: expected a fact of an erasure")
        found.update([str(fact["run_id"])] if fact.get("run_id") is not None else [])
    return frozenset(found)


def _why_plan_stays(area: ControlArea, plan_id: str, now_ms: int) -> str:
    try:
        if load_header(area, plan_id).expires_ms > now_ms:
            return "young"
        end = plan_end(area, plan_id)
    except (FormatError, RefusedError):
        return DAMAGED
    return "unfinished" if end is not None and end.status == "partial" else ""


def _why_report_stays(area: ControlArea, run_id: str) -> str:
    try:
        load_report(area, run_id)
    except (FormatError, RefusedError):
        return DAMAGED
    return ""
