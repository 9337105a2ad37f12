"""Stored run reports (what `runs` lists and `report` prints), and how plans ended.

If the call that made a plan also carries it out, the run has the plan's id, and its report says how the plan ended.
This saves one document for every commit. All other executions write `plans/<plan_id>/end.json`. The run that undid a
plan is named in `plans/<plan_id>/undone.json`.
"""

import dataclasses
from dataclasses import dataclass

from lakesweep.control.area import ControlArea, from_json_bytes, table_key, to_json_bytes
from lakesweep.control.chain import Chain
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.codec import are_ids, is_count, is_id

REPORT_FORMAT_VERSION = 1
ENDED = ("done", "partial", "stale", "put_off", "interrupted")
"""How a plan can end, in reports and in records of ends."""
PUT_OFF = "put_off"
"""How a plan of files alone ended for the time being: the next call that executes it continues the plan."""


def store_report(
    area: ControlArea,
    run_id: str,
    document: dict[str, object],
    warnings: tuple[str, ...],
    times_ms: tuple[int, int],
    *,
    ended: str | None = None,
    chain: Chain | None = None,
    policy_etag: str | None = None,
    plan_hash: str | None = None,
) -> None:
    """Write the report of one run.

    Args:
        area: Of the table.
        run_id: Which run.
        document: The report.
        warnings: All warnings of the run.
        times_ms: When the run started and finished.
        ended: How the plan of this run ended, `None` when it has not.
        chain: Of its ledger.
        policy_etag: ETag of the fleet policy that the run read.
        plan_hash: Of the plan's actions.
    """
    started_ms, finished_ms = times_ms
    area.put(
        f"reports/{run_id}.json",
        to_json_bytes(
            {
                "format_version": REPORT_FORMAT_VERSION,
                "started_ms": started_ms,
                "finished_ms": finished_ms,
                "ended": ended,
                "by": area.who().to_json(),
                "plan_hash": plan_hash or None,
                "policy_etag": policy_etag,
                "ledger": None if chain is None else chain.to_json(),
                "warnings": list(warnings),
                "report": document,
            }
        ),
    )


def load_report(area: ControlArea, run_id: str) -> dict[str, object]:
    """Return the stored document of a report (`started_ms`, `finished_ms`, `ended`, `warnings`, `report`).

    Raises:
        RefusedError: The table has no report of such a run.
        FormatError: It is damaged, of another version, or of another run.
    """
    try:
        return _read(area, run_id)
    except ObjectNotFoundError as error:
        raise RefusedError(
            f"table {area.table}: expected a report of run {run_id} in {area.store.location}, found none",
            code="no_such_run",
        ) from error


def has_report(area: ControlArea, run_id: str) -> bool:
    """Tell whether a run has stored a report, whatever it says."""
    try:
        area.read(f"reports/{run_id}.json")
    except ObjectNotFoundError:
        return False
    return True


def ended_status(area: ControlArea, run_id: str) -> str | None:
    """Return how the plan of a run ended; `None` if the run has no report, or did not end the plan.

    Raises:
        FormatError: The report does not parse.
    """
    try:
        ended = _read(area, run_id).get("ended")
    except ObjectNotFoundError:
        return None
    return None if ended is None else str(ended)


def _read(area: ControlArea, run_id: str) -> dict[str, object]:
    path = area.path(name := f"reports/{run_id}.json")
    return _checked(from_json_bytes(area.read(name).data, path), area, run_id, path)


def _checked(document: dict[str, object], area: ControlArea, run_id: str, path: str) -> dict[str, object]:
    """Return the stored document of a report after checking the fields that lists of runs and undo use."""
    version = document.get("format_version")
    if version != REPORT_FORMAT_VERSION or isinstance(version, bool):
        raise FormatError(f"{path}: expected a report of format {REPORT_FORMAT_VERSION}, found {_short(version)}")
    for key in ("started_ms", "finished_ms"):
        if not is_count(document.get(key)):
            raise FormatError(f"{path}: expected a time in {key}, found {_short(document.get(key))}")
    ended = document.get("ended")
    if ended is not None and ended not in ENDED:
        raise FormatError(f"{path}: expected in ended how the plan ended, found {_short(ended)}")
    warnings = document.get("warnings")
    if not isinstance(warnings, list) or not all(isinstance(each, str) for each in warnings):
        raise FormatError(f"{path}: expected texts in warnings")
    report = document.get("report")
    if not isinstance(report, dict):
        raise FormatError(f"{path}: expected the report of a run in report, found {_short(report)}")
    for key in ("operation", "status", "table"):
        if not isinstance(report.get(key), str):
            raise FormatError(f"{path}: expected a text in report.{key}, found {_short(report.get(key))}")
    for key in ("branch", "plan_id"):
        if not isinstance(report.get(key), str | None):
            raise FormatError(f"{path}: expected a text in report.{key}, found {_short(report.get(key))}")
    if table_key(report["table"]) != table_key(area.table):
        raise RefusedError(
            f"{path}: report of a run of table {_short(report['table'])}; expected {area.table}",
            code="plan_of_another_table",
        )
    if report.get("run_id") != run_id:
        raise FormatError(f"{path}: expected the report of run {run_id}, found that of {_short(report.get('run_id'))}")
    outcome = report.get("outcome")
    if outcome is not None:
        numbers = isinstance(outcome, dict) and all(is_count(outcome.get(key, 0)) for key in ("deleted", "bytes"))
        if not numbers or not isinstance(outcome.get("failed", []), list):
            raise FormatError(f"{path}: expected counts and failures in outcome, found {_short(outcome)}")
    return document


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or is_count(value) else "a huge or negative number"
    return text if len(text) <= 80 else f"{text[:77]}..."


def run_ids(area: ControlArea, since: str = "") -> list[str]:
    """Return the ids of all runs that have a report, oldest first.

    Args:
        area: Of the table.
        since: Only ids that come after this text. No other report is listed.
    """
    folder = f"{area.prefix}reports/"
    pages = area.store.list_range(folder, after=f"{folder}{since}" if since else "")
    names = (entry.key.removeprefix(folder) for page in pages for entry in page)
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """How the execution of a plan ended."""

    status: str
    """`done`, `partial` or `stale`; or `put_off`, and then the plan may continue."""
    run_id: str
    runs: tuple[str, ...]
    """Every run that worked on it."""


def end_plan(area: ControlArea, plan_id: str, end: PlanEnd, *, apart: bool = False) -> None:
    """Record how a plan's execution ended.

    If only the run with the plan's own id worked on it, its report is the record.

    Args:
        area: Of the table.
        plan_id: Which plan.
        end: How it ended.
        apart: Write `end.json` in any case: there is no report yet, or there is an earlier record.
    """
    if is_apart(plan_id, end, apart=apart):
        area.put(f"plans/{plan_id}/end.json", to_json_bytes(dataclasses.asdict(end)))


def is_apart(plan_id: str, end: PlanEnd, *, apart: bool) -> bool:
    """Tell whether `end_plan` writes a document of its own."""
    return apart or end.runs != (plan_id,)


def plan_end(area: ControlArea, plan_id: str) -> PlanEnd | None:
    """Return how a plan's execution ended, `None` when it has not."""
    name = f"plans/{plan_id}/end.json"
    try:
        document = from_json_bytes(area.read(name).data, area.path(name))
    except ObjectNotFoundError:
        ended = ended_status(area, plan_id)
        return None if ended is None else PlanEnd(ended, plan_id, (plan_id,))
    status, run_id, runs = (document.get(key) for key in ("status", "run_id", "runs"))
    if status not in ENDED or not is_id(run_id) or not are_ids(runs):
        raise FormatError(f"{area.path(name)}: expected status, one of {', '.join(ENDED)}, run_id and runs")
    return PlanEnd(str(status), run_id, tuple(runs))


def record_undone(area: ControlArea, plan_id: str, run_id: str) -> None:
    """Record which run undid a plan completely."""
    area.put(f"plans/{plan_id}/undone.json", to_json_bytes({"run_id": run_id}))


def undone_by(area: ControlArea, plan_id: str) -> str | None:
    """Return the run that undid a plan completely, `None` when none did."""
    name = f"plans/{plan_id}/undone.json"
    try:
        document = from_json_bytes(area.read(name).data, area.path(name))
    except ObjectNotFoundError:
        return None
    run_id = document.get("run_id")
    if not is_id(run_id):
        raise FormatError(f"{area.path(name)}: expected run_id, the run that undid the plan")
    return run_id
