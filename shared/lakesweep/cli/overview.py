"""`lakesweep overview`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Control, EndpointUrl, Json, LocalControl, Policy, Region, option
from lakesweep.cli.page import Html, page_file, paged

EXAMPLES = (
    "lakesweep overview s3://lake --control s3://ops/lakesweep",
    "lakesweep overview s3://lake/sales.db --sort saving --limit 10",
    "lakesweep overview --tables tables.txt --json",
    "lakesweep overview s3://lake --control s3://ops/lakesweep --html lake.html",
    "lakesweep overview s3://lake --control s3://ops/lakesweep --fail-on act",
)


def overview(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLACE]...", help="Warehouses, databases or tables: local paths or s3://bucket/prefix."
        ),
    ] = None,
    *,
    tables: Annotated[
        str | None, option("--tables", "Read places from a file, one a line; - is standard input.", "FILE")
    ] = None,
    sort: Annotated[
        str,
        option(
            "--sort",
            "Order of the tables: urgency (findings to act on, then what a pass would save, then cost), saving, cost, "
            "bytes, small-files, snapshots or name.",
            "ORDER",
        ),
    ] = "urgency",
    limit: Annotated[int, option("--limit", "Show the first N tables and findings; --json has all.", "N")] = 20,
    fresh: Annotated[bool, option("--fresh", "Measure every table again, whatever is remembered.")] = False,
    without_versions: Annotated[
        bool, option("--without-versions", "Do not count versions that are not current; takes fewer requests.")
    ] = False,
    fail_on: Annotated[
        str | None,
        option("--fail-on", "Exit with 6 if there is a finding of this severity or above: act or look.", "SEVERITY"),
    ] = None,
    processes: Annotated[
        int | None,
        option("--processes", "Measure in up to N processes; by default one for each core, and up to 4.", "N"),
    ] = None,
    html: Html = None,
    policy: Policy = None,
    control: Control = None,
    local_control: LocalControl = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Show what the tables of a warehouse cost, why, and on which one to act first.

    Measures each table: its bytes by reason, small files, what a pass would save, and what is wrong. If a table cannot
    be read, its row says why, and the others go on. The control location remembers what was measured, so the next call
    measures only tables that have changed, and continues a stopped one. Changes no table. Exit code 4: a table could
    not be read.
    """
    from lakesweep.cli.answer import answer_call
    from lakesweep.cli.options import Place
    from lakesweep.cli.overviewed import exit_code_of, overview_lines
    from lakesweep.cli.warehouse import Asked, document_of

    place = Place(
        table="",
        policy=policy,
        control=control,
        local_control=local_control,
        endpoint_url=endpoint_url,
        region=region,
        as_json=as_json,
    )
    asked = Asked(
        place=place,
        places=tuple(places or ()),
        tables=tables,
        order=sort,
        is_fresh=fresh,
        versions=not without_versions,
        processes=processes,
        limit=limit,
        fail_on=fail_on,
    )
    found: list[Mapping[str, Any]] = []

    def call() -> Mapping[str, Any]:
        found.append(document_of(asked))
        return found[0]

    def lines(document: Mapping[str, Any]) -> Iterable[str]:
        return overview_lines(document, limit)

    def page(document: Mapping[str, Any], text: Sequence[str]) -> str:
        from lakesweep.pages.overview import overview_page

        return overview_page(document)

    code = answer_call(*paged(page_file(html, page), call, lines, as_json=as_json), as_json=as_json)
    return code or exit_code_of(found[0], fail_on)
