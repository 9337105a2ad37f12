"""The page of `lakesweep overview --html`, made of the document of `--json`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakesweep.pages.compact import Strings, deltas, seconds_before, unit_of
from lakesweep.pages.figures import visible
from lakesweep.pages.page import make_page
from lakesweep.pages.reasons import FAMILIES, SAYS, family_of

Document = Mapping[str, Any]

FIELDS = (
    "name",
    "table",
    "measured",
    "remembered",
    "problem",
    "keyed",
    "partitioned",
    "objects",
    "bytes",
    "rows",
    "liveFiles",
    "liveBytes",
    "reasons",
    "noncurrentCount",
    "noncurrentBytes",
    "snapshots",
    "branches",
    "tags",
    "latest",
    "oldest",
    "smallFiles",
    "smallBytes",
    "deletedShare",
    "level0Files",
    "level0Since",
    "lastPass",
    "lastScan",
    "pins",
    "findings",
    "usd",
    "savingBytes",
    "savingUsd",
    "receipts",
    "unit",
    "growth",
    "spans",
    "spanNames",
)
"""Members of a table in the data of the page, in order. Times are seconds before the overview; those of points in
`growth` and `spans` are epoch milliseconds."""
KINDS = ("snapshot", "changelog", "tag", "branch", "consumer")


def overview_page(document: Document) -> str:
    """Return the page.

    Args:
        document: As `Overview.to_json` returns it.

    Raises:
        UsageError: A package of the extra `html` is missing.
    """
    totals = document["totals"]
    receipts = [
        {**receipt, "requests": sum(receipt["requests"].values())}
        for receipt in sorted(totals["receipts"], key=lambda each: str(each["month"]))
    ]
    return make_page(
        "overview.html.j2",
        {
            "title": f"Overview of {visible(document['place'])}",
            "document": document,
            "totals": totals,
            "severities": _severities(document["tables"]),
            "families": _families(totals["reasons"]),
            "reasons": [each for each in totals["reasons"] if each["count"] or each["bytes"]],
            "says": SAYS,
            "family_of": family_of,
            "receipts": receipts,
        },
        compact(document, receipts),
        ["charts.js", "overview_tables.js", "overview.js"],
    )


def _severities(tables: Iterable[Document]) -> dict[str, int]:
    found = [finding["severity"] for table in tables for finding in table["findings"]]
    return {severity: found.count(severity) for severity in ("act", "look")}


def _families(reasons: Iterable[Document]) -> list[dict[str, object]]:
    """Return the families that have bytes, with their sums."""
    sums = {family.name: 0 for family in FAMILIES}
    for each in reasons:
        if each["reason"] != "missing":
            sums[family_of(each["reason"])] += each["bytes"]
    return [{"name": each.name, "label": each.label, "bytes": sums[each.name]} for each in FAMILIES if sums[each.name]]


def compact(document: Document, receipts: Sequence[Document] = ()) -> dict[str, object]:
    """Return what the scripts show: the same figures, shorter, so that a page of 500 tables stays small.

    A table is an array with the values of `FIELDS`. Texts that occur often are numbers of `texts`. `growth` and `spans`
    are texts of `deltas`.
    """
    now_ms, texts = document["measured_ms"], Strings()
    reasons = {each["reason"] for table in document["tables"] for each in table["reasons"]}
    known = [reason for reason in SAYS if reason in reasons] + sorted(reasons - SAYS.keys())
    rows = [_table(table, document["place"], now_ms, known, texts) for table in document["tables"]]
    return {
        "now": now_ms,
        "fields": FIELDS,
        "kinds": KINDS,
        "families": [[family.name, family.label] for family in FAMILIES],
        "reasons": [[reason, family_of(reason), SAYS.get(reason, "")] for reason in known],
        "receipts": [[each["month"], each["freed_bytes"], each["usd"], each["freed_usd_month"]] for each in receipts],
        "tables": rows,
        "texts": texts.all(),
    }


def _table(table: Document, place: str, now_ms: int, reasons: Sequence[str], texts: Strings) -> list[object]:
    location, name = table["table"], table["name"]
    before = seconds_before(now_ms)
    sizes = [point["bytes"] for point in table["growth"]]
    unit = unit_of(sizes)
    values: dict[str, object] = {
        "name": name,
        "table": None if location == f"{place.rstrip('/')}/{name}" else location,
        "measured": before(table["measured_ms"]),
        "remembered": int(table["is_remembered"]),
        "problem": table["problem"],
        "keyed": int(table["has_primary_key"]),
        "partitioned": int(table["is_partitioned"]),
        "objects": table["objects"],
        "bytes": table["bytes"],
        "rows": table["rows"],
        "liveFiles": table["live_files"],
        "liveBytes": table["live_bytes"],
        "reasons": [
            value
            for each in table["reasons"]
            for value in (reasons.index(each["reason"]), each["count"], each["bytes"])
        ],
        "noncurrentCount": table["noncurrent_count"],
        "noncurrentBytes": table["noncurrent_bytes"],
        "snapshots": table["snapshots"],
        "branches": table["branches"],
        "tags": table["tags"],
        "latest": before(table["latest_ms"]),
        "oldest": before(table["oldest_root_ms"]),
        "smallFiles": table["small_files"],
        "smallBytes": table["small_bytes"],
        "deletedShare": None if table["deleted_share"] is None else round(table["deleted_share"], 4),
        "level0Files": table["level_0_files"],
        "level0Since": before(table["level_0_since_ms"]),
        "lastPass": _pass(table["last_pass"], now_ms),
        "lastScan": _pass(table["last_scan"], now_ms),
        "pins": [[each["kind"], each["name"], each["snapshot_id"], each["bytes"]] for each in table["pins"]],
        "findings": [
            [
                texts.number(each["code"]),
                int(each["severity"] == "act"),
                texts.number(each["says"]),
                # U+0001 stands for the table, so that the same command of many tables is one text.
                None if each["command"] is None else texts.number(each["command"].replace(location, "\1")),
            ]
            for each in table["findings"]
        ],
        "usd": _money(table["usd_month"]),
        "savingBytes": table["saving_bytes"],
        "savingUsd": _money(table["saving_usd_month"]),
        "receipts": [
            [
                each["month"],
                each["runs"],
                sum(each["requests"].values()),
                _money(each["usd"]),
                each["freed_bytes"],
                _money(each["freed_usd_month"]),
            ]
            for each in table["receipts"] or ()
        ],
        "unit": unit,
        "growth": deltas(
            [point["snapshot_id"], point["time_ms"], point["rows"], _scaled(point["bytes"], unit)]
            for point in table["growth"]
        ),
        "spans": deltas(
            [
                KINDS.index(span["kind"]),
                span["snapshot_id"],
                span["time_ms"],
                None if span["until_ms"] is None else span["until_ms"] - span["time_ms"],
            ]
            for span in table["timeline"]
        ),
        "spanNames": {
            number: span["name"]
            for number, span in enumerate(table["timeline"])
            if span["name"] != str(span["snapshot_id"])
        },
    }
    return [values[field] for field in FIELDS]


def _pass(found: Document | None, now_ms: int) -> list[object] | None:
    return None if found is None else [seconds_before(now_ms)(found["at_ms"]), found["status"], found["run_id"]]


def _money(amount: float) -> float:
    """Return an amount with four digits that count."""
    return float(f"{amount:.4g}")


def _scaled(size: int | None, unit: int) -> int | None:
    return None if size is None else round(size / unit)
