"""What scans for orphan files are thought to take, and where they run: the tables of docs/cost.md about them.

The estimates are those of the package, for tables as the benchmarks write them: a hundred snapshots, two entries of
manifests for each file, manifests of some 14 000 entries. What they rest on was measured; nothing was run on AWS.
"""

from __future__ import annotations

from dataclasses import replace

from lakesweep.model.scans import Engine, Estimate, Facts, LocalFacts, SparkFacts
from lakesweep.operations.orphans.rules.backend_choice import choose_backend, estimate_of, say_count, say_seconds

SIZES = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
ROOTS = 100
IN_A_FUNCTION = LocalFacts(memory_mib=1024, seconds=900.0, cores=1024 / 1769, is_lambda=True)
SPARK = {30_000_000: SparkFacts(16, 4, 120.0), 100_000_000: SparkFacts(16, 4, 120.0)}
SMALLER_SPARK = SparkFacts(4, 4, 120.0)
ENGINES: tuple[Engine, ...] = ("local", "lambda", "spark")
CHURN = 100
"""One manifest in so many is new when a scan is repeated."""


def facts(objects: int) -> Facts:
    """Return what is known of such a table."""
    return Facts(
        objects,
        "last_run",
        roots=ROOTS,
        lists=2 * ROOTS,
        manifests=ROOTS + objects * 2 // 14_000,
        entries=2 * objects,
        local=IN_A_FUNCTION,
        has_fan_out=True,
        spark=SPARK.get(objects, SMALLER_SPARK),
    )


def small_table() -> Estimate:
    """Return what a scan takes of a table with ten snapshots of twenty files each."""
    known = Facts(320, "last_run", roots=10, lists=20, manifests=12, entries=400, local=IN_A_FUNCTION)
    return estimate_of(known, "local")


def table() -> str:
    """Return the table of sizes."""
    rows: list[tuple[str, ...]] = [("objects", "one function", "many functions", "Spark", "chosen")]
    for objects in SIZES:
        known = facts(objects)
        chosen = choose_backend(known)
        cells = [
            _cell(estimate_of(known, engine))
            if engine in {each.engine for each in chosen.estimates}
            else "does not fit"
            for engine in ENGINES
        ]
        rows.append((say_count(objects), *cells, f"`{chosen.engine}`"))
    return _lines(rows)


def steps() -> str:
    """Return what a fan-out of a million objects asks, and what the same scan asks a week later."""
    first = facts(1_000_000)
    again = replace(first, new_manifests=max(1, first.manifests // CHURN), segments=3)
    found = [estimate_of(each, "lambda") for each in (first, again)]
    rows: list[tuple[str, ...]] = [("step", "first scan: GET", "PUT", "LIST", "again: GET", "PUT", "LIST")]
    for step in found[0].by_step:
        rows.append(
            (step, *(_count(each.by_step[step].get(kind, 0)) for each in found for kind in ("get", "put", "list")))
        )
    rows.append(("**in all**", *(_count(each.requests[kind]) for each in found for kind in ("get", "put", "list"))))
    rows.append(("**USD**", *(cell for each in found for cell in (f"**{each.usd:.4f}**", "", ""))))
    return _lines(rows)


def _cell(estimate: Estimate) -> str:
    requests = say_count(estimate.request_count)
    return f"{say_seconds(estimate.seconds)}, {requests} requests, {estimate.usd:.4f} USD"


def _count(count: int) -> str:
    return say_count(count) if count else ""


def _lines(rows: list[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"| --- |{' ---: |' * (len(rows[0]) - 1)}", *body])
