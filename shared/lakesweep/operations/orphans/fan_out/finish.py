"""How a scan ends: the findings of its tasks become a plan, as in any other scan."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakesweep.control.ndjson import unpack
from lakesweep.control.plans import load_header, store_plan
from lakesweep.control.quarantine import Quarantine, write_quarantine
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.model.plan import Plan
from lakesweep.operations.orphans.fan_out.cache import Segment, read_index, write_index
from lakesweep.operations.orphans.fan_out.captured import Remembered, capture_of, read_captured
from lakesweep.operations.orphans.fan_out.documents import Json, ScanDocuments, State, arguments_of
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.operations.orphans.fan_out.spill import Spill
from lakesweep.operations.orphans.judging import joined, outside_of
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.parts import apart_of
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.operations.orphans.rules.totals import totals_of
from lakesweep.operations.orphans.scan import Scanned, orphan_plan, own_branch, stores_of
from lakesweep.runs.run import require_area
from lakesweep.runs.session import Table
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.missing import MAX_ASKED, Missing, find_missing


def finish(table: Table, documents: ScanDocuments, scan: Json, state: State, goes_by: Json) -> Plan:
    """Return the plan that follows from the findings of all tasks; store it.

    Raises:
        FormatError: A spill or document that a task wrote is damaged.
        StorageError: A request failed.
    """
    remembered = Remembered.load(table, documents, goes_by["metadata"])
    found = capture_of(table, goes_by["capture"], remembered.memory)
    table = replace(table, store=found.store)
    arguments = arguments_of(scan["arguments"], 1)
    places = [Place(**row) for row in scan["places"]]
    heads = [state.heads[task["id"]]["info"] for task in (*goes_by["tasks"], *state.owners)]
    totals, problems = _listed(places, state)
    others, going = [[0, 0] for _ in places], [0, 0]
    for info in heads:
        for number, (found_there, more) in enumerate(zip(info["totals"], info["others"], strict=True)):
            totals[number].add(totals_of(found_there))
            others[number] = [one + other for one, other in zip(others[number], more, strict=True)]
        going = [one + other for one, other in zip(going, info["going"], strict=True)]
    if arguments.quarantine_ms is not None:
        _write_quarantine(table, documents, heads, goes_by)
    own, schema = own_branch(table, found.listing)
    scanned = Scanned(
        found,
        own,
        schema,
        scan["now_ms"],
        scan["cutoff_ms"],
        joined(places, totals),
        outside_of(places, totals, others, problems),
        _missing(table, found, goes_by, heads),
        going[0],
        going[1],
    )
    rows = [row for info in heads for row in info["plan"]]
    plan = orphan_plan(table, arguments, scanned, apart=apart_of(goes_by["plan_id"], rows))
    # An empty plan cannot be executed, so it is stored with the scan, not with the table's plans.
    area = documents.area if plan.is_empty else require_area(table)
    try:
        store_plan(area, plan)
    except RefusedError:  # an earlier attempt stored the plan and died before it wrote the scan's result
        return Plan(load_header(area, plan.header.plan_id))
    return plan


def keep_names(documents: ScanDocuments, scan: Json, goes_by: Json, *, without: Collection[str] = ()) -> None:
    """Let later scans find the segments that this one used and wrote. A failure to do so is harmless.

    Args:
        documents: The documents of the scan.
        scan: Its parameters.
        goes_by: The input of its match.
        without: Segments that may be damaged.
    """
    area = names_of_table(documents.area)
    wanted = set(goes_by["capture"]["manifests"])
    used = {row["name"]: row for row in goes_by["names"] if row["name"] not in without}
    try:
        identity = str(scan.get("identity", ""))
        before, etag = read_index(area, identity)
        created = {segment.name: segment.created_ms for segment in before}
        segments = [
            Segment(name, tuple(row["manifests"]), _rows(row), created.get(name, int(scan["now_ms"])))
            for name, row in used.items()
            if wanted & set(row["manifests"])
        ]
        # Keep the segments of a concurrent scan: this scan does not know which of their manifests are needed.
        known = {row["name"] for row in goes_by["names"]} | set(scan["segments"])
        segments += [each for each in before if each.name not in known and each.created_ms >= scan["now_ms"]]
        if [dataclasses.astuple(each) for each in segments] != [dataclasses.astuple(each) for each in before]:
            write_index(area, segments, etag, identity)
    except MaintenanceError:
        return


def _rows(row: Mapping[str, Any]) -> int:
    return Spill.from_json(row["spill"], str(row["name"])).rows


def _listed(places: Iterable[Place], state: State) -> tuple[list[Totals], dict[int, str]]:
    """Return what the listings counted in each place, and the places that could not be listed, each with the reason."""
    totals, problems = [Totals() for _ in places], {}
    for head in state.heads.values():
        info = head["info"]
        if "unlisted" in info:
            problems[info["place"]] = info["unlisted"]
        elif "place" in info:
            totals[info["place"]].add(totals_of(info["totals"]))
    return totals, problems


def _write_quarantine(table: Table, documents: ScanDocuments, heads: Iterable[Json], goes_by: Json) -> None:
    known: dict[tuple[str, str, int], int] = {}
    orphans = []
    for info in heads:
        if "orphans" in info:
            name = documents.name(info["orphans"])
            for row in unpack(documents.area.read(name).data, documents.area.path(name), max_rows=None):
                orphan = str(row["key"]), str(row["etag"]), int(str(row["modified_ms"]))
                orphans.append(orphan)
                if row["seen_ms"] is not None:
                    known[orphan] = int(str(row["seen_ms"]))
    # The quarantine starts when the roots were collected, after all tasks had ended. It does not start with the scan.
    write_quarantine(require_area(table), Quarantine(known), orphans, goes_by["gathered_ms"])


def _missing(table: Table, found: Capture, goes_by: Json, heads: Iterable[Json]) -> Missing:
    """Return the files that readers need and that no listing showed."""
    heads = list(heads)
    named = [row for info in heads for row in info["missing"]]
    if not named:
        return Missing()
    beyond = sum(info["unseen"] for info in heads) - min(len(named), MAX_ASKED)
    asked = sorted(named)[:MAX_ASKED]
    sources = [*goes_by["names"], *goes_by["own_names"]]
    read_captured(found)
    manifests = {
        sources[source]["manifests"][number]
        for _, where in asked
        for source, number in where
        if "manifests" in sources[source]
    }
    missing = find_missing(
        table.store,
        found,
        lambda: stores_of(table, found),
        unseen=frozenset(bytes.fromhex(text) for text, _ in asked),
        among=lambda name: name in manifests,
    )
    return replace(missing, unknown=missing.unknown + beyond)
