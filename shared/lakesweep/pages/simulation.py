"""The page of `simulate --html`: bytes by the age that is kept, and what each policy keeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakesweep.pages.figures import visible
from lakesweep.pages.page import make_page

Document = Mapping[str, Any]

SHOWN = 100
"""Tables and readers in the page. Of more, it says how many."""


def simulation_page(document: Document) -> str:
    """Return the page.

    Args:
        document: As `Simulation.to_json` returns it.
    """
    tables, now_ms = document["tables"], document["measured_ms"]
    only = tables[0] if len(tables) == 1 else None
    cases = [{**case, "age_ms": _age(number, tables, now_ms)} for number, case in enumerate(document["cases"])]
    readers = [
        {**reader, "case": case["name"], "table": table["name"]}
        for table in tables
        for case in table["cases"]
        for reader in case["readers"]
        if reader["outcome"] != "kept"
    ]
    return make_page(
        "simulation.html.j2",
        {
            "title": f"Simulation of {visible(document['place'])}",
            "document": document,
            "only": only,
            "cases": cases,
            "tables": () if only else tables[:SHOWN],
            "more_tables": max(0, len(tables) - SHOWN),
            "readers": readers[:SHOWN],
            "more_readers": max(0, len(readers) - SHOWN),
        },
        {
            "curve": [[point["age_ms"], point["bytes"], point["snapshots"]] for point in document["curve"]],
            "cases": [
                [case["name"], case["age_ms"], case["kept"]["bytes"], case["kept"]["snapshots"]] for case in cases
            ],
        },
        ["charts.js", "simulation.js"],
    )


def _age(number: int, tables: Sequence[Document], now_ms: int) -> int | None:
    """Return how far back a policy reaches, of many tables the farthest; `None`: unknown, or no snapshot."""
    reached = [
        table["cases"][number]["reaches_ms"]
        for table in tables
        if number < len(table["cases"]) and table["cases"][number]["reaches_ms"] is not None
    ]
    return max(0, now_ms - min(reached)) if reached else None
