"""The Spark session: that of `spark-submit`, or one on this machine."""

import importlib
import logging
import sys
from typing import TYPE_CHECKING

from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("numpy", "pyarrow", "pandas")
"""Of every stage; pandas because PySpark asks for it wherever there is Arrow."""
LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Of a session on this machine alone, which nobody else has business with."""


def open_session(master: str | None = None) -> "SparkSession":
    """Return the session of this process, or a new one.

    Args:
        master: Where a new one runs; without it, where `spark-submit` says, or else on all cores of this machine.

    Raises:
        UsageError: PySpark, pyarrow or a Java is not here.
    """
    try:
        for name in _NEEDED:
            importlib.import_module(name)
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(
            f"engine spark needs pyspark, pyarrow, pandas and numpy: {error}; expected "
            "`pip install 'lakesweep[spark]'`, or a spark-submit whose Python has them",
            code="no_spark",
        ) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        SparkContext._ensure_initialized()  # else a SparkConf knows nothing of what spark-submit was told
        conf = SparkConf().setAppName("lakesweep").set("spark.ui.showConsoleProgress", "false")
        if master is not None:
            conf = conf.setMaster(master)
        if not conf.contains("spark.master"):
            conf = conf.setMaster("local[*]")
        if str(conf.get("spark.master")).startswith("local"):
            for key, value in LOCAL_SETTINGS.items():
                conf = conf.setIfMissing(key, value)
            # Else workers are whatever `python3` is on the path.
            conf = conf.setIfMissing("spark.pyspark.python", sys.executable)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        java = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"engine spark: no session could be started: {java}; expected a Java 17 (JAVA_HOME) and a Spark 3.5 or 4.0",
            code="no_spark",
        ) from error
