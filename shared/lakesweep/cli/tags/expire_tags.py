"""`lakesweep expire-tags`."""

from typing import Annotated

import typer

from lakesweep.cli import options
from lakesweep.cli.options import Place, at_place

EXAMPLES = (
    "lakesweep expire-tags s3://lake/sales.db/orders --time-zone Europe/Berlin",
    "lakesweep expire-tags /data/orders --match '20*' --keep-daily 30 --keep-monthly 84 --execute",
    "lakesweep expire-tags /data/orders --match 'load-*' --keep-last 5 --keep-tag '*-signed' --json",
)


def _number(name: str, what: str) -> object:
    return typer.Option(name, metavar="N", help=what)


@at_place("branch", "policy", "control", "external_root")
def expire_tags(
    place: Place,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Delete all tags created before this time, with or without a time to live: ISO-8601 with a zone, or "
            "epoch milliseconds. Not together with --match.",
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match", metavar="PATTERN", help="Names of the tags that the --keep options apply to, such as '20*'."
        ),
    ] = None,
    keep_last: Annotated[str | None, _number("--keep-last", "Keep the newest N.")] = None,
    keep_within: Annotated[
        str | None, typer.Option("--keep-within", metavar="DURATION", help="Keep younger tags, such as '30 d'.")
    ] = None,
    keep_daily: Annotated[str | None, _number("--keep-daily", "Keep the newest of each of the last N days.")] = None,
    keep_weekly: Annotated[str | None, _number("--keep-weekly", "The same for weeks (ISO).")] = None,
    keep_monthly: Annotated[str | None, _number("--keep-monthly", "The same for months.")] = None,
    keep_yearly: Annotated[str | None, _number("--keep-yearly", "The same for years.")] = None,
    keep_tag: Annotated[
        list[str] | None,
        typer.Option("--keep-tag", metavar="PATTERN", help="Keep tags with matching names; repeatable."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="Time zone of the tags' times and of the calendar, such as Europe/Berlin; by default that of the "
            "fleet policy.",
        ),
    ] = None,
    option: options.TableOptions = None,
    grace: options.Grace = None,
    execute: options.Execute = False,
) -> int:
    """Delete expired tags and tags that no calendar rule keeps, with the files that only they hold.

    Lakesweep deletes a tag that matches --match if no --keep option keeps it. It keeps a tag whose time to live is not
    over, and a tag that a rule keeps, whatever its time to live. It shows each tag with the reason. Rules and time zone
    of a fleet policy apply as well. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "expire_tags",
        {
            "older_than": older_than,
            "match": match,
            "keep_last": keep_last,
            "keep_within": keep_within,
            "keep_daily": keep_daily,
            "keep_weekly": keep_weekly,
            "keep_monthly": keep_monthly,
            "keep_yearly": keep_yearly,
            "keep_tag": keep_tag or None,
            "time_zone": time_zone,
            "grace": grace,
        },
        option,
        execute=execute,
        always_typed=(
            "match",
            "keep_last",
            "keep_within",
            "keep_daily",
            "keep_weekly",
            "keep_monthly",
            "keep_yearly",
            "keep_tag",
        ),
    )
