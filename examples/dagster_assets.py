"""Dagster: maintain tables after they are loaded. A held lease is tried again; a refusal is not.

`dagster dev -f examples/dagster_assets.py` shows the assets. They need `lakesweep[cli]` or more beside `dagster`.
"""

from collections.abc import Iterator

import dagster as dg

from lakesweep import LeaseHeldError, RunRefusedError, Table, UsageError

TABLES = ("sales.db/orders", "sales.db/items")


class Lake(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the tables are, and what Lakesweep knows about them."""

    warehouse: str
    control: str | None = None
    wait_seconds: float = 60
    """How long to wait if another maintainer works on a table."""

    def table(self, name: str) -> Table:
        """Return a table of the warehouse."""
        return Table(f"{self.warehouse}/{name}", control=self.control)


def maintenance_of(table: str) -> dg.AssetsDefinition:
    """Return the asset that maintains a table after each load of it."""
    words = table.replace(".db", "").split("/")

    @dg.asset(key=[*words, "maintained"], deps=[dg.AssetKey(words)], group_name="maintenance")
    def maintained(lake: Lake) -> dg.MaterializeResult:
        """Snapshots, tags and partitions as the table's own options ask for."""
        try:
            report = lake.table(table).maintain(execute=True)
        except LeaseHeldError as error:
            raise dg.RetryRequested(max_retries=10, seconds_to_wait=lake.wait_seconds) from error
        except (RunRefusedError, UsageError) as error:  # another attempt would meet the same
            raise dg.Failure(str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            metadata={
                "status": report.status,
                "deleted objects": report.deleted,
                "deleted bytes": report.deleted_bytes,
                "warnings": list(report.warnings),
            }
        )

    return maintained


def _assets() -> Iterator[dg.AssetsDefinition]:
    for table in TABLES:
        yield maintenance_of(table)


defs = dg.Definitions(
    assets=list(_assets()),
    jobs=[dg.define_asset_job("maintain", dg.AssetSelection.groups("maintenance"))],
    schedules=[dg.ScheduleDefinition(job_name="maintain", cron_schedule="0 * * * *", name="hourly")],
    resources={"lake": Lake(warehouse=dg.EnvVar("WAREHOUSE"), control=dg.EnvVar("LAKESWEEP_CONTROL"))},
)
