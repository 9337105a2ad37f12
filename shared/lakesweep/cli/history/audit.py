"""`lakesweep audit verify`."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Control, EndpointUrl, Json, LocalControl, Place, Region
from lakesweep.cli.text import counted

EXAMPLES = (
    "lakesweep audit verify s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep audit verify s3://ops/lakesweep --json",
)
FINDINGS = 6


def verify(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE | CONTROL LOCATION]", help="One table, or all of a control location."),
    ] = None,
    *,
    control: Control = None,
    local_control: LocalControl = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Check that no part of the ledger was changed, deleted or added, and that no plan was changed.

    Without an argument, check all tables of --control or $LAKESWEEP_CONTROL. Changes nothing. Exit code 6: findings.
    """
    from lakesweep.api.audited import audit_of
    from lakesweep.cli.answer import answer_call

    found: list[Mapping[str, Any]] = []

    def call() -> dict[str, Any]:
        where = Place(place or "", control=control, endpoint_url=endpoint_url, region=region)
        found.append(audit_of(dataclasses.replace(where, local_control=local_control)))
        return dict(found[0])

    code = answer_call(call, _lines, as_json=as_json)
    return FINDINGS if code == 0 and found and not found[0]["whole"] else code


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    for table in document["tables"]:
        state = "whole" if table["whole"] else "broken"
        runs = table["runs"]
        plans = counted(table["plan_count"], "plan")
        yield f"{table['table'] or table['table_key']}: {state}; {_counts(runs)}; {plans}"
        yield from (f"  run {run['run_id']}: {text}" for run in runs for text in run["problems"])
        yield from (f"  plan {plan['plan_id']}: {plan['problem']}" for plan in table["plans"])
        if table["problem"]:
            yield f"  {table['problem']}"
    if not document["tables"]:
        yield "no table"


def _counts(runs: list[Mapping[str, Any]]) -> str:
    verdicts = [run["verdict"] for run in runs]
    words = {"whole": "whole", "open": "without an end", "no_chain": "no chain", "broken": "broken"}
    counts = [f"{verdicts.count(word)} {text}" for word, text in words.items() if word in verdicts]
    return f"runs: {', '.join(counts)}" if counts else "no run with a ledger"
