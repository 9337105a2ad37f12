"""`lakesweep doctor`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from lakesweep.cli.command import reads
from lakesweep.cli.options import Place, option

FINDINGS, UNKNOWN = 6, 4
_CODES = {"healthy": 0, "findings": FINDINGS, "unknown": UNKNOWN}


@reads(
    "lakesweep doctor /data/orders",
    "lakesweep doctor s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep doctor s3://lake/sales.db/orders --control s3://ops/lakesweep --stack lakesweep --json",
    place=("policy", "control"),
)
def doctor(
    place: Place,
    stack: Annotated[
        str | None,
        option("--stack", "Also look at the deployment of this name: functions, queues, rule, schedules.", "NAME"),
    ] = None,
    no_probe: Annotated[
        bool,
        option("--no-probe", "Write nothing: do not try whether the control location keeps conditions."),
    ] = False,
) -> int:
    """Look at what a table needs around it, with one line for each thing, and the command that mends it.

    Looks at the control location, the lease, begun plans, passes, the fleet policy, clocks, versions, and the settings
    of buckets that delete objects or stop an undo. To try conditional writes it writes one small document,
    `doctor.json`, to the control location. Changes nothing else. `check` looks at the table itself.
    Exit code 0: healthy. 6: something is broken. 4: nothing is known to be broken, but something could not be looked
    at.
    """
    from lakesweep.api.mending import with_options_in_lines
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.diagnosis.doctor import diagnose
    from lakesweep.runs.session import Table

    found = dict.fromkeys(_CODES, 0)

    def read(opened: Table) -> Mapping[str, object]:
        deployment = None
        if stack is not None:
            from lakesweep.aws.deployment import Clients, deployment_lines

            clients = Clients(place.endpoint_url, place.region)
            control = None if opened.area is None else opened.area.store.location
            location = opened.ref.location

            def deployment() -> Iterator[Any]:
                return deployment_lines(clients, stack, location, control)

        document = diagnose(opened, writes=not no_probe, deployment=deployment, stack=stack).to_json()
        found[str(document["status"])] += 1
        return with_options_in_lines(document, place)

    code = answer_document(place, read, _lines)
    return code or max((_CODES[status] for status, count in found.items() if count), default=0)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{document['table']}: {document['status']}"
    for line in document["lines"]:
        yield f"{line['verdict']:<8} {line['subject']:<10} {line['says']}"
        if line["mend"] is not None:
            yield f"{'mend':>8} {'':<10} {line['mend']}"
