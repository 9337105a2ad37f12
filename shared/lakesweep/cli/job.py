"""The command line for a job on Spark. The caller of a job learns only its exit code.

For a job, a refusal is final and an error is retried (`aws/jobs/spark.py`). An endpoint that did not answer may answer
the next attempt. So in this case a job ends with another exit code than a command, whose user reads the hint.
"""

from lakesweep.api.in_job import in_job
from lakesweep.cli.ending import end_beside_arrow
from lakesweep.cli.main import main
from lakesweep.cli.reach import silence_ends_with

ERROR = 1


def main_of_job(argv: list[str]) -> int:
    """Run one command line and return the exit code of the job; the process may end here."""
    with silence_ends_with(ERROR), in_job():
        code = main(argv)
    end_beside_arrow(code)
    return code
