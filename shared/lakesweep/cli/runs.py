"""`lakesweep runs`."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.options import Control, EndpointUrl, Json, Limit, Place, Region, TablePath

EXAMPLES = ("lakesweep runs /data/orders", "lakesweep runs /data/orders --limit 5 --json")


def runs(
    table: TablePath,
    limit: Limit = 20,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """List the runs that changed a table, newest first."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.stored import list_runs

    place = Place(table, "main", control, endpoint_url, region, as_json)
    return answer_document(place, lambda opened: list_runs(opened, limit), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, human_bytes, human_time

    if not document["runs"]:
        yield f"no run of {document['table']}"
        return
    yield from columns(
        ("RUN", "OPERATION", "BRANCH", "FINISHED", "STATUS", "DELETED", "BYTES", "UNDO"),
        (
            (
                run["run_id"],
                str(run["operation"]),
                str(run["branch"]),
                human_time(run["finished_ms"]),
                str(run["status"]),
                str(run["deleted"]),
                human_bytes(run["bytes"]),
                _undo(run),
            )
            for run in document["runs"]
        ),
    )


def _undo(run: Mapping[str, Any]) -> str:
    from lakesweep.cli.text import human_time

    if not run["undoable"]:
        return str(run["undoable_reason"]).replace("_", " ")
    return "yes" if run["undoable_until_ms"] is None else f"until {human_time(run['undoable_until_ms'])}"
