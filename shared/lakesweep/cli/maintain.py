"""`lakesweep maintain`."""

from lakesweep.cli.options import Branch, Control, EndpointUrl, Execute, Json, Place, Region, TableOptions, TablePath

EXAMPLES = (
    "lakesweep maintain s3://lake/sales.db/orders --control s3://ops/lakesweep --execute",
    "lakesweep maintain /data/orders --branch rt",
)


def maintain(
    table: TablePath,
    branch: Branch = "main",
    option: TableOptions = None,
    execute: Execute = False,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Do what a table's own options ask for after a commit.

    Retention must be stated in the table's schema (or by --option). Prints the plan, and changes nothing without
    --execute.
    """
    from lakesweep.cli.operation import run_named

    place = Place(table, branch, control, endpoint_url, region, as_json)
    return run_named(place, "maintain", {}, option, execute=execute)
