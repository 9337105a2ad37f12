"""`lakesweep housekeeping`: the expiry of Lakesweep's own documents."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from lakesweep.cli.command import reads
from lakesweep.cli.options import Place, option


@reads(
    "lakesweep housekeeping s3://ops/lakesweep",
    "lakesweep housekeeping s3://ops/lakesweep --policy s3://ops/policy.json --execute",
    "lakesweep housekeeping /data/orders --json",
    place=("policy", "control"),
)
def housekeeping(
    place: Place,
    *,
    gone: Annotated[
        bool, option("--gone", "Also delete what is left of tables that certainly do not exist any more.")
    ] = False,
    execute: Annotated[bool, option("--execute", "Delete; otherwise nothing changes.")] = False,
) -> int:
    """Delete Lakesweep's own documents that are older than the fleet policy's control.retention says.

    TABLE may also be a control location. Then the command looks at all its tables. Deletes nothing in a table, keeps
    what an unfinished run, a scan, an undo within the stated time or an erasure needs, and names files that Lakesweep
    did not write.
    """
    from lakesweep.api.audited import control_store
    from lakesweep.api.opening import open_table, policy_location
    from lakesweep.api.outcome import BADNESS, EXIT_CODES
    from lakesweep.cli.answer import answer_call
    from lakesweep.control.audit.tables import known_tables
    from lakesweep.model.fleet_policy import FleetPolicy
    from lakesweep.operations.housekeeping.location import Call, house_of_all, house_of_table
    from lakesweep.runs.fleet import read_policy
    from lakesweep.runs.session import Table
    from lakesweep.storage.location import parse_location
    from lakesweep.storage.open import StoreSettings, open_store
    from lakesweep.storage.requests import RequestCounter
    from lakesweep.storage.store import Store

    codes: list[int] = []
    counter = RequestCounter()

    def opened(location: str) -> Store:
        settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
        return open_store(parse_location(location), counter=counter, settings=settings)

    def of_known(control: str, location: str) -> Table:
        return open_table(replace(place, table=location, control=control, local_control=True), counter)

    def call() -> Mapping[str, Any]:
        stated = policy_location(place)
        policy = FleetPolicy("", ()) if stated is None else read_policy(opened, stated)
        asked = Call(policy, execute=execute, gone=gone)
        control = control_store(place)
        if control is None:
            house = house_of_table(open_table(place, counter), asked)
        else:
            house = house_of_all(
                control, known_tables(control), lambda location: of_known(control.location, location), asked
            )
        ends = ((each.status, each.refusal) for each in house.tables)
        codes.extend(EXIT_CODES[status] if refusal is None else refusal.exit_code for status, refusal in ends)
        return house.to_json() | {"requests": counter.snapshot()}

    return answer_call(call, _lines, as_json=place.as_json) or max(codes, key=BADNESS.index, default=0)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import counted, fields, human_bytes, human_span

    retention = {key.removesuffix("_ms"): value for key, value in document["retention"].items()}
    kept = ", ".join(f"{key} {'for good' if ms is None else human_span(ms)}" for key, ms in retention.items())
    yield from fields([("retention", kept)])
    for table in document["tables"]:
        yield f"{table['table'] or table['table_key']}: {_status(table)}"
        going = [("delete", f"{_count(each)}: {each['reason']}") for each in table["delete"]]
        stays = [("keep", f"{_count(each)}: {each['reason'].replace('_', ' ')}") for each in table["kept"]]
        yield from fields(
            [*going, *stays, *(("look at", f"{each['name']}: {each['reason']}") for each in table["named"])]
        )
        if table["outcome"] is not None:
            outcome = table["outcome"]
            yield from fields(
                [("deleted", f"{counted(outcome['deleted'], 'document')}, {human_bytes(outcome['bytes'])}")]
            )
            yield from fields([("run", table["run_id"])])
        if table["refusal"] is not None:
            yield from fields([("refused", table["refusal"]["message"])])
    for name in document["foreign"]:
        yield f"{document['control']}/{name}/ is not Lakesweep's; it is kept"
    remembered = document["overviews"] or {"delete": (), "kept": ()}
    yield from fields(
        [
            *(("delete", f"{_count(each)}: {each['reason']}") for each in remembered["delete"]),
            *(("keep", f"{_count(each)}: {each['reason'].replace('_', ' ')}") for each in remembered["kept"]),
        ]
    )
    if not document["tables"]:
        yield "no table"


def _status(table: Mapping[str, Any]) -> str:
    words = table["status"].replace("_", " ")
    return f"{words}; the table does not exist any more (--gone)" if table["is_gone"] else words


def _count(each: Mapping[str, Any]) -> str:
    from lakesweep.cli.text import human_bytes

    return f"{each['count']} {each['kind']}, {human_bytes(each['bytes'])}"
