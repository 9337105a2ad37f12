"""What a deployment costs, from counted requests and docs/prices.json: the tables of docs/cost.md.

    python -m benchmarks.cost            write the tables into docs/cost.md
    python -m benchmarks.cost --check    say whether they are up to date

Counts are of this code (tests/e2e/test_cost.py holds them against real runs) or of template.yaml. Assumptions are what
nothing here can measure: they are named as such, in one place, and docs/cost.md repeats them.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import scan_cost, spark_cost
from benchmarks.usage import PRICES, Usage, dollars, price_of, requests

__all__ = ["PRICES", "Usage", "dollars", "price_of", "requests"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cost.md"

# --- counted: by tests/e2e/test_cost.py ---
FILES_A_COMMIT = 20
"""Data files that a commit of the measured table adds, while the 20 of the commit before die."""
WRITTEN_A_COMMIT = 25
"""Objects that its writer puts: files, a manifest, two lists, the snapshot, LATEST."""
DELETED_A_SNAPSHOT = 24
"""Objects that go with a snapshot, once manifests are merged as often as they are written."""
QUIET = {"get": 4}
"""A commit that needs nothing: the state, two documents that must not be there, and the first schema."""
DUE = {"get": 1}
"""A commit that needs a pass, before that pass: the state."""
PASS_OF_1 = {"get": 8, "list": 7, "put": 9, "delete": 2}
"""A pass that expires one snapshot."""
PASS_OF_60 = {"get": 197, "list": 13, "put": 11, "delete": 3}
"""A pass that expires 60 snapshots."""
LEFT_KB = {1: 17.0, 60: 420.0}
"""Snapshots that a pass expires -> what it leaves in the control location for good: plan, ledger, report."""
REPLACED_KB = 50.0
"""What a pass replaces there. Versions of it stay for the 30 days of the template's lifecycle rule."""
SWEPT = {"get": 3, "list": 2}
"""A table that a sweep finds in order: the state, LATEST, a snapshot that must not be there, schemas, branches."""

# --- counted: in template.yaml and shared/lakesweep/aws ---
METRICS = 44
ALARM_METRICS = 49
"""Alarms, each counted once for every metric that it looks at."""
QUEUES = 8
"""Queues that a function is fed from."""
FIFO_QUEUES = 2
"""Of them."""
SCHEDULES = 6
"""Messages an hour: a sweep, a sweep for orphan files, and four sweeps for tags."""
TAG_SWEEPS = 4
"""Of them."""
MEMORY_GB = {"on_snapshot_written": 0.5, "expire": 1.0, "sweep": 0.5, "tag_schedule": 0.5, "orphan_scan": 1.0}

# --- assumed ---
SECONDS = {
    "on_snapshot_written": 0.3,
    "pass of 1": 1.5,
    "pass of 60": 8.0,
    "sweep, a table": 0.02,
    "table of a table sweep": 0.01,
}
"""How long a function runs. Nothing was run on AWS. 25 requests of 40 ms, one after the other, are one second."""
LOG_KB = {"on_snapshot_written": 2.0, "expire": 5.0}
POLLS_A_MINUTE = 15
"""Receives of an empty queue: five pollers, each of which waits for 20 s."""
HOURS = 730
"""A month."""
WEEK_HOURS = 168
MINUTES = HOURS * 60
SECONDS_A_MONTH = MINUTES * 60

LABELS = {
    "eventbridge_opt_in": "EventBridge: all events of the bucket",
    "s3_put_list": "S3: PUT and LIST",
    "s3_get": "S3: GET",
    "s3_delete": "S3: DELETE",
    "s3_storage": "S3: control documents of a month (GB)",
    "lambda_request": "Lambda: invocations",
    "lambda_gb_second": "Lambda: GB-seconds",
    "sqs_standard": "SQS: standard requests",
    "sqs_fifo": "SQS: FIFO requests",
    "scheduler": "Scheduler",
    "xray_trace": "X-Ray: traces",
    "cloudwatch_logs": "CloudWatch: logs (GB)",
    "cloudwatch_log_storage": "CloudWatch: logs kept (GB)",
    "cloudwatch_metric": "CloudWatch: metrics",
    "cloudwatch_alarm": "CloudWatch: alarms",
    "cloudwatch_dashboard": "CloudWatch: dashboard",
}


def invocation(gigabytes: float, seconds: float, log_kb: float) -> Usage:
    """One invocation of a function, its log lines and its trace."""
    return Usage(
        {
            "lambda_request": 1,
            "lambda_gb_second": gigabytes * seconds,
            "cloudwatch_logs": log_kb / 1e6,
            "cloudwatch_log_storage": log_kb / 1e6,
            "xray_trace": 1,
        }
    )


def events(count: float) -> Usage:
    """Events of a bucket that EventBridge takes in, whether a rule wants them or not."""
    return Usage({"eventbridge_opt_in": count})


def looked_at(counts: Mapping[str, int]) -> Usage:
    """A lonely commit in `on_snapshot_written`: sent, received and deleted, one invocation."""
    run = invocation(MEMORY_GB["on_snapshot_written"], SECONDS["on_snapshot_written"], LOG_KB["on_snapshot_written"])
    return Usage({"sqs_standard": 3}) + run + requests(counts)


def passed(snapshots: int) -> Usage:
    """A pass in `expire` over so many snapshots: sent, received and deleted, one invocation, and what it leaves."""
    run = invocation(MEMORY_GB["expire"], SECONDS[f"pass of {snapshots}"], LOG_KB["expire"])
    stored = Usage({"s3_storage": (LEFT_KB[snapshots] + REPLACED_KB) / 1e6})
    return Usage({"sqs_fifo": 3}) + run + requests(PASS_OF_1 if snapshots == 1 else PASS_OF_60) + stored


def quiet_commit() -> Usage:
    """A commit that needs nothing."""
    return events(WRITTEN_A_COMMIT) + looked_at(QUIET)


def expiring_commit() -> Usage:
    """A commit that expires one snapshot. What is written and deleted is announced to EventBridge as well."""
    return events(WRITTEN_A_COMMIT + DELETED_A_SNAPSHOT + 1) + looked_at(DUE) + passed(1)


def standing() -> Usage:
    """A month of a deployment without any table."""
    polls = POLLS_A_MINUTE * MINUTES
    return Usage(
        {
            "sqs_standard": polls * (QUEUES - FIFO_QUEUES) + 3 * SCHEDULES * HOURS,
            "sqs_fifo": polls * FIFO_QUEUES,
            "scheduler": SCHEDULES * HOURS,
            "cloudwatch_metric": METRICS,
            "cloudwatch_alarm": ALARM_METRICS,
            "cloudwatch_dashboard": 1,
        }
    )


def sweeps(tables: int) -> Usage:
    """A month of hourly sweeps over so many tables."""
    run = invocation(MEMORY_GB["sweep"], SECONDS["sweep, a table"] * tables, 2.0)
    return (run + requests(SWEPT) * tables) * HOURS


def tag_sweeps(tables: int) -> Usage:
    """A month of sweeps for tags over so many tables, none of which has tags due: the state of each."""
    run = invocation(MEMORY_GB["tag_schedule"], SECONDS["table of a table sweep"] * tables, 2.0)
    return (run + requests({"get": 1}) * tables) * (HOURS * TAG_SWEEPS)


def scans(tables: int) -> Usage:
    """A month of hourly table sweeps over so many tables, each of which is scanned for orphan files once a week."""
    run = invocation(MEMORY_GB["orphan_scan"], SECONDS["table of a table sweep"] * tables, 2.0)
    sweeps_a_month = (run + requests({"get": 1}) * tables) * HOURS
    return sweeps_a_month + Usage(scan_cost.small_table().units) * (tables * HOURS / WEEK_HOURS)


def fleet(tables: int) -> Usage:
    """A month of tables with a commit an hour each."""
    return standing() + sweeps(tables) + tag_sweeps(tables) + scans(tables) + expiring_commit() * (tables * HOURS)


def hot_table() -> Usage:
    """A month of one table with a commit a second, and passes one minute apart, each of which expires 60 snapshots.

    Every minute six batches of ten events are looked at. All but one find the last pass too close and send one hint,
    which comes back alone and finds its commit handled: two reads.
    """
    commits = events(WRITTEN_A_COMMIT + DELETED_A_SNAPSHOT) + Usage({"sqs_standard": 1 + 2 / 10})
    run = invocation(MEMORY_GB["on_snapshot_written"], SECONDS["on_snapshot_written"], LOG_KB["on_snapshot_written"])
    batches = run * 11 + requests({"get": 6 + 5 * 2}) + Usage({"sqs_standard": 5 * 3})
    minute = batches + passed(60) + events(1)
    return standing() + sweeps(1) + tag_sweeps(1) + scans(1) + commits * SECONDS_A_MONTH + minute * MINUTES


def tables() -> dict[str, str]:
    """Return every table of the page by its name."""
    million = 1_000_000
    quiet, expiring = quiet_commit() * million, expiring_commit() * million
    return {
        "commits": _side_by_side(
            ("", "units a commit", "needs nothing", "units a commit", "expires a snapshot"), quiet, expiring, million
        ),
        "months": _months({"no tables": standing(), "a thousand tables": fleet(1000), "a hot table": hot_table()}),
        "scans": scan_cost.table(),
        "scan steps": scan_cost.steps(),
        "spark": spark_cost.table(),
    }


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(cells: tuple[str, ...]) -> list[str]:
    return [_row(cells), _row(("---", *("---:" for _ in cells[1:])))]


def _side_by_side(head: tuple[str, ...], one: Usage, other: Usage, times: int) -> str:
    rows = [
        _row(
            (
                LABELS[name],
                *(
                    cell
                    for usage in (one, other)
                    for cell in (_count(usage.units.get(name, 0) / times), _usd(usage, name))
                ),
            )
        )
        for name in LABELS
        if name in one.units or name in other.units
    ]
    total = _row(("**in all, USD a million commits**", "", f"**{dollars(one):.2f}**", "", f"**{dollars(other):.2f}**"))
    return "\n".join([*_head(head), *rows, total])


def _months(usages: Mapping[str, Usage]) -> str:
    head = ("", *(cell for name in usages for cell in (name, "USD")))
    rows = [
        _row((LABELS[name], *(cell for usage in usages.values() for cell in (_units(usage, name), _usd(usage, name)))))
        for name in LABELS
        if any(name in usage.units for usage in usages.values())
    ]
    sums = (cell for usage in usages.values() for cell in ("", f"**{dollars(usage):.2f}**"))
    return "\n".join([*_head(head), *rows, _row(("**in all, a month**", *sums))])


def _units(usage: Usage, name: str) -> str:
    return _count(usage.units[name]) if name in usage.units else ""


def _usd(usage: Usage, name: str) -> str:
    return f"{usage.units[name] * price_of(name):.2f}" if name in usage.units else ""


def _count(count: float) -> str:
    if count == 0:
        return ""
    if count < 0.01:
        return f"{count:.6f}".rstrip("0")
    if count < 10 and count != int(count):
        return f"{count:.2g}"
    return f"{round(count):,}".replace(",", " ")


def with_tables(text: str) -> str:
    """Return the page with every table as it is computed now."""
    for name, table in tables().items():
        pattern = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = pattern.subn(lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}", text)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"docs/cost.md: expected one place for the table {name}, found {found}")
    return text


def main() -> int:
    """Write the tables, or check them."""
    text = PAGE.read_text(encoding="utf-8")
    current = with_tables(text)
    if "--check" in sys.argv[1:]:
        print("docs/cost.md is up to date" if text == current else "docs/cost.md is not: run python -m benchmarks.cost")
        return int(text != current)
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
