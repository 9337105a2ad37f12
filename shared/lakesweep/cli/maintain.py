"""`lakesweep maintain`."""

from lakesweep.cli.options import (
    Branch,
    Control,
    EndpointUrl,
    Execute,
    Json,
    Place,
    Policy,
    ProtectCommitUser,
    Region,
    TableOptions,
    TablePath,
)

EXAMPLES = (
    "lakesweep maintain s3://lake/sales.db/orders --control s3://ops/lakesweep --execute",
    "lakesweep maintain s3://lake/sales.db/orders --policy s3://ops/policy.json --execute",
    "lakesweep maintain /data/orders --branch rt",
)


def maintain(
    table: TablePath,
    branch: Branch = "main",
    option: TableOptions = None,
    protect_commit_user: ProtectCommitUser = None,
    policy: Policy = None,
    execute: Execute = False,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Do what a table's own options ask for after a commit.

    Retention must be stated in the table's schema (or by --option, or in the fleet policy). With a fleet policy, only
    tables that it says to delete from lose anything. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    place = Place(table, branch, control, endpoint_url, region, as_json, policy)
    return run_named(place, "maintain", {"protect_commit_user": protect_commit_user}, option, execute=execute)
