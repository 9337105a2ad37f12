"""`lakesweep audit verify` and `lakesweep audit ledger`."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Control, EndpointUrl, Json, LocalControl, Place, Region, Since, To, option
from lakesweep.cli.text import counted
from lakesweep.errors import UsageError

EXAMPLES = (
    "lakesweep audit verify s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep audit verify s3://ops/lakesweep --json",
)
LEDGER_EXAMPLES = (
    "lakesweep audit ledger s3://ops/lakesweep --since 1d --to deleted.parquet",
    "lakesweep audit ledger s3://lake/sales.db/orders --control s3://ops/lakesweep",
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


def ledger(
    place: Annotated[
        str, typer.Argument(metavar="TABLE | CONTROL LOCATION", help="One table, or all of a control location.")
    ],
    *,
    since: Since = None,
    until: Annotated[
        str | None,
        option(
            "--until",
            "Only runs that began before then: an age such as '1 d', ISO-8601 with a zone, or epoch milliseconds.",
            "TIME",
        ),
    ] = None,
    to: To = "-",
    control: Control = None,
    local_control: LocalControl = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Write the ledger as rows: what runs deleted, kept and restored, object by object.

    Changes nothing. Exit code 6: a part cannot be read, or has no place in its chain; its rows may be missing or
    wrong, and all others are written.
    """
    from lakesweep.cli.answer import answer_call
    from lakesweep.cli.history.records import written_lines

    problems: list[str] = []

    def call() -> dict[str, Any]:
        from lakesweep.api.exported import LEDGER_COLUMNS, ledger_of
        from lakesweep.api.exports import check_target, export
        from lakesweep.cli.history.records import one_output
        from lakesweep.cli.terminal.output import write_text
        from lakesweep.control.audit.export import Span

        target = one_output("-" if to is None else to, as_json)
        check_target(target)
        where = Place(place, control=control, endpoint_url=endpoint_url, region=region, local_control=local_control)
        span = Span(_time_ms(where, since, "--since"), _time_ms(where, until, "--until"))
        if span.is_empty:
            raise UsageError(
                f"--since and --until: expected a time before --until, found {since} and {until}", code="bad_argument"
            )
        count = export(target, LEDGER_COLUMNS, ledger_of(where, span, problems), write_text)
        return {"to": target, "rows": count, "problems": problems, "warnings": problems}

    code = answer_call(call, written_lines, as_json=as_json)
    return FINDINGS if code == 0 and problems else code


def _time_ms(place: Place, text: str | None, name: str) -> int | None:
    """Return a time that was typed; an age counts from the clock of the place's store."""
    from lakesweep.runs.parameters.age import Age
    from lakesweep.runs.parameters.times import parse_past

    found = None if text is None else parse_past(text, name)
    if not isinstance(found, Age):
        return found
    from lakesweep.storage.location import parse_location
    from lakesweep.storage.open import StoreSettings, open_store

    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    return found.before(open_store(parse_location(place.table), settings=settings).now_ms())


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
