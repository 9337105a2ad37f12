"""`lakesweep execute`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

import typer

from lakesweep.cli.command import option_of, reads
from lakesweep.cli.options import Place, option
from lakesweep.runs.parameters.signatures import GRACE


@reads(
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c",
    "lakesweep execute /data/orders 20260131T120000Z-1f2e3d4c --confirm 20260131T120000Z-1f2e3d4c",
    "lakesweep execute s3://lake/sales.db/orders 20260131T120000Z-1f2e3d4c --control s3://ops/lakesweep --engine spark",
    place=("policy", "control", "external_root"),
)
def execute(
    place: Place,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="Plan id, as a dry run or `plans` shows it.")],
    confirm: Annotated[
        str | None, option("--confirm", "The plan id again, for a plan that needs confirmation.", "PLAN_ID")
    ] = None,
    grace: Annotated[str | None, option_of(GRACE)] = None,
    branch: Annotated[str | None, option("--branch", "Refuse a plan of another branch.", "NAME")] = None,
    engine: Annotated[
        str | None,
        option(
            "--engine", "local: this process. spark: executors of a Spark session, for plans of orphan files.", "ENGINE"
        ),
    ] = None,
    rate: Annotated[
        str | None, option("--rate", "With --engine spark: delete at most N objects a second; default 2000.", "N")
    ] = None,
) -> int:
    """Execute a stored plan.

    Lakesweep prints the plan first. It changes nothing if the table changed in a way that the plan does not
    allow. Running it twice is harmless.
    """
    from lakesweep.api.engines import chosen_executor
    from lakesweep.api.shown import planned
    from lakesweep.api.stored import execute_plan
    from lakesweep.cli.answer import answer_operation
    from lakesweep.cli.terminal.output import print_lines
    from lakesweep.cli.text import outcome_lines, report_lines
    from lakesweep.model.plan import Plan
    from lakesweep.runs.session import Table

    is_shown = False

    def show(opened: Table, plan: Plan) -> None:
        nonlocal is_shown
        is_shown = True
        if not place.as_json:
            print_lines(report_lines(replace(planned(opened, plan), is_stored_plan=True).to_json()))

    def lines(document: Mapping[str, object]) -> Iterable[str]:
        return outcome_lines(document) if is_shown else report_lines(document)

    return answer_operation(
        replace(place, branch=branch or "main"),
        "execute",
        lambda opened: execute_plan(
            opened,
            plan_id,
            branch=branch,
            confirm=confirm,
            grace=grace,
            engine=chosen_executor(place, opened, engine, rate),
            show=show,
        ),
        lines,
    )
