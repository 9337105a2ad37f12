"""`lakesweep demo`."""

import errno
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from lakesweep.cli.options import Json, Place, option
from lakesweep.cli.page import Html, PageFile
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.demo.local_aws import LocalAws

EXAMPLES = ("lakesweep demo", "lakesweep demo --commits 60 --json", "lakesweep demo --html demo.html")


def demo(
    commits: Annotated[int, option("--commits", "How many commits the writer makes; at least 12.", "N")] = 40,
    html: Html = None,
    as_json: Json = False,
) -> int:
    """Write a table, expire its snapshots, and show that it still reads the same.

    Everything happens in this process and in a temporary folder.
    """
    from lakesweep.cli.answer import failed_document
    from lakesweep.cli.terminal.output import unwritten

    try:
        from lakesweep.demo.main import run

        return run(commits=commits, json_output=as_json, page=_page(html))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return failed_document(error, as_json)
        raise unwritten(sys.stdout, error) from error
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge: every error becomes an answer
        return failed_document(error, as_json)


def _page(html: str | None) -> "Callable[[LocalAws], str] | None":
    """Return what writes the overview of the demo's table.

    Raises:
        UsageError: FILE is no place for a page.
    """
    if html is None:
        return None
    from lakesweep.cli.warehouse import Asked, document_of
    from lakesweep.pages.overview import overview_page

    page = PageFile(html, lambda document, text: overview_page(document))
    if page.is_stream:
        raise UsageError("demo --html: expected a file, found -", code="bad_argument")
    page.check(as_json=False)

    def write(aws: "LocalAws") -> str:
        control = f"s3://{aws.control_bucket}"
        place = Place(table="", control=control, endpoint_url=aws.endpoint, region=aws.settings.region)
        asked = Asked(place=place, places=(f"s3://{aws.bucket}",), processes=1)
        return page.write(page.make(document_of(asked), ()))

    return write
