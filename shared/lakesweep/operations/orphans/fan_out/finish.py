"""How a scan ends: with a plan, or with an error.

The findings of the tasks become a plan, as in any other scan. The first result that a worker stores counts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.control.ndjson import unpack
from lakesweep.control.plans import load_header, store_plan
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.format.codec import from_json
from lakesweep.model.plan import Plan
from lakesweep.operations.orphans.fan_out.cache import Segment, read_index, write_index
from lakesweep.operations.orphans.fan_out.captured import Remembered, capture_of, read_captured
from lakesweep.operations.orphans.fan_out.documents import Json, Match, Scan, ScanDocuments, State
from lakesweep.operations.orphans.fan_out.heads import DecodedHead, ListedHead, MatchedHead
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.operations.orphans.findings import Findings, Seen, missing_among, plan_of_findings, quarantine_seen
from lakesweep.operations.orphans.scan import own_branch
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.missing import MAX_ASKED, Missing


def finish(table: Table, documents: ScanDocuments, scan: Scan, state: State, goes_by: Match) -> Plan:
    """Return the plan that follows from the findings of all tasks; store it.

    Raises:
        FormatError: A spill or document that a task wrote is damaged.
        StorageError: A request failed.
    """
    remembered = Remembered.load(table, documents, goes_by.metadata)
    found = capture_of(table, goes_by.capture, remembered.memory)
    table = replace(table, store=found.store)
    findings, heads = Findings.of(len(scan.places)), []
    problems: dict[int, str] = {}
    for head, _ in state.heads.values():
        if isinstance(head, ListedHead):
            findings.totals[head.place].add(head.totals)
            if head.unlisted is not None:
                problems[head.place] = head.unlisted
    for task in (*goes_by.tasks, *state.owners):
        if not isinstance(head := state.heads[task.id][0], MatchedHead):
            raise ValueError(f"a {head.kind} for {task.id}")
        findings.add(head.findings)
        heads.append(head)
    if scan.arguments.quarantine_ms is not None:
        # The quarantine starts when the roots were collected, after all tasks had ended. It does not start with the
        # scan.
        quarantine_seen(table, _orphans(documents, heads), goes_by.gathered_ms)
    own = own_branch(table, found.listing)
    plan = plan_of_findings(
        table,
        scan.arguments,
        found,
        own,
        scan.places,
        findings,
        times_ms=(scan.now_ms, scan.cutoff_ms),
        problems=problems,
        missing=_missing(table, found, goes_by, heads),
        plan_id=goes_by.plan_id,
        parts=[part for head in heads for part in head.plan],
    )
    # An empty plan cannot be executed, so it is stored with the scan, not with the table's plans.
    area = documents.area if plan.is_empty else require_area(table)
    try:
        store_plan(area, plan)
    except RefusedError:  # an earlier attempt stored the plan and died before it wrote the scan's result
        return Plan(load_header(area, plan.header.plan_id))
    return plan


def keep_names(documents: ScanDocuments, scan: Scan, goes_by: Match, *, without: Collection[str] = ()) -> None:
    """Let later scans find the segments that this one used and wrote. A failure to do so is harmless.

    Args:
        documents: The documents of the scan.
        scan: Its parameters.
        goes_by: The input of its match.
        without: Segments that may be damaged.
    """
    area, wanted = names_of_table(documents.area), goes_by.capture.manifests
    try:
        before, etag = read_index(area, scan.identity)
        created = {segment.name: segment.created_ms for segment in before}
        segments = [
            Segment(each.name, each.manifests, each.spill.rows, created.get(each.name, scan.now_ms))
            for each in goes_by.names
            if each.name not in without and not wanted.isdisjoint(each.manifests)
        ]
        # Keep the segments of a concurrent scan: this scan does not know which of their manifests are needed.
        known = {each.name for each in goes_by.names} | set(scan.segments)
        segments += [each for each in before if each.name not in known and each.created_ms >= scan.now_ms]
        if segments != list(before):
            write_index(area, segments, etag, scan.identity)
    except MaintenanceError:
        return


def _orphans(documents: ScanDocuments, heads: Iterable[MatchedHead]) -> Iterator[Seen]:
    for head in heads:
        if head.orphans is not None:
            name = documents.name(head.orphans)
            path = documents.area.path(name)
            for row in unpack(documents.area.read(name).data, path, max_rows=None):
                yield from_json(Seen, row, path)


def _missing(table: Table, found: Capture, goes_by: Match, heads: Sequence[MatchedHead]) -> Missing:
    """Return the files that readers need and that no listing showed."""
    named = sorted(row for head in heads for row in head.missing)
    if not named:
        return Missing()
    beyond = sum(head.findings.unseen for head in heads) - min(len(named), MAX_ASKED)
    asked = named[:MAX_ASKED]
    sources = (*goes_by.names, *goes_by.own_names)
    read_captured(found)
    # The first of the own names has hashes of names in roots, and no manifests.
    manifests = {
        sources[source].manifests[number] for _, where in asked for source, number in where if sources[source].manifests
    }
    unseen = (bytes.fromhex(text) for text, _ in asked)
    return missing_among(table, found, unseen, manifests.__contains__, beyond)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a scan ended."""

    status: str
    """`planned`, `nothing_to_do`, `damaged`, `refused` or `failed`."""
    plan: Plan | None
    """The plan's header; the actions are in the stored parts."""
    refusal: Mapping[str, str] | None
    """`code` and `message`."""
    result: Mapping[str, object]
    """The document `result.json`."""


def find_end(table: Table, scan_id: str) -> Ended | None:
    """Return how a scan ended; `None` while it goes on, or if there is no such scan."""
    documents = ScanDocuments.of(require_area(table), scan_id)
    result = documents.find_result()
    return None if result is None else ended_of(table, documents, result)


def ended_of(table: Table, documents: ScanDocuments, result: Json) -> Ended:
    """Return how a scan with this result ended."""
    plan_id = result.get("plan_id")
    # A plan without actions is stored with the scan.
    area = require_area(table) if result.get("action_count") else documents.area
    plan = None if plan_id is None else Plan(load_header(area, str(plan_id)))
    return Ended(str(result["status"]), plan, result.get("refusal"), result)


def end_with_error(table: Table, documents: ScanDocuments, error: MaintenanceError) -> Ended:
    """Store that a scan ended with an error, unless it has ended already."""
    result = {
        "status": "refused" if isinstance(error, RefusedError) else "failed",
        "plan_id": None,
        "refusal": {"type": type(error).__name__, "code": error.code, "message": str(error)},
        "ended_ms": table.store.now_ms(),
    }
    return ended_of(table, documents, documents.put_result(result))


def result_of(documents: ScanDocuments, scan: Scan, state: State, goes_by: Match, plan: Plan) -> Json:
    """Return the result of a scan that produced a plan."""
    header, steps = plan.header, _steps(scan, state)
    total: Counter[str] = Counter()
    for counts in steps.values():
        total.update(counts)
    heads = [head for head, _ in state.heads.values()]
    decoded = [head for head in heads if isinstance(head, DecodedHead)]
    rows = [source.spill.slot_rows for source in (*goes_by.names, *goes_by.own_names, *goes_by.objects)]
    return {
        "scan_id": documents.scan_id,
        "plan_id": header.plan_id,
        "content_hash": header.content_hash,
        "action_count": header.action_count,
        "bytes": plan.delete_bytes,
        "by_kind": dict(plan.delete_kinds),
        "needs_confirmation": header.needs_confirmation,
        "refusal": None,
        "tasks": dict(Counter(head.kind for head in heads)),
        "requests": dict(total),
        "by_step": steps,
        "objects": sum(head.totals.objects for head in heads if isinstance(head, ListedHead)),
        "roots": len(goes_by.capture.captured),
        "manifests": len(goes_by.capture.manifests),
        "manifests_decoded": sum(len(head.manifests) for head in decoded if head.entries),
        "entries": scan.entries,
        "entries_decoded": sum(head.entries for head in decoded) + goes_by.entries_here,
        # How often tasks read slots of a spill.
        "spill_parts": sum(any(each[task.first : task.end]) for task in goes_by.tasks for each in rows),
        "began_ms": scan.now_ms,
        "ended_ms": state.looked_ms,
        **scan.basis,
    }


def _steps(scan: Scan, state: State) -> dict[str, dict[str, int]]:
    """Return the requests of each step."""
    steps = {name: Counter(counts) for name, counts in state.requests.items()}
    # Two documents could not count the request that wrote them: the scan's parameters, and this result.
    steps["begin"] = Counter(scan.requests) + Counter(put=1)
    steps.setdefault("finish", Counter()).update(put=1)
    for head, _ in state.heads.values():
        steps.setdefault(head.kind, Counter()).update(head.requests)
    return {name: {kind: count for kind, count in sorted(counts.items()) if count} for name, counts in steps.items()}
