"""One Spark for each process that runs tests. `tests.support.spark` has those that differ from it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark import JAVA_VERSION, environment, java_home, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _java() -> None:
    if java_home() is None:
        pytest.skip(f"no Java {JAVA_VERSION} for Spark: install it, or set JAVA_HOME to it")


@pytest.fixture(scope="session")
def spark(_java: None) -> Iterator["SparkSession"]:
    """A session on `local[2]` whose workers import the package that is tested. Tests leave its settings as they are."""
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.mkdtemp(prefix="lakesweep-spark-"))
    with pytest.MonkeyPatch.context() as patch:
        # The JVM inherits the environment of this moment, and the Python workers that of the JVM.
        for name, value in environment(scratch).items():
            patch.setenv(name, value)
        patch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
        builder = SparkSession.builder.master("local[2]").appName(f"tests of {os.getpid()}")
        session = builder.config(map=dict(settings(scratch))).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
    shutil.rmtree(scratch, ignore_errors=True)
