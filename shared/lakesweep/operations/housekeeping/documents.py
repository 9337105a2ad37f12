"""The documents of one table in a control location, by listings alone, and what else decides about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakesweep.control.area import ControlArea, from_json_bytes
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


def runs_of(area: ControlArea, plans: Iterable[str]) -> Mapping[str, tuple[str, ...] | None]:
    """Return plan -> its runs, `None` where its end is damaged; one read for each plan.

    Raises:
        StorageError: A request failed.
    """
    plans = sorted(plans)
    if not plans:
        return {}
    with ThreadPoolExecutor(min(_PARALLEL, len(plans)), thread_name_prefix="housekeeping") as pool:
        return dict(zip(plans, pool.map(lambda plan_id: _runs_of(area, plan_id), plans), strict=True))


def _runs_of(area: ControlArea, plan_id: str) -> tuple[str, ...] | None:
    try:
        end = plan_end(area, plan_id)
    except FormatError:
        return None
    return () if end is None else end.runs


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
