"""Overviews of warehouses that do not exist, of any size, always the same for a seed."""

import random
import shlex
from collections.abc import Sequence

from lakesweep.model.overview import (
    Bytes,
    Finding,
    GrowthPoint,
    Overview,
    Pass,
    Pin,
    Receipt,
    Severity,
    Span,
    TableOverview,
)
from lakesweep.model.prices import PRICES_DATE, REGION, storage_usd
from lakesweep.operations.inspect.explain.counting import REASONS
from lakesweep.operations.overview.rules.totals import totals_of

NOW_MS = 1_795_950_000_000
"""29 November 2026, 11:00 UTC."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PLACE = "s3://lake/warehouse"
HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "orders\u202egpj.exe",
    "\u200f\u05e9\u05dc\u05d5\u05dd orders",
    "'; DROP TABLE orders; --",
    "</script><script>window.hacked=1</script>",
    "line\nbreak\ttab",
    "{{ 7 * 7 }}{% raw %}",
    "datum.x + event.vega + 'quotes'",
    "javascript:window.hacked=1",
    "e\u0301\u0302\u0303 \u2028 \u0000 \udc80 \U0001f9f9",
    "x" * 1000,
)
"""Names of tables that try to become more than text."""
_SUBJECTS = (
    "orders",
    "customers",
    "clicks",
    "invoices",
    "shipments",
    "sessions",
    "payments",
    "inventory",
    "prices",
    "returns",
)
_FORMS = ("raw", "clean", "hourly", "daily", "history", "by_region", "enriched", "latest")
_DATABASES = ("sales", "web", "finance", "logistics", "marketing")


def overview(count: int, *, seed: int = 7, names: Sequence[str] = (), points: int = 60, failed: int = 1) -> Overview:
    """Return an overview of `count` tables: first those with the given names, last those that could not be read."""
    chance = random.Random(seed)
    tables = []
    for number in range(count):
        if number < len(names):
            name = f"{_DATABASES[number % 5]}.db/{names[number]}"
        else:
            subject, form = _SUBJECTS[number % 10], _FORMS[number // 10 % 8]
            part = f"_{number // 80}" if number >= 80 else ""
            name = f"{_DATABASES[number // 2 % 5]}.db/{subject}_{form}{part}"
        tables.append(_failed(name) if count - number <= failed < count else _table(name, chance, points))
    tables.sort(
        key=lambda each: (
            each.problem is None,
            -sum(found.severity == "act" for found in each.findings),
            -each.saving_bytes,
        )
    )
    return Overview(
        PLACE,
        NOW_MS,
        PRICES_DATE,
        REGION,
        totals_of(tables, REASONS),
        tuple(tables),
        requests={"get": 10 * count, "list": 6 * count},
    )


def _failed(name: str) -> TableOverview:
    return TableOverview(
        table=f"{PLACE}/{name}",
        name=name,
        measured_ms=NOW_MS,
        problem=f"table {PLACE}/{name}: snapshot/snapshot-7 is damaged: expected JSON, found 0 bytes",
        problem_code="damaged",
    )


def _table(name: str, chance: random.Random, points: int) -> TableOverview:
    location = f"{PLACE}/{name}"
    live = int(chance.lognormvariate(22.5, 1.9))
    reasons = [Bytes("current", live // (24 << 20) + 3, live)]
    for reason, share, odds in (
        ("expired", 0.25, 0.55),
        ("snapshots", 0.5, 0.9),
        ("consumer", 0.2, 0.08),
        ("tags", 0.4, 0.4),
        ("branches", 0.3, 0.12),
        ("changelogs", 0.2, 0.1),
        ("too_young", 0.01, 0.3),
        ("orphan", 0.15, 0.3),
    ):
        if chance.random() < odds:
            size = int(live * share * chance.random())
            reasons.append(Bytes(reason, size // (12 << 20) + 1, size))
    reasons.append(Bytes("document", chance.randint(20, 300), chance.randint(20_000, 900_000)))
    size, count = sum(each.bytes for each in reasons), sum(each.count for each in reasons)
    snapshots = max(2, min(points, chance.randint(points // 3, points * 2)))
    first_id, step = chance.randint(1, 4000), chance.choice([HOUR_MS, 6 * HOUR_MS, DAY_MS // 2])
    growth, spans, at, rows, held = [], [], NOW_MS - snapshots * step, live // 90, int(live * chance.uniform(0.2, 0.9))
    for number in range(snapshots):
        at += int(step * chance.uniform(0.4, 1.0))
        rows += chance.randint(0, live // 4000 + 9)
        held = live if number == snapshots - 1 else min(live, held + chance.randint(0, max(1, (live - held) // 4)))
        growth.append(GrowthPoint(first_id + number, at, rows, held))
        spans.append(Span("snapshot", str(first_id + number), at, first_id + number, at + 10 * DAY_MS))
    pins = []
    for number in range(chance.choice([0, 0, 1, 2, 3])):
        root = growth[number * snapshots // 4]
        kind = ("tag", "branch", "consumer")[number]
        pin = f"{('month-end', 'experiment', 'flink-job')[number]}-{number + 1}"
        pins.append(Pin(kind, pin, root.snapshot_id, chance.choice([None, live // 7])))
        spans.append(Span(kind, pin, root.time_ms, root.snapshot_id, None if kind != "tag" else NOW_MS + 20 * DAY_MS))
    spans = sorted(spans, key=lambda each: each.time_ms)[-points:]
    saving = sum(each.bytes for each in reasons if each.reason in ("expired", "orphan"))
    return TableOverview(
        table=location,
        name=name,
        measured_ms=NOW_MS - chance.randint(0, 40_000),
        is_remembered=chance.random() < 0.2,
        has_primary_key=chance.random() < 0.4,
        is_partitioned=chance.random() < 0.6,
        objects=count,
        bytes=size,
        rows=rows,
        live_files=reasons[0].count,
        live_bytes=live,
        reasons=tuple(reasons),
        noncurrent_count=40 if size % 3 else None,
        noncurrent_bytes=size // 9 if size % 3 else None,
        snapshots=snapshots,
        branches=("main", "experiment") if any(each.reason == "branches" for each in reasons) else ("main",),
        tags=chance.randint(0, 8),
        latest_ms=growth[-1].time_ms,
        oldest_root_ms=growth[0].time_ms,
        small_files=chance.randint(0, 400),
        small_bytes=chance.randint(0, 10**9),
        deleted_share=chance.choice([None, 0.0312]),
        level_0_files=chance.choice([None, 4]),
        level_0_since_ms=NOW_MS - 5 * HOUR_MS,
        last_pass=chance.choice([None, Pass(NOW_MS - 3 * HOUR_MS, "done", "20261129T080000Z-1f2e3d4c")]),
        last_scan=chance.choice([None, Pass(NOW_MS - 5 * DAY_MS, "nothing_to_do")]),
        pins=tuple(pins),
        findings=_findings(location, chance),
        usd_month=storage_usd(size),
        saving_bytes=saving,
        saving_usd_month=storage_usd(saving),
        receipts=tuple(
            Receipt(
                month,
                chance.randint(20, 700),
                {"get": 9000, "put": 800, "delete": 4000},
                0.0076,
                saving // 3,
                storage_usd(saving // 3),
            )
            for month in ("2026-11", "2026-10", "2026-09")[: chance.randint(0, 3)]
        ),
        growth=tuple(growth),
        timeline=tuple(spans),
    )


_FINDINGS: tuple[tuple[float, str, Severity, str, str], ...] = (
    (0.03, "missing_files", "act", "3 data files of the newest snapshot do not exist", "check --all-roots"),
    (0.02, "damaged_root", "act", "snapshot 812 cannot be read, so nothing is deleted", "check"),
    (0.02, "commit_replaced", "act", "another writer replaced snapshot 91", "check"),
    (0.35, "retention_not_stated", "look", "the schema states no retention, so no snapshot expires", "maintain"),
    (0.25, "small_files", "look", "{} live files are small", "compact --execute"),
    (0.12, "orphans_not_scanned", "look", "no scan for orphan files in the last 30 days", "remove-orphan-files"),
)
"""How likely it is, and the finding, with a command without its table."""


def _findings(location: str, chance: random.Random) -> tuple[Finding, ...]:
    found = []
    for odds, code, severity, says, command in _FINDINGS:
        if chance.random() < odds:
            verb, _, option = command.partition(" ")
            line = f"lakesweep {verb} {shlex.quote(location)} {option}".rstrip()
            found.append(Finding(code, severity, says.format(chance.randint(200, 900)), line))
    return tuple(found)
