"""`lakesweep report`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Place, at_place
from lakesweep.errors import FormatError

EXAMPLES = ("lakesweep report /data/orders 20260131T120000Z-1f2e3d4c",)


@at_place("control")
def report(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Run id, as `runs` shows it.")],
) -> int:
    """Print what one run did. With --json, print the document as it is stored."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.history.stored import stored_report

    return answer_document(place, lambda opened: stored_report(opened, run_id), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import human_time, report_lines

    try:
        yield from list(report_lines(document["report"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"report of run {document['report']['run_id']}: expected the fields of a report, found it damaged; --json "
            "prints it unchanged"
        ) from error
    yield f"{'time':<10} {human_time(document['started_ms'])} to {human_time(document['finished_ms'])}"
