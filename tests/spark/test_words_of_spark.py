"""What is said where Spark itself ends a job. No Spark takes part: these are texts that Spark 3.5 and 4.0 write."""

import re
import traceback
from pathlib import Path

import pytest

from lakesweep.errors import AccessDeniedError, FormatError, MaintenanceError
from lakesweep.spark.parts import Part
from lakesweep.spark.shuffle import LIVE, _chunks
from lakesweep.spark.tasks import Access, collected

_PYTHON = """\

  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/lakesweep/spark/parts.py", line 57, in read_part
    raise FormatError(f"{{path}}: expected a part of the scan, found nothing; begin another scan") from error
{line}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
"""


class Answers:
    """Answers whose job ends in an error."""

    def __init__(self, line: str) -> None:
        self._line = line

    def collect(self) -> None:
        raise RuntimeError(_PYTHON.format(line=self._line))


@pytest.mark.parametrize(
    ("line", "kind", "code", "said"),
    [
        ("lakesweep.errors.FormatError: a/live-1: gone; begin another scan", FormatError, "damaged", "a/live-1: gone"),
        ("lakesweep.errors.AccessDeniedError: GET a", AccessDeniedError, "access_denied", "GET a"),
        ("java.io.IOException: No space left on device", MaintenanceError, "spark_failed", "No space left"),
        ("lakesweep.errors.Other: a", MaintenanceError, "spark_failed", "a"),
        ("lakesweep.errors.json: a", MaintenanceError, "spark_failed", "a"),
    ],
)
def test_an_error_of_this_package_is_that_error(line: str, kind: type[MaintenanceError], code: str, said: str) -> None:
    """A part that is gone stays gone: nobody may be told that the same scan goes on."""
    with pytest.raises(MaintenanceError) as error:
        list(collected(Answers(line)))  # type: ignore[arg-type]
    assert type(error.value) is kind
    assert error.value.code == code
    assert said in str(error.value)
    assert ("another attempt with the same scan id" in str(error.value)) == (code == "spark_failed")
    assert "raise FormatError" not in str(error.value)


@pytest.mark.parametrize(
    "why",
    ["Python worker exited unexpectedly (crashed)", "results of 1 tasks (2.0 GiB) is bigger than maxResultSize"],
)
def test_a_job_that_ends_without_an_exception_of_python_says_why(why: str) -> None:
    text = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        f": org.apache.spark.SparkException: Job aborted due to stage failure: {why}\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2833)\n"
        "Caused by: java.io.EOFException\n"
    )
    with pytest.raises(MaintenanceError, match=re.escape(f"Job aborted due to stage failure: {why}")):
        list(collected(Answers(text)))  # type: ignore[arg-type]


def test_a_part_that_is_gone_is_damage_and_no_missing_object(tmp_path: Path) -> None:
    """A worker of an RDD writes the whole chain of exceptions, the cause first."""
    gone = Part("s/live-1.parquet", 5, "00")
    try:
        list(_chunks(Access(str(tmp_path / "t"), str(tmp_path / "c")), 2, by_owner=False, groups=[[(LIVE, gone)]]))
    except FormatError:
        text = traceback.format_exc()
    assert "lakesweep.errors.ObjectNotFoundError: " in text
    job = f"Job aborted: Task 0 failed: PythonException: {text}\nCaused by: PythonException: {text}"
    with pytest.raises(FormatError, match="begin another scan"):
        list(collected(Answers(job)))  # type: ignore[arg-type]
