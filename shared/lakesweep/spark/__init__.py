"""Maintenance of the largest tables on Spark, through PySpark; reading and deleting rows. No other package uses Spark.

Spark distributes work and shuffles rows. The driver and the executors read and write through `lakesweep.storage` alone,
both tables and Lakesweep's own documents. One stage hands rows to the next in *parts* in the control location. Only
Parquet files of a version are read by Spark's own reader, if it can (`lakesweep.spark.reading`).

    from lakesweep.spark import delete_rows, open_reading, read_table
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakesweep.spark.reading.read import open_reading, read_table
    from lakesweep.spark.rows.delete import delete_rows

__all__ = ["delete_rows", "open_reading", "read_table"]


def __getattr__(name: str) -> Any:
    """Import what works on rows when it is asked for: tasks of scans need none."""
    if name == "delete_rows":
        from lakesweep.spark.rows.delete import delete_rows

        return delete_rows
    if name in __all__:
        from lakesweep.spark.reading import read

        return getattr(read, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
