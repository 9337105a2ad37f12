"""The command line as a job on Spark runs it: whoever started the job learns no more of its end than the exit code.

A refusal is final there, and an error is tried again (`aws/spark_jobs.py`). An endpoint that did not answer may answer
the next attempt, so a job ends with another exit code for it than a command does, where a person reads the hint.
"""

from lakesweep.cli.main import main
from lakesweep.cli.reach import silence_ends_with

ERROR = 1


def main_of_job(argv: list[str]) -> int:
    """Run one command line and return the exit code of the job."""
    with silence_ends_with(ERROR):
        return main(argv)
