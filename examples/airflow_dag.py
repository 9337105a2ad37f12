"""Airflow: maintain tables each hour, or as the last task of a load. A held lease is tried again; a refusal is not."""

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

from lakesweep import RunRefusedError, Table, UsageError

WAREHOUSE = os.environ.get("WAREHOUSE", "s3://lake")
TABLES = ["sales.db/orders", "sales.db/items"]


@task(retries=10, retry_delay=timedelta(minutes=1))
def maintain(table: str) -> dict[str, object]:
    """Do what the table's own options ask for. The control location is that of `$LAKESWEEP_CONTROL`."""
    try:
        report = Table(f"{WAREHOUSE}/{table}").maintain(execute=True)
    except (RunRefusedError, UsageError) as error:  # another attempt would meet the same
        raise AirflowFailException(str(error)) from error
    return {"table": table, "status": report.status, "deleted": report.deleted, "bytes": report.deleted_bytes}


@dag(schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, tags=["lakesweep"])
def lakesweep_maintenance() -> None:
    """One task a table."""
    maintain.expand(table=TABLES)


lakesweep_maintenance()
