"""What the other tests of Spark stand on: the right Java, Python and package everywhere, clusters that lose members."""

import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakesweep
from tests.support.spark import JAVA_VERSION, environment, run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def facts_of_the_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        facts = [sys.executable, platform.python_version(), lakesweep.__version__, lakesweep.__file__]
        yield pa.RecordBatch.from_pydict({"facts": [facts]})


@pytest.mark.spark4
def test_driver_and_workers_are_one_python_and_one_package(spark: "SparkSession") -> None:
    """Otherwise the tests would test something installed, or nothing at all."""
    facts = spark.range(0, 1, 1, 1).mapInArrow(facts_of_the_worker, "facts array<string>").first()

    assert facts is not None
    assert facts["facts"] == [sys.executable, platform.python_version(), lakesweep.__version__, lakesweep.__file__]


@pytest.mark.spark4
def test_spark_runs_on_the_java_that_was_chosen_and_listens_to_this_machine_alone(spark: "SparkSession") -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.System.getProperty("java.version").split(".")[0] == JAVA_VERSION
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


LOSES_AN_EXECUTOR = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.spark import executor_pid

spark = SparkSession.builder.getOrCreate()
once = Path(sys.argv[1])

def work(batches):
    for batch in batches:
        try:
            once.touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(executor_pid(), signal.SIGKILL)
        yield pa.RecordBatch.from_pydict({"executor": [executor_pid()] * batch.num_rows})

rows = spark.range(0, 100, 1, 4).mapInArrow(work, "executor long").collect()
print(len(rows), os.path.exists(once))
"""


@pytest.mark.long
def test_a_local_cluster_does_the_work_of_an_executor_that_it_lost(tmp_path: Path) -> None:
    """The driver, which is not one of the executors, lives on and has every row once."""
    finished = run_script(
        LOSES_AN_EXECUTOR, str(tmp_path / "once"), scratch=tmp_path / "spark", master="local-cluster[2,1,1024]"
    )

    assert finished.exit_code == 0, finished.log
    assert finished.output.split() == ["100", "True"]
    assert "Lost executor" in finished.log


def test_a_failed_job_says_so_with_its_exit_code(tmp_path: Path) -> None:
    """Job tests compare exit codes with those of the command."""
    finished = run_script("import sys; print('so far'); sys.exit(3)", scratch=tmp_path)

    assert (finished.exit_code, finished.output) == (3, "so far\n")


STARTS_A_SESSION = """
import subprocess
import sys
import pyarrow as pa
from lakesweep.spark.session import open_session

def executable(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"found": [sys.executable]})

print(open_session().range(0, 1, 1, 1).mapInArrow(executable, "found string").first().found == sys.executable)
"""


@pytest.mark.long
def test_workers_of_a_new_session_run_the_python_of_the_caller(tmp_path: Path) -> None:
    """Nobody has to export a variable; the first `python3` on the path may lack the package."""
    variables = {name: value for name, value in environment(tmp_path).items() if not name.startswith("PYSPARK_")}
    found = subprocess.run(
        [sys.executable, "-c", STARTS_A_SESSION],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.stdout.split() == ["True"], found.stderr
