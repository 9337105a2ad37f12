"""The Spark session: the session of `spark-submit`, or a new one on this machine."""

import importlib
import logging
import sys
from typing import TYPE_CHECKING

from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("numpy", "pyarrow")
"""Packages that every stage needs."""
_PYTHON = "spark.pyspark.python"
"""The setting that says which Python workers run."""
_FIRST_PYTHON = "python3"
"""What they run otherwise: the first one on the path, which may lack this package."""
LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Settings of a local session. They let only this machine connect to it."""


def open_session() -> "SparkSession":
    """Return the session of this process, or start a new one: where `spark-submit` says, or else on this machine.

    Raises:
        UsageError: PySpark, another package or Java is missing.
    """
    try:
        for name in _NEEDED:
            importlib.import_module(name)
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(
            f"engine spark needs pyspark, pyarrow and numpy: {error}; expected "
            "`pip install 'lakesweep[spark]'`, or a spark-submit whose Python has them",
            code="no_spark",
        ) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        SparkContext._ensure_initialized()  # else a SparkConf does not contain the settings of spark-submit
        conf = SparkConf().setAppName("lakesweep").set("spark.ui.showConsoleProgress", "false")
        if not conf.contains("spark.master"):
            conf = conf.setMaster("local[*]")
        if str(conf.get("spark.master")).startswith("local"):
            for key, value in LOCAL_SETTINGS.items():
                conf = conf.setIfMissing(key, value)
            conf = conf.setIfMissing(_PYTHON, sys.executable)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        if session.sparkContext.pythonExec == _FIRST_PYTHON and conf.contains(_PYTHON):
            session.sparkContext.pythonExec = str(conf.get(_PYTHON))  # only spark-submit follows the setting by itself
        return session
    except Exception as error:
        java = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"engine spark: no session could be started: {java}; expected Java 17 (JAVA_HOME) and Spark 3.5 or 4.0",
            code="no_spark",
        ) from error
