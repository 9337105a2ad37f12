"""`delete_rows`: delete the rows of a condition from the newest version of a table, in one commit."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.parameters.rows import DELETE_ROWS
from lakesweep.spark.opening import open_table
from lakesweep.spark.rows.engine import SparkEngine
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_rows(
    session: "SparkSession",
    table: str,
    where: str,
    *,
    zone: str | None = None,
    branch: str = "main",
    control: str | None = None,
    policy: str | None = None,
    catalog_type: str | None = None,
    catalog_lock: bool = False,
    confirm: bool = False,
    show_rows: bool = False,
    keep_condition: bool = False,
    fallback_reappears: bool = False,
    options: Mapping[str, str] | None = None,
    execute: bool = False,
    settings: StoreSettings = DEFAULT_SETTINGS,
) -> RunReport:
    """Delete the rows for which a condition is true, and return the report; `report.to_json()` is its document.

    Deletion vectors hide the rows from readers of the new version; if the table has none, tasks rewrite data files with
    such rows. Older versions, tags and branches still show them. The values of the condition come neither into a log or
    report, nor into Spark's event log. But reports name partitions.

        delete_rows(spark, "s3://lake/sales.db/orders", "customer = 17", control="s3://lake-control",
                    catalog_type="filesystem", execute=True)

    Args:
        session: The session.
        table: The location of the table.
        where: The condition in Spark's SQL (`lakesweep.model.where`). A row for which it is null stays.
        zone: The time zone of times in the condition, and of the writers' clocks; by default the one that the policy
            declares, never the session's.
        branch: The branch.
        control: The control location, which an execution needs.
        policy: The location of the fleet policy.
        catalog_type: The type of the table's catalog, such as `filesystem`; by default as the policy declares it.
        catalog_lock: Every writer of the table takes the catalog's lock.
        confirm: The condition may be true for every row.
        show_rows: Without `execute`, show a few of the rows. They are not stored.
        keep_condition: The report keeps the text of the condition.
        fallback_reappears: A fallback branch may show its copy of the rows again.
        options: Table options for this call.
        execute: If false, nothing changes.

    Raises:
        UsageError: An argument is wrong, or there is no control location.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
        MaintenanceError: A task failed, or Spark did.
    """
    opened = open_table(table, branch, control, settings, policy=policy)
    engine = SparkEngine(lambda: session, opened, settings)
    arguments = {
        "where": where,
        "time_zone": zone,
        "catalog_type": catalog_type,
        "catalog_lock": catalog_lock,
        "confirm": confirm,
        "show_rows": show_rows,
        "keep_condition": keep_condition,
        "fallback_reappears": fallback_reappears,
        "options": options,
    }
    return run_operation(replace(opened, rows_engine=engine), DELETE_ROWS.name, arguments, execute=execute)
