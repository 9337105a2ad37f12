"""Delete rows by a condition: `spark-submit jobs/delete_rows.py TABLE --where-file PATH --control ...`.

Everything `lakesweep delete-rows` takes, this takes, and answers with the same document and exit code. One exit code
differs: an endpoint that does not answer is 1, which is tried again. Spark writes a job's arguments into its event log,
so a job takes the condition from a file.
"""

import sys

from lakesweep.cli.job import main_of_job

if __name__ == "__main__":
    sys.exit(main_of_job(["delete-rows", *sys.argv[1:], "--engine", "spark"]))
